"""Long reductions as reductions of reductions, so that many programs share what few would do. Pure.

A program takes a row. Where there are fewer rows than a GPU has programs under way, and they are long, the inner dimensions are
reduced first, which are many short rows, and what these come to after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpu_runner.contracts import Graph, Problem
from gpu_runner.contracts.graph import Dim, Expr, Node, NodeRef, TensorMeta
from workers.authors.compiler.axes import reduced_dimensions
from workers.authors.compiler.graph import CannotCompileError, evaluate, numbers_of

NESTED = frozenset({"sum", "amax", "amin", "prod"})
FEW_ROWS = 256  # about two programs for each multiprocessor
LONG_ROW = 2**16
MANY_ROWS = 1024


def with_nested_reductions(problem: Problem, graph: Graph) -> Graph:
    """The graph with those of its reductions taken in two that the largest of the problem's workloads leaves to few programs.

    A sum of squares about a mean over the same dimensions is taken about the means of the inner dimensions, which moves it by
    their distances from the mean, so that both are had in one pass. Source: Chan, Golub and LeVeque, Updating Formulae and a
    Pairwise Algorithm for Computing Sample Variances, 1979.
    """
    sizes = [numbers_of(problem, workload) for workload in problem.workloads]
    if not sizes:
        return graph
    nest = _Nest(graph, max(sizes, key=lambda given: math.prod(given.values())))
    nodes = tuple(made for node in graph.nodes for made in nest.rewritten(node))
    return replace(graph, nodes=nodes) if len(nodes) > len(graph.nodes) else graph


def with_narrow_reductions(graph: Graph) -> Graph:
    """The graph with reductions of what was expanded taken before it is, where they run over other dimensions."""
    known = {node.name: node for node in graph.nodes}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _narrow(node, known) if node.op in NESTED else [node]
    return replace(graph, nodes=tuple(nodes)) if len(nodes) > len(graph.nodes) else graph


def _narrow(node: Node, known: Mapping[str, Node]) -> list[Node]:
    (operand,) = node.operands
    expanded = known[operand]
    if expanded.op != "expand":
        return [node]
    (source,) = expanded.operands
    whole, narrow = expanded.meta.shape, known[source].meta.shape
    gone = reduced_dimensions(node, len(whole))
    repeated = [place for place in range(len(whole)) if len(narrow) == len(whole) and narrow[place] != whole[place]]
    if not repeated or set(repeated) & set(gone):
        return [node]

    def kept(shape: tuple[Dim, ...]) -> TensorMeta:
        return TensorMeta(tuple(1 if place in gone else dim for place, dim in enumerate(shape)), node.meta.dtype)

    first = Node(f"{node.name} narrow", node.op, (NodeRef(source), gone, True), kept(narrow))
    if kept(whole).shape == node.meta.shape:
        return [first, replace(node, op="expand", args=(NodeRef(first.name),))]
    second = Node(f"{node.name} wide", "expand", (NodeRef(first.name),), kept(whole))
    return [first, second, replace(node, op="reshape", args=(NodeRef(second.name),))]


class _Nest:
    def __init__(self, graph: Graph, sizes: Mapping[str, int]) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._sizes = dict(sizes)
        self._inner: dict[
            str, tuple[Node, tuple[int, ...]]
        ] = {}  # by reduction: that of the inner dimensions, and these

    def rewritten(self, node: Node) -> Iterator[Node]:
        """The nodes that take a node's place, the last of which has its name."""
        inner = self._inner_dims(node) if node.op in NESTED else ()
        if not inner:
            yield node
            return
        pair = self._about_mean(node, inner)
        if pair is not None:
            yield from self._moved(node, inner, *pair)
            return
        (operand,) = node.operands
        first = self._reduced(f"{node.name} inner", node.op, operand, inner)
        self._inner[node.name] = first, inner
        yield first
        yield replace(node, args=(NodeRef(first.name), *node.args[1:]))

    def _used_again(self, name: str, count: int) -> bool:
        """Whether as many elements follow from a node: a sum that ends a pass is added up by whatever programs there are."""
        behind = {name}
        for node in self._nodes.values():
            if behind.intersection(node.operands):
                behind.add(node.name)
        return any(self._count(self._nodes[other].meta.shape) >= count for other in behind - {name})

    def _count(self, shape: tuple[Dim, ...]) -> int:
        try:
            return math.prod(dim if isinstance(dim, int) else int(evaluate(dim, self._sizes)) for dim in shape)
        except CannotCompileError:
            return 0

    def _inner_dims(self, node: Node) -> tuple[int, ...]:
        """The innermost of a reduction's dimensions that are to be reduced first; none where it is taken as it is."""
        (operand,) = node.operands
        shape = self._nodes[operand].meta.shape
        gone = reduced_dimensions(node, len(shape))
        rows, length = self._count(node.meta.shape), self._count(tuple(shape[dim] for dim in gone))
        if not 0 < rows < FEW_ROWS or length < LONG_ROW:
            return ()
        if rows == 1 and not self._used_again(node.name, length):
            return ()
        for first in range(1, len(shape)):
            inner = tuple(range(first, len(shape)))
            outer = tuple(dim for dim in gone if dim < first)
            short = self._count(tuple(shape[dim] for dim in inner))
            if outer and set(inner) <= set(gone) and 1 < short < length and rows * length // short >= MANY_ROWS:
                return inner
        return ()

    def _reduced(self, name: str, op: str, operand: str, dims: tuple[int, ...]) -> Node:
        meta = self._nodes[operand].meta
        shape = tuple(1 if place in dims else dim for place, dim in enumerate(meta.shape))
        made = Node(name, op, (NodeRef(operand), dims, True), TensorMeta(shape, meta.dtype))
        self._nodes[name] = made
        return made

    def _about_mean(self, node: Node, inner: tuple[int, ...]) -> tuple[Node, Node] | None:
        """The mean about which a sum of squares is taken, and the sum of the inner dimensions that it is computed from."""
        (operand,) = node.operands
        square = self._nodes[operand]
        factors = square.operands
        if node.op != "sum" or square.op != "mul" or len(factors) != 2 or factors[0] != factors[1]:
            return None
        difference = self._nodes[factors[0]]
        sides = difference.operands
        if difference.op != "sub" or len(sides) != 2:
            return None
        mean = self._nodes[sides[1]]
        total = self._nodes[mean.operands[0]] if mean.op == "div" and mean.operands else None
        known = self._inner.get(total.name) if total is not None else None
        if total is None or known is None or total.op != "sum" or known[1] != inner:
            return None
        same = known[0].operands == (sides[0],) and mean.args[1] == self._elements(node)
        return (mean, known[0]) if same else None

    def _elements(self, node: Node) -> Dim | None:
        """How many elements a reduction runs over, as the graph writes it."""
        (operand,) = node.operands
        shape = self._nodes[operand].meta.shape
        return _product([shape[dim] for dim in reduced_dimensions(node, len(shape))])

    def _moved(self, node: Node, inner: tuple[int, ...], mean: Node, total: Node) -> Iterator[Node]:
        (operand,) = total.operands
        shape, meta = self._nodes[operand].meta.shape, total.meta
        count = _product([shape[dim] for dim in inner])

        def made(suffix: str, op: str, args: tuple[NodeRef | Dim, ...], of: TensorMeta) -> Node:
            new = Node(f"{node.name} {suffix}", op, args, of)
            self._nodes[new.name] = new
            return new

        middle = made("middle", "div", (NodeRef(total.name), count), meta)
        apart = made("apart", "sub", (NodeRef(operand), NodeRef(middle.name)), self._nodes[operand].meta)
        square = made("square", "mul", (NodeRef(apart.name), NodeRef(apart.name)), apart.meta)
        squares = self._reduced(f"{node.name} inner", "sum", square.name, inner)
        distance = made("distance", "sub", (NodeRef(middle.name), NodeRef(mean.name)), meta)
        further = made("further", "mul", (NodeRef(distance.name), NodeRef(distance.name)), meta)
        weighed = made("weighed", "mul", (NodeRef(further.name), count), meta)
        whole = made("whole", "add", (NodeRef(squares.name), NodeRef(weighed.name)), meta)
        yield from (middle, apart, square, squares, distance, further, weighed, whole)
        yield replace(node, args=(NodeRef(whole.name), *node.args[1:]))


def _product(dims: list[Dim]) -> Dim:
    if all(isinstance(dim, int) for dim in dims):
        return math.prod(dim for dim in dims if isinstance(dim, int))
    return Expr(
        " * ".join(
            f"({dim.text})" if isinstance(dim, Expr) and not dim.text.isidentifier() else str(getattr(dim, "text", dim))
            for dim in dims
        )
    )
