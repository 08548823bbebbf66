"""Timed runs beside an original that is less exact than its dtype: one that adds up in bfloat16, as liger's poly_norm does.

How many warps a program has decides in which order it adds, so that settings alone change what comes out of such a sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpu_runner.benchmark import checks
from gpu_runner.benchmark.checks import result_error
from gpu_runner.benchmark.contender import Computed
from gpu_runner.benchmark.material import Material, Secret
from gpu_runner.child.calls import Arguments
from gpu_runner.contracts import Pass, Workload
from gpu_runner.messages import CallForm, DrawnCall, DrawnTensor
from gpu_runner.verify.proof import ChildCall
from tests.gpu_runner.benchmark.child import Child, answer, entry

ROWS, COLUMNS, EPS = 32, 2048, 1e-6
DEFAULT, TUNED = 128, 64  # threads of a program: 4 warps, and 2
DRAWS = (15, 21, 44)  # of sixty, those in which the strict rule objects to the tuned one
INEXACT = 21  # the one in which it objects to the original as well
HALF = torch.bfloat16
Values = tuple[list[torch.Tensor], list[torch.Tensor]]


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = x.float()
    parts = [v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + EPS) for v in (h * h * h, h * h, h)]
    return (w[0] * parts[0] + w[1] * parts[1] + w[2] * parts[2] + b).to(x.dtype)


def rounded(values: torch.Tensor) -> torch.Tensor:
    return values.to(HALF).float()


def sum_of_squares(values: torch.Tensor, threads: int) -> torch.Tensor:
    """Add in bfloat16: each thread its own elements one after the other, then threads in pairs."""
    mine = values.reshape(len(values), -1, threads)
    total = rounded(mine[:, 0].square())
    for place in range(1, mine.shape[1]):
        total = rounded(total + mine[:, place].square())
    while total.shape[1] > 1:
        total = rounded(total[:, ::2] + total[:, 1::2])
    return total


def poly_norm(given: Arguments, threads: int) -> Values:
    """What liger's kernel computes: powers and their sums in bfloat16, the rest in float32."""
    x, w, b = (given.leaves[name].detach().float() for name in ("x", "w", "b"))
    upstream = given.upstream[0]
    assert upstream is not None
    dy, columns = upstream.float(), x.shape[1]
    square = rounded(x * x)
    powers = [rounded(square * x), square, x]
    scale = [torch.rsqrt(sum_of_squares(power, threads) / columns + EPS) for power in powers]
    y = sum((w[i] * powers[i] * scale[i] for i in range(3)), b)
    met = [(dy * x**power).sum(1, keepdim=True) for power in (3, 2, 1)]
    dx = torch.zeros_like(x)
    for i, power in enumerate((3, 2, 1)):
        own = x ** (power - 1) * scale[i] * dy
        dx += w[i] * power * (own - x ** (2 * power - 1) / columns * scale[i] ** 3 * met[i])
    dw = torch.stack([(scale[i] * met[i]).sum() for i in range(3)])
    return [y.to(HALF)], [dx.to(HALF), dw.to(HALF), dy.sum().to(HALF)]


def drawn_call(seed: int) -> DrawnCall:
    half = "bfloat16"
    weights = [entry(name, *shape, init="ones", noisy=True, dtype=half) for name, shape in (("w", [3]), ("b", []))]
    inputs = entry("x", ROWS, COLUMNS, dtype=half), *weights
    form = CallForm("reference", ("x", "w", "b"))
    return DrawnCall(form, {}, seed, inputs, (DrawnTensor((ROWS, COLUMNS), half),))


@functools.cache
def rows_of(seed: int) -> checks.Rows:
    """The truth of a timed run, without what other roundings of the reference may make of it: these explain two draws of three."""
    secret = Secret(seed % 3, seed)
    material = Material(
        Workload((("T", ROWS),)), ChildCall(drawn_call(seed)), True, 3, dict.fromkeys(Pass, secret), None, {}
    )
    child: Any = Child(reference)
    return checks.prove(child, material, Pass.full)


def run(seed: int, threads: int, change: Callable[[Values], Values] = lambda values: values) -> Computed:
    secret = Secret(seed % 3, seed)
    return answer(drawn_call(seed), secret, Pass.full, lambda given: change(poly_norm(given, threads)))


@functools.cache
def original_of(seed: int) -> Computed:
    return run(seed, DEFAULT)


def said(seed: int, found: Computed) -> str | None:
    original = original_of(seed)
    return result_error(found, rows_of(seed), Pass.full, [original, original])


def test_who_adds_in_another_order_is_not_wrong_where_the_original_is_as_inexact() -> None:
    alone = [result_error(run(seed, TUNED), rows_of(seed), Pass.full) for seed in DRAWS]
    assert all(alone)
    assert [said(seed, run(seed, TUNED)) for seed in DRAWS] == [None] * len(DRAWS)


def zero_row(values: Values) -> Values:
    values[0][0][17] = 0.0
    return values


def zero_element(values: Values) -> Values:
    large = int(values[0][0][5].float().abs().argmax())
    values[0][0][5, large] = 0.0
    return values


def half_done(values: Values) -> Values:
    values[1][0][ROWS // 2 :] = 0.0
    return values


def without_the_last_columns(values: Values) -> Values:
    values[1][0][:, -64:] = 0.0
    return values


def rows_in_another_order(values: Values) -> Values:
    return values[0], [values[1][0].roll(1, 0), *values[1][1:]]


def a_tenth_more_in_one_row(values: Values) -> Values:
    values[0][0][9] *= 1.1
    return values


def half_of_the_weight_gradient(values: Values) -> Values:
    values[1][1] *= 0.5
    return values


def a_bias_gradient_twice_added(values: Values) -> Values:
    values[1][2] *= 2.0
    return values


WRONG = (
    zero_row,
    zero_element,
    half_done,
    without_the_last_columns,
    rows_in_another_order,
    a_tenth_more_in_one_row,
    half_of_the_weight_gradient,
    a_bias_gradient_twice_added,
)


@pytest.mark.parametrize("change", WRONG, ids=lambda change: str(change.__name__))
def test_what_is_wrong_is_found_beside_an_inexact_original_too(change: Callable[[Values], Values]) -> None:
    assert said(INEXACT, run(INEXACT, TUNED, change)) is not None


def test_results_of_an_earlier_input_are_found_beside_an_inexact_original() -> None:
    earlier = Secret((INEXACT + 1) % 3, INEXACT)
    stale = answer(drawn_call(INEXACT), earlier, Pass.full, lambda given: poly_norm(given, TUNED))
    assert "output 0 of a timed run is wrong" in str(said(INEXACT, stale))


def test_an_original_that_is_wrong_lends_nothing() -> None:
    original = run(INEXACT, DEFAULT, half_done)
    copied = run(INEXACT, TUNED, half_done)
    assert "gradient of x of a timed run is wrong" in str(result_error(copied, rows_of(INEXACT), Pass.full, [original]))
