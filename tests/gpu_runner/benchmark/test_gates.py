"""Timed runs of a gated cell in bfloat16: what eager mode rounds before a gate is multiplied by its slope, so that where
weights are large one run of eager mode says little of the error of another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from gpu_runner.benchmark import checks
from gpu_runner.benchmark.checks import ExpectedTensor, Rows, result_error
from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.material import Material, Secret
from gpu_runner.child.calls import Arguments
from gpu_runner.contracts import Pass, Workload
from gpu_runner.messages import CallForm, DrawnCall, DrawnTensor
from gpu_runner.numerics.measures import rms
from gpu_runner.verify.proof import ChildCall
from tests.gpu_runner.benchmark.child import Child, answer, entry

ROWS, WIDTH = 48, 128
HALF = torch.bfloat16
Values = tuple[list[torch.Tensor], list[torch.Tensor]]
LARGE = (
    (0.35, 13),
    (0.35, 17),
    (0.7, 18),
)  # deviations of weights, each with a seed whose kernel eager mode's one run objects to
AS_LAYERS_BEGIN = (WIDTH**-0.5, 0)


def cell(x: torch.Tensor, h: torch.Tensor, wx: torch.Tensor, wh: torch.Tensor) -> torch.Tensor:
    return gated(F.linear(x, wx), F.linear(h, wh), h)


def gated(of_x: torch.Tensor, of_h: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    x_reset, x_update, x_new = of_x.chunk(3, 1)
    h_reset, h_update, h_new = of_h.chunk(3, 1)
    reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_update + h_update)
    return update * h + (1 - update) * torch.tanh(x_new + reset * h_new)


class Fused(torch.autograd.Function):
    """What a kernel computes of the gates: all of it in float32, rounded as it is stored."""

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*given)
        return gated(*(value.float() for value in given)).to(HALF)

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor) -> tuple[torch.Tensor, ...]:  # type: ignore[override]
        leaves = [value.float().requires_grad_() for value in ctx.saved_tensors]
        with torch.enable_grad():
            found = gated(*leaves)
        return tuple(grad.to(HALF) for grad in torch.autograd.grad(found, leaves, upstream[0].float()))


def fused(given: Arguments) -> Values:
    x, h, wx, wh = given.leaves.values()
    apply: Any = Fused.apply
    output = apply(F.linear(x, wx), F.linear(h, wh), h)
    grads = torch.autograd.grad(output, list(given.leaves.values()), given.upstream[0])
    return [output.detach()], list(grads)


def drawn_call(scale: float, seed: int) -> DrawnCall:
    half = "bfloat16"
    inputs = [entry(name, ROWS, WIDTH, dtype=half) for name in ("x", "h")]
    inputs += [entry(name, 3 * WIDTH, WIDTH, scale=scale, dtype=half) for name in ("wx", "wh")]
    form = CallForm("reference", ("x", "h", "wx", "wh"))
    return DrawnCall(form, {}, seed, tuple(inputs), (DrawnTensor((ROWS, WIDTH), half),))


@functools.cache
def rows_of(scale: float, seed: int) -> tuple[Rows, Rows]:
    """The truth of a timed run, and the same with what other roundings make of it."""
    secret = Secret(0, seed)
    call = ChildCall(drawn_call(scale, seed))
    material = Material(Workload((("T", ROWS),)), call, True, 3, dict.fromkeys(Pass, secret), None, {})
    child: Any = Child(cell)
    rows = checks.prove(child, material, Pass.full)
    return rows, checks.bent(child, material, Pass.full, rows)


def run(scale: float, seed: int, change: Callable[[Values], Values] = lambda values: values) -> Computed:
    return answer(drawn_call(scale, seed), Secret(0, seed), Pass.full, lambda given: change(fused(given)))


def half_done(values: Values) -> Values:
    values[1][2][WIDTH:] = 0.0
    return values


def a_tenth_less(values: Values) -> Values:
    values[0][0] *= 0.9
    return values


def rows_in_another_order(values: Values) -> Values:
    return values[0], [values[1][0].roll(1, 0), *values[1][1:]]


WRONG = (half_done, a_tenth_less, rows_in_another_order)


def lost(value: torch.Tensor, item: ExpectedTensor) -> float:
    return rms(value.double() - item.truth.exact) / rms(item.truth.exact)


@pytest.mark.parametrize("at", [*LARGE, AS_LAYERS_BEGIN])
def test_a_kernel_that_rounds_less_than_eager_mode_is_right(at: tuple[float, int]) -> None:
    alone, widened = rows_of(*at)
    assert (result_error(run(*at), alone, Pass.full) is None) is (at == AS_LAYERS_BEGIN)
    assert result_error(run(*at), widened, Pass.full) is None


def test_with_weights_as_layers_begin_it_loses_less_than_eager_mode_everywhere() -> None:
    rows, _ = rows_of(*AS_LAYERS_BEGIN)
    for item, value in zip((*rows.outputs, *rows.gradients), run(*AS_LAYERS_BEGIN).tensors, strict=True):
        assert item is not None
        assert lost(value, item) < lost(item.truth.own, item) < 0.01


@pytest.mark.parametrize("at", [*LARGE, AS_LAYERS_BEGIN])
@pytest.mark.parametrize("change", WRONG, ids=lambda change: str(change.__name__))
def test_what_is_wrong_is_found_whatever_the_weights(at: tuple[float, int], change: Callable[[Values], Values]) -> None:
    assert result_error(run(*at, change), rows_of(*at)[1], Pass.full) is not None


@pytest.mark.parametrize("at", [*LARGE, AS_LAYERS_BEGIN])
def test_results_of_an_earlier_input_are_found_whatever_the_weights(at: tuple[float, int]) -> None:
    stale = answer(drawn_call(*at), Secret(1, at[1]), Pass.full, fused)
    assert "is wrong" in str(result_error(stale, rows_of(*at)[1], Pass.full))
