"""A capture tells which values eager mode holds in a narrow dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gpu_runner.contracts import Graph, Node, Rounding, from_json, parse_problem, to_json
from gpu_runner.errors import ChildDied, ChildError
from gpu_runner.messages import FindRounding, Request, RoundedValues
from gpu_runner.tracing.joint import run
from gpu_runner.tracing.rounding import Watch, rounded_nodes
from gpu_runner.tracing.tracer import Tracer
from tests.gpu_runner.core.problems import full, gated, rows
from tests.gpu_runner.core.test_tracing import captured, handled

WEIGHTED = '{"x": "T H", "w": {"dims": "H", "role": "parameter"}}'
SIZES = '{"T": 64, "H": 128}'


def rounded(source: str) -> dict[str, tuple[str, ...]]:
    """Give the rounded values that are not stored, by what computes them, each with what keeps it from being rounded."""
    _, graph = captured(source)
    ends = {*graph.outputs, *(node for _, node in graph.gradients)}
    nodes = {node.name: node for node in graph.nodes}
    return {_formula(nodes[r.node], nodes): r.unless for r in graph.rounded if r.node not in ends}


def _formula(node: Node, nodes: dict[str, Node], depth: int = 1) -> str:
    names = [n.name for n in node.args if hasattr(n, "name")]
    inner = [
        n if nodes[n].op in {"input", "upstream"} else _formula(nodes[n], nodes, depth - 1) if depth else "..."
        for n in names
    ]
    return f"{node.op}({', '.join(inner)})"


def test_a_gate_is_rounded_before_its_product_and_so_is_its_gradient() -> None:
    found = rounded(gated('F.gelu(a, approximate="tanh") * b'))
    assert found == {"mul(mul(a), add(...))": (), "mul(upstream_0, b)": ()}


def test_a_cast_to_the_dtype_of_the_input_rounds_and_what_is_float32_before_it_does_not() -> None:
    body = "    h = x.float()\n    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True))\n    return w * h.to(x.dtype)"
    found = rounded(full(body, "x, w", WEIGHTED, SIZES))
    # Of the gradients: what the product hands back, and what is summed for a weight that is no float32.
    expected = {
        "cast(mul(..., ...))": (),
        "mul(upstream_0, w)": (),
        "mul(upstream_0, cast(...))": ("w",),
        "sum(mul(upstream_0, ...))": ("w",),
    }
    assert found == expected


def test_a_norm_that_is_one_operator_rounds_its_results_alone() -> None:
    source = full("    return F.layer_norm(x, (x.shape[-1],), w)", "x, w", WEIGHTED, SIZES)
    assert rounded(source) == {}
    # The statistics are narrow on the host and float32 on a GPU.
    _, graph = captured(source)
    ends = {*graph.outputs, *(node for _, node in graph.gradients)}
    assert {r.node for r in graph.rounded} == ends


def test_results_in_float32_are_not_rounded() -> None:
    assert rounded(rows("torch.softmax(x.float(), -1).exp()")) == {}


def test_every_operator_of_a_narrow_computation_rounds_but_none_of_a_decomposition() -> None:
    assert rounded(rows("x.exp() * x.sin()")) == {
        "exp(x)": (),
        "sin(x)": (),
        "cos(x)": (),
        "mul(upstream_0, exp(x))": (),
        "mul(upstream_0, sin(x))": (),
        "mul(mul(upstream_0, ...), cos(x))": (),
        "mul(mul(upstream_0, ...), exp(x))": (),
    }


@pytest.mark.parametrize(
    "source",
    [
        rows("x.exp() * 2 if x.dtype == torch.float32 else x.sin() * 2"),
        rows("x.exp() * x.sin() if x.dtype == torch.float32 else x.sin() * x.exp()"),
        rows("_changed(x).exp() * 2").replace(
            "def reference", "def _changed(x):\n    y = x * 2\n    y[:, :1].mul_(2)\n    return y\n\n\ndef reference"
        ),
    ],
    ids=["other operators", "another order", "a part of a tensor in place"],
)
def test_what_cannot_be_laid_side_by_side_is_captured_without_roundings(source: str) -> None:
    problem, graph = captured(source)
    assert problem.inputs and graph.nodes
    assert graph.rounded == ()


def test_what_is_computed_in_place_is_rounded_as_what_gives_a_new_tensor() -> None:
    new, changed = rows("(x * 3 * 2).exp() * 2"), rows("(x * 3).mul_(2).exp() * 2")
    assert rounded(changed) == rounded(new) != {}


def _watched(call: Any) -> list[Any]:
    watch = Watch()
    run(call, [torch.ones(3, 4), torch.ones(3, 4)], [0, 1], watch)
    return watch.calls


def test_the_same_operators_on_other_values_are_another_computation() -> None:
    one = _watched(lambda x: x[0].exp() * x[1])
    assert rounded_nodes(one, _watched(lambda x: x[0].exp() * x[1]), torch.bfloat16) == frozenset()
    assert rounded_nodes(one, _watched(lambda x: x[1].exp() * x[0]), torch.bfloat16) is None
    assert rounded_nodes(one, _watched(lambda x: x[0].exp() * x[0]), torch.bfloat16) is None
    assert rounded_nodes(one, _watched(lambda x: x[0].exp()), torch.bfloat16) is None


GELU = gated('F.gelu(a, approximate="tanh") * b')


def _graph_with(answer: Any) -> Graph:
    """Capture with another answer to where eager mode rounds."""
    plain = handled(GELU)

    def call(request: Request[Any]) -> Any:
        given = plain(request)
        if isinstance(request, FindRounding):
            if isinstance(answer, Exception):
                raise answer
            given = from_json(RoundedValues, to_json(given) | answer)
        return given

    return Tracer(call, parse_problem(GELU)).graph()


@pytest.mark.parametrize(
    "answer",
    [
        {"rounded": [["no_node", []]]},
        {"rounded": [["mul_0", ["no_input"]]]},
        {"rounded": [["mul_0"]]},
        {"rounded": None},
        {"rounded": [[["mul_0"], []]]},
        {"graph": {}},
        {"graph": None},
        ChildError("RuntimeError", "not implemented for bfloat16"),
        ChildDied(9, None),
    ],
)
def test_an_answer_that_does_not_fit_the_graph_is_no_rounding(answer: Any) -> None:
    assert _graph_with(answer).rounded == ()


def test_an_answer_that_fits_the_graph_is_taken() -> None:
    assert _graph_with({"rounded": [["mul_5", ["b"]]]}).rounded == (Rounding("mul_5", ("b",)),)
