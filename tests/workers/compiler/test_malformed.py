"""A graph that leads nowhere is refused in a sentence, never by an exception."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpu_runner.contracts import Expr, Graph, Node, NodeRef
from tests.few import few
from tests.workers.compiler.captured import captured, names, style
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal

MUTANTS = (8, 40)  # of each graph in `make test`, and in all


def answer_to(name: str, graph: Graph) -> Proposal | AuthorRefusal:
    return CompilerAuthor().propose(Brief(name, captured(name)[0], graph, style(name)))


def changed(graph: Graph, index: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:index], node, *graph.nodes[index + 1 :]))


def _lose_node(graph: Graph, index: int, dice: random.Random) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:index], *graph.nodes[index + 1 :]))


def _lose_argument(graph: Graph, index: int, dice: random.Random) -> Graph:
    return changed(graph, index, replace(graph.nodes[index], args=graph.nodes[index].args[:-1]))


def _strange_argument(graph: Graph, index: int, dice: random.Random) -> Graph:
    node = graph.nodes[index]
    strange = dice.choice(
        [None, "text", 7, -7, True, (9,), (), NodeRef("nowhere"), Expr("Q"), Expr("T +"), Expr("x()")]
    )
    place = dice.randrange(len(node.args) + 1)
    return changed(graph, index, replace(node, args=(*node.args[:place], strange, *node.args[place + 1 :])))


def _strange_shape(graph: Graph, index: int, dice: random.Random) -> Graph:
    node = graph.nodes[index]
    shape = list(node.meta.shape)
    dice.choice(
        [
            lambda: shape.append(Expr("H")),
            lambda: shape and shape.pop(),
            lambda: shape.insert(0, 0),
            lambda: shape.insert(0, -3),
            lambda: shape.insert(0, Expr("T / 3")),
            lambda: shape.insert(0, Expr("import os")),
            shape.reverse,
            shape.clear,
        ]
    )()
    return changed(graph, index, replace(node, meta=replace(node.meta, shape=tuple(shape))))


def _other_operator(graph: Graph, index: int, dice: random.Random) -> Graph:
    others = [
        "input",
        "upstream",
        "sum",
        "cat",
        "slice",
        "permute",
        "where",
        "full",
        "reshape",
        "expand",
        "arange",
        "gather",
    ]
    return changed(graph, index, replace(graph.nodes[index], op=dice.choice(others)))


def _other_dtype(graph: Graph, index: int, dice: random.Random) -> Graph:
    node = graph.nodes[index]
    return changed(graph, index, replace(node, meta=replace(node.meta, dtype=dice.choice(["bool", "int64", "", "q"]))))


def _lose_upstream(graph: Graph, index: int, dice: random.Random) -> Graph:
    return replace(graph, upstream=graph.upstream[:-1])


def _strange_output(graph: Graph, index: int, dice: random.Random) -> Graph:
    return replace(graph, outputs=(*graph.outputs[:-1], dice.choice(["nowhere", graph.nodes[index].name])))


def _strange_gradient(graph: Graph, index: int, dice: random.Random) -> Graph:
    node = dice.choice(["nowhere", graph.nodes[index].name, None])
    owner = dice.choice(["nobody", graph.inputs[0]])
    return replace(graph, gradients=((owner, node), *graph.gradients[1:]))


def _strange_inputs(graph: Graph, index: int, dice: random.Random) -> Graph:
    return replace(graph, inputs=dice.choice([(), (*graph.inputs, "nobody"), graph.inputs[1:]]))


CHANGES: list[Callable[[Graph, int, random.Random], Graph]] = [
    _lose_node,
    _lose_argument,
    _strange_argument,
    _strange_shape,
    _other_operator,
    _other_dtype,
    _lose_upstream,
    _strange_output,
    _strange_gradient,
    _strange_inputs,
]


@pytest.mark.parametrize("count", few(MUTANTS, MUTANTS[:1]))
@pytest.mark.parametrize("name", few(names(), names()[::2]))
def test_a_graph_that_was_tampered_with_is_compiled_or_refused(name: str, count: int) -> None:
    dice = random.Random(name)
    _, graph = captured(name)
    for _ in range(count):
        change = dice.choice(CHANGES)
        mutant = change(graph, dice.randrange(len(graph.nodes)), dice)
        try:
            given = answer_to(name, mutant)
        except Exception as error:
            pytest.fail(f"{change.__name__}: {type(error).__name__}: {error}")
        if isinstance(given, AuthorRefusal):
            assert given.sentence and "\n" not in given.sentence


def test_an_empty_graph_is_refused() -> None:
    assert isinstance(answer_to("reglu", Graph((), (), (), (), ())), AuthorRefusal)


def test_a_reference_to_nowhere_is_named() -> None:
    _, graph = captured("reglu")
    given = answer_to("reglu", _lose_node(graph, [n.op for n in graph.nodes].index("relu"), random.Random(0)))
    assert (
        isinstance(given, AuthorRefusal)
        and "which nothing computes before" in given.sentence
        and given.operator == "mul"
    )
