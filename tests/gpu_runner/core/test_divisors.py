"""Whole scalars that divide sizes are symbols of the graph, with what they must divide; what follows no rule stays a number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import Expr, Graph, Multiple, Node, parse_problem
from gpu_runner.messages import CompareGraph, TraceReference, TraceSizes
from gpu_runner.tracing.fitting import Fitter
from gpu_runner.tracing.raw import from_plain
from gpu_runner.tracing.sizes import changed, defaults, size_sets, tries, triple_of, value_of
from tests.few import few
from tests.gpu_runner.core.problems import PROBLEMS, full
from tests.gpu_runner.core.test_tracing import captured, handled

ROWS, ROW = '{"x": "T H"}', '{"T": 128, "H": 1024}'
MAPS, MAP = '{"x": "N C H W"}', '{"N": 8, "C": 64, "H": 16, "W": 16}'
GROUPS = "    t, h = x.shape\n    y = x.view(t, g, h // g)\n"
FAMILIES = {
    "group_norm": (PROBLEMS["group_norm"], (Multiple("C", "groups"),)),
    "one group": (PROBLEMS["group_norm"].replace("groups: int = 8", "groups: int = 1"), (Multiple("C", "groups"),)),
    "channel shuffle": (
        full(
            "    n, c, s = x.shape\n    return x.view(n, g, c // g, s).transpose(1, 2).reshape(n, c, s) * 2",
            "x, g: int = 4",
            '{"x": "N C S"}',
            '{"N": 8, "C": 64, "S": 128}',
        ),
        (Multiple("C", "g"),),
    ),
    "query heads of a key head": (
        full("    t, h, d = q.shape\n    return q.view(t, n, h // n, d).mean(2)", "q, n: int = 8", '{"q": "T H D"}',
             '{"T": 8, "H": 32, "D": 64}'),
        (Multiple("H", "n"),),
    ),
    "pixel shuffle": (full("    return F.pixel_shuffle(x, r) * 2", "x, r: int = 2", MAPS, MAP), (Multiple("C", "r * r"),)),
    "pixel unshuffle": (
        full("    return F.pixel_unshuffle(x, r) * 2", "x, r: int = 2", MAPS, MAP),
        (Multiple("W", "r"), Multiple("H", "r")),
    ),
    "group rms norm": (
        full(GROUPS + "    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)\n    return y.reshape(t, h)",
             "x, g: int = 8", ROWS, ROW),
        (Multiple("H", "g"),),
    ),
    "scales of blocks": (
        full("    t, h = x.shape\n    return x.view(t, h // block, block).abs().amax(-1) / 448.0", "x, block: int = 128",
             ROWS, ROW),
        (Multiple("H", "block"),),
    ),
    "blocks that lie side by side": (
        full("    y = x.view(-1, block)\n    return (y / (y.pow(2).sum(-1, keepdim=True) + 1)).view(x.shape)",
             "x, block: int = 128", ROWS, ROW),
        (Multiple("H", "block"),),
    ),
    "halves of groups": (
        full(GROUPS + "    a, b = y.chunk(2, -1)\n    return (F.silu(a) * b).reshape(t, h // 2)", "x, g: int = 8", ROWS, ROW),
        (Multiple("H", "2 * g"),),
    ),
    "two scalars of a dimension": (
        full("    t, h = x.shape\n    y = x.view(t, g, m, h // (g * m))\n    return (y - y.mean(-1, keepdim=True)).reshape(t, h)",
             "x, g: int = 8, m: int = 4", ROWS, ROW),
        (Multiple("H", "g * m"),),
    ),
}  # fmt: skip


def agrees(source: str, graph: Graph, sizes: dict[str, int], scalars: dict[str, int]) -> bool:
    problem, call = parse_problem(source), handled(source)
    at = TraceSizes(problem.inputs, sizes, defaults(problem) | scalars, 3, whole=False)
    return bool(call(CompareGraph(at, graph, last=None)))


@pytest.mark.parametrize("family", few(FAMILIES, [*FAMILIES][::3]))
def test_a_scalar_that_divides_a_size_is_a_symbol_with_its_rule(family: str) -> None:
    source, rules = FAMILIES[family]
    _, graph = captured(source)
    assert (graph.multiples, graph.specialised) == (rules, ())
    named = {name for rule in rules for name in rule.scalars}
    texts = {text.text for node in graph.nodes for text in (*node.meta.shape, *node.args) if isinstance(text, Expr)}
    assert all(any(name in text for text in texts) for name in named)


@pytest.mark.parametrize("value", [1, 2, 5, 12])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_graph_is_the_reference_for_other_divisors(family: str, value: int) -> None:
    source, rules = FAMILIES[family]
    problem, graph = captured(source)
    names = dict.fromkeys((name for rule in rules for name in rule.scalars), value)
    of = {rule.dimension: int(value_of(rule.of, names)) for rule in rules}
    sizes = {dim: of.get(dim, 1) * (3 + place) for place, dim in enumerate(problem.dimensions)}
    assert agrees(source, graph, sizes, names)


def test_a_graph_that_is_another_function_does_not_agree() -> None:
    source, _ = FAMILIES["scales of blocks"]
    _, graph = captured(source)
    other = [replace(node, args=(*node.args[:1], 447.0)) if 448.0 in node.args else node for node in graph.nodes]
    assert agrees(source, graph, {"T": 3, "H": 20}, {"block": 5})
    assert not agrees(source, replace(graph, nodes=tuple(other)), {"T": 3, "H": 20}, {"block": 5})
    unknown = [Node(n.name, "aten.sort.default", n.args, n.meta) if n.op == "abs" else n for n in graph.nodes]
    assert not agrees(source, replace(graph, nodes=tuple(unknown)), {"T": 3, "H": 20}, {"block": 5})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "    if g == 1:\n        return x * 3\n" + GROUPS + "    return y.softmax(-1).view(t, h)",
            "one group is another function",
        ),
        ("    return x * (2.0 if g == 8 else 3.0) + (x.exp() if g == 2 else 0.0)", "it chooses, and divides nothing"),
        (
            GROUPS.replace("h // g", "-1") + "    return y.softmax(-1).view(t, h) * (g if g > 3 else 7)",
            "a number follows no rule",
        ),
    ],
)
def test_a_scalar_without_such_a_rule_stays_a_number_and_is_named(body: str, why: str) -> None:
    _, graph = captured(full(body, "x, g: int = 8", ROWS, ROW))
    assert (graph.specialised, graph.multiples) == (("g",), ()), why


def test_a_size_over_a_scalar_is_fitted_where_a_rule_says_that_it_divides() -> None:
    settings = [{"T": 101, "C": 96, "g": 32}, {"T": 137, "C": 215, "g": 5}, {"T": 168, "C": 237, "g": 3}]
    without, ruled = Fitter(settings, ("T", "C")), Fitter(settings, ("T", "C"), (Multiple("C", "g"),))
    quotients = [s["C"] // s["g"] for s in settings]
    assert ruled.fit(quotients) == "C // g"
    assert ruled.fit([q * s["T"] for q, s in zip(quotients, settings, strict=True)]) == "(T * C) // g"
    assert ruled.fit([2 * q for q in quotients]) == "2 * C // g"
    assert ruled.fit([1 / q for q in quotients]) == "1 / (C // g)"
    assert [without.fit([s[name] for s in settings]) for name in "TCg"] == ["T", "C", "g"]
    assert without.fit([2 * q + 1 for q in quotients]) is None


def test_sizes_to_trace_with_are_multiples_of_the_scalars_of_their_trace_and_of_nothing_shared() -> None:
    problem = parse_problem(PROBLEMS["group_norm"])
    base = next(triple for triple in size_sets(problem) if not triple[0]["C"] % 8)
    rules = (Multiple("C", "groups"),)
    triple = triple_of(problem, rules, base)
    assert triple is not None
    values = [scalars["groups"] for scalars in changed(problem, rules)]
    assert values[0] == 8 and len(set(values)) == 3
    quotients = [sizes["C"] // int(value) for sizes, value in zip(triple, values, strict=True)]
    assert [q * int(v) for q, v in zip(quotients, values, strict=True)] == [sizes["C"] for sizes in triple]
    assert len(set(quotients)) == 3


def test_what_does_not_hold_in_the_problems_own_workloads_is_not_tried() -> None:
    problem, call = parse_problem(PROBLEMS["group_norm"]), handled(PROBLEMS["group_norm"])
    at = TraceSizes(problem.inputs, dict(problem.workloads[0].sizes), defaults(problem), 3, whole=False)
    tried = list(tries(problem, "groups", (), from_plain(call(TraceReference(at)).graph)))
    assert (Multiple("C", "groups"),) in tried
    assert all(rule.dimension != "N" for rules in tried for rule in rules)  # there are two images
