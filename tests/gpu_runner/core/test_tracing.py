"""A captured graph means what the reference means, at sizes and scalars other than those it was traced at."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_runner.child.capture import HANDLERS
from gpu_runner.child.handlers import ChildState
from gpu_runner.contracts import Expr, Graph, Problem, ProblemError, parse_problem
from gpu_runner.errors import ChildError
from gpu_runner.evaluate import Unsupported, evaluate
from gpu_runner.messages import LoadProblem, Request
from gpu_runner.tracing.joint import as_tuple, make_inputs
from gpu_runner.tracing.sizes import defaults, dimensions
from gpu_runner.tracing.tracer import Tracer, check
from tests.few import few
from tests.gpu_runner.core.problems import PROBLEMS, full, rows

OTHER_SIZES = (6, 10, 4, 12, 14, 20)


@dataclass
class Captured:
    problem: Problem
    graph: Graph
    reference: Callable[..., Any]


def handled(source: str) -> Callable[[Request[Any]], Any]:
    """Give what reaches the handlers of a child that holds a problem, in this process: the sandbox has its own tests."""
    module = types.ModuleType("problem")
    exec(compile(source, "problem.py", "exec"), module.__dict__)
    state = ChildState(Path(), Path(), False, {"problem": module})

    def call(request: Request[Any]) -> Any:
        try:
            return (
                module.reference if isinstance(request, LoadProblem) else HANDLERS[type(request)](state, request, [])[0]
            )
        except Exception as error:
            raise ChildError(type(error).__name__, str(error)) from error

    return call


@functools.cache
def caught_once(source: str) -> Captured:
    """Capture as the action does."""
    problem, call = parse_problem(source), handled(source)
    graph = Tracer(call, problem).graph()
    check(graph, problem)
    return Captured(problem, graph, call(LoadProblem()))


def captured(source: str) -> tuple[Problem, Graph]:
    found = caught_once(source)
    return found.problem, found.graph


def other_sizes(problem: Problem) -> dict[str, int]:
    sizes = dict(zip(dimensions(problem), OTHER_SIZES, strict=False))
    if "C" in sizes:
        sizes["C"] = 16
    if "P" in sizes:
        sizes["P"] = sizes["D"] // 2
    if "K" in sizes:
        sizes["Q"] = 4 * sizes["K"]
    return sizes


@pytest.mark.parametrize("name", few(PROBLEMS, [*PROBLEMS][::2]))
def test_the_graph_agrees_with_autograd_at_other_sizes(name: str) -> None:
    problem, graph = captured(PROBLEMS[name])
    sizes = other_sizes(problem)
    free = [n for n, v in defaults(problem).items() if isinstance(v, float) and n not in graph.specialised]
    scalars = defaults(problem) | {n: 0.37 * (i + 1) for i, n in enumerate(free)}
    specs = problem.inputs
    made = dict(zip([s.name for s in specs], make_inputs(specs, sizes, seed=5), strict=True))
    leaves = {n: t.clone().requires_grad_(t.is_floating_point()) for n, t in made.items()}
    outputs = as_tuple(caught_once(PROBLEMS[name]).reference(**leaves, **scalars))
    upstream = [torch.randn_like(o) if u else None for o, u in zip(outputs, graph.upstream, strict=True)]
    wanted = [n for n, _ in graph.gradients]
    ends = [(o, g) for o, g in zip(outputs, upstream, strict=True) if g is not None]
    expected = torch.autograd.grad(
        [o for o, _ in ends], [leaves[n] for n in wanted], [g for _, g in ends], allow_unused=True
    )
    values = sizes | {k: v for k, v in scalars.items() if not isinstance(v, str)}
    narrow = name == "narrow_inside"
    for lift in (False, True):
        found = evaluate(graph, made, values, upstream, lift=lift)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if lift and narrow else {"rtol": 1e-4, "atol": 1e-4}
        for output, value in zip(outputs, found.outputs, strict=True):
            assert value.shape == output.shape
            assert value.dtype == (torch.float64 if lift else output.dtype)
            torch.testing.assert_close(value.float(), output.detach(), **tolerance)
        for wanted_name, gradient in zip(wanted, expected, strict=True):
            mine = found.gradients[wanted_name]
            assert (mine is None) == (gradient is None), wanted_name
            if mine is not None:
                torch.testing.assert_close(mine.float(), gradient, **tolerance)


def test_sizes_and_scalars_are_named_and_nothing_else_is_baked_in() -> None:
    _, graph = captured(PROBLEMS["cross_entropy"])
    texts = {a.text for n in graph.nodes for a in n.args if isinstance(a, Expr)}
    assert {"smoothing / V", "1 - smoothing", "ignore", "V"} <= texts
    assert graph.specialised == ()
    assert [n.meta.shape for n in graph.nodes if n.op == "input"] == [(Expr("T"), Expr("V")), (Expr("T"),)]


def test_casts_of_the_reference_are_nodes() -> None:
    _, graph = captured(PROBLEMS["rms_norm"])
    assert [n.meta.dtype for n in graph.nodes if n.op == "cast"] == ["float32", "float32"]
    assert graph.output_dtypes == ("bfloat16",)
    _, graph = captured(rows("x.float() * 2"))
    assert graph.output_dtypes == ("float32",)


def test_a_scalar_that_steers_is_listed_as_specialised() -> None:
    _, graph = captured(rows("x * s if s > 0.2 else x.exp() * s", "x, s: float = 0.25"))
    assert graph.specialised == ("s",)
    _, graph = captured(rows("F.gelu(x, approximate=kind) * s", 'x, kind: str = "tanh", s: float = 1.5'))
    assert graph.specialised == ("kind",)


@pytest.mark.parametrize(
    ("body", "default", "bounds"),
    [
        ("x.exp() if s == 0.0 else x.log() if s == 1.0 else x * s", 0.5, ["s != 1.0", "s != 0.0"]),
        ("x * s if s > 0 else x.exp()", 0.5, ["s > 0.0"]),
        ("x * s if s >= 0 else x.exp()", 0.5, ["s >= 0.0"]),
        ("x * s if abs(s) < 3 else x.exp()", -0.5, ["s < 3.0", "s > -3.0"]),
        ("x * s if s < 2 else x.exp()", 1.0, ["s < 2.0"]),
        ("F.cross_entropy(x, x.argmax(-1), label_smoothing=s)", 0.1, ["s > 0.0"]),
        ("x.exp() + x.clamp(min=-9) * s if s > 0 else x.exp()", 0.5, ["s >= 0.0"]),
        ("x * 2 * s + 1 / s", 0.5, []),
        ("F.leaky_relu(x, s)", 0.5, []),
        ("torch.rsqrt(x.square().mean(-1) + s)", 1e-6, []),
        ("x.abs() ** s", 2.5, []),
        ("x * s if s > 1 else torch.where(x == 0, 1.0, x) * s", 2.5, ["s > 1.0"]),
    ],
)
def test_a_graph_says_where_the_reference_branches_on_a_scalar(body: str, default: float, bounds: list[str]) -> None:
    _, graph = captured(rows(body, f"x, s: float = {default}"))
    assert graph.specialised == ()
    assert [bound.text(bound.scalar) for bound in graph.bounds] == bounds


def test_a_scalar_is_followed_through_simple_arithmetic() -> None:
    _, graph = captured(rows("x * (2 * s + 1) + (x.exp() * (s * s) - 0.5 / s)", "x, s: float = 0.3"))
    assert graph.specialised == ()
    texts = {a.text for n in graph.nodes for a in n.args if isinstance(a, Expr)}
    assert {"2 * s + 1", "s * s"} <= texts


def test_a_scalar_that_torch_rounds_to_single_precision_is_followed() -> None:
    _, graph = captured(rows("torch.nn.functional.rms_norm(x, (x.shape[-1],), None, eps)", "x, eps: float = 1e-6"))
    assert graph.specialised == ()
    assert any(isinstance(a, Expr) and a.text == "eps" for n in graph.nodes for a in n.args)


def test_a_scalar_whose_own_value_leaves_operators_out_is_followed_where_the_graph_gives_what_they_do() -> None:
    _, graph = captured(rows("x.sigmoid() ** s", "x, s: float = 2.0"))
    assert graph.specialised == ()
    assert {"s", "s - 1"} <= {a.text for n in graph.nodes for a in n.args if isinstance(a, Expr)}
    _, graph = captured(rows("x.exp() if s == 0.5 else x * s", "x, s: float = 0.5"))
    assert graph.specialised == ("s",)


def test_a_constant_power_of_zero_has_no_slope() -> None:
    source = rows("x ** s", "x, s: float = 2.5")
    _, graph = captured(source)
    x = torch.tensor([[0.0, 0.5, 2.0]])
    for s in (0.0, 1.0, 2.5):
        leaf = x.clone().requires_grad_()
        (expected,) = torch.autograd.grad(caught_once(source).reference(leaf, s), leaf, torch.ones_like(x))
        found = evaluate(graph, {"x": x}, {"T": 1, "H": 3, "s": s}, [torch.ones_like(x)])
        torch.testing.assert_close(found.gradients["x"], expected)


def test_a_scalar_that_cannot_be_followed_is_specialised() -> None:
    _, graph = captured(rows("x * math.exp(-s * 3)", "x, s: float = 0.3"))
    assert graph.specialised == ("s",)


PRODUCTS = ("x.prod(0)", "torch.prod(x, -1, keepdim=True)", "x.prod()", "x.cumprod(0)", "torch.cumprod(x, -1)")


@pytest.mark.parametrize("body", PRODUCTS)
def test_gradients_of_products_are_autograd_s_with_and_without_zeros(body: str) -> None:
    source = rows(body)
    _, graph = captured(source)
    assert not [node.op for node in graph.nodes if "." in node.op]  # nothing but the vocabulary
    for zeros in ((), ((2, 1),), ((1, 0), (1, 3), (3, 1), (4, 1))):
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(3)).sign() * torch.linspace(0.6, 1.4, 30).reshape(
            5, 6
        )
        for place in zeros:
            x[place] = 0.0
        exact = x.double().requires_grad_()
        output = caught_once(source).reference(exact)
        upstream = torch.randn(output.shape, generator=torch.Generator().manual_seed(4))
        (expected,) = torch.autograd.grad(output, exact, upstream.double())
        found = evaluate(graph, {"x": x}, {"T": 5, "H": 6}, [upstream])
        assert expected.abs().max() > 0 or len(zeros) > 1
        torch.testing.assert_close(found.gradients["x"], expected.float())


def test_unknown_operators_keep_their_torch_name() -> None:
    _, graph = captured(rows("torch.sort(x, dim=-1).values + torch.cummax(x, -1).values"))
    ops = {n.op for n in graph.nodes}
    assert "aten.cummax.default" in ops
    assert any(op.startswith("aten.sort") for op in ops)
    with pytest.raises(Unsupported):
        evaluate(graph, {"x": torch.randn(3, 4)}, {"T": 3, "H": 4})


def test_dead_operations_are_dropped() -> None:
    _, graph = captured(rows("x * 2 + 0 * (x.sin() * 0).detach().sum() * 0 if False else x * 2"))
    assert {n.op for n in graph.nodes} == {"input", "upstream", "mul"}


def test_a_tuple_of_one_stays_a_tuple() -> None:
    _, graph = captured(rows("(x * 2,)"))
    assert (graph.tuple_output, len(graph.outputs)) == (True, 1)
    assert not captured(rows("x * 2"))[1].tuple_output


def test_an_output_without_gradient_has_no_upstream() -> None:
    _, graph = captured(rows("(x * 2, x.argmax(-1))"))
    assert [u is not None for u in graph.upstream] == [True, False]


@pytest.mark.parametrize(
    ("source", "message", "line"),
    [
        (rows("x * torch.rand_like(x)"), "different values on two runs", 5),
        (rows("torch.ones(3)"), "output 0 does not depend on any input", 5),
        (rows("(x, torch.zeros(2))"), "output 1 does not depend on any input", 5),
        (full("    return a * 2", "a,\n  b", '{"a": "T", "b": "T"}', '{"T": 4}'), "no output depends on input `b`", 6),
        (rows("x.sum().item() * x") + "# data decides\n", "does not run", None),
        (rows("x if x.shape[0] % 4 > 2 else x + x.exp()"), "something else at other sizes", 5),
    ],
)
def test_problems_that_cannot_be_captured_say_why(source: str, message: str, line: int | None) -> None:
    with pytest.raises((ProblemError, ChildError)) as caught:
        captured(source)
    if isinstance(caught.value, ProblemError):
        assert message in caught.value.message
        assert caught.value.line == line
        assert caught.value.fix


def test_the_vocabulary_suffices_for_the_usual_kernels() -> None:
    beyond: dict[str, set[str]] = {}
    for name in ("swiglu", "geglu_tanh", "rms_norm", "layer_norm", "group_norm", "cross_entropy", "rope_pairs", "jsd"):
        graph = captured(PROBLEMS[name])[1]
        found = {n.op for n in graph.nodes if n.op.startswith("aten.")}
        if found:
            beyond[name] = found
    assert beyond == {}
