"""Functions that the compiler writes out, since Triton has none like them: what they give where formulas of them go wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from tests.workers.compiler.interpreted import loaded
from workers.authors.compiler.emit import device_functions
from workers.authors.compiler.values import ValueNumbering

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy: a logarithm of zero is what is asked for

Function = Callable[..., torch.Tensor]
NUMBERS = [0.0, *(sign * number for number in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 40.0) for sign in (1, -1))]
SMALL = [-0.0, 1e-6, -1e-6]
INFINITE = [float("inf"), float("-inf")]
FUNCTIONS: dict[str, Function] = {
    "tanh": torch.tanh,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "sign": torch.sign,
    "trunc": torch.trunc,
    "round": torch.round,
    "fmod": torch.fmod,
    "pow": torch.pow,
}
TWO_NUMBERS = ("fmod", "pow")
KERNEL = """
import triton
import triton.language as tl


{function}


@triton.jit
def kernel(out_ptr, {pointers}, n, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n
    tl.store(out_ptr + cols, {name}({loads}), mask=mask)
"""


def computed(op: str, *given: torch.Tensor, positive: bool = False) -> torch.Tensor:
    numbering = ValueNumbering()
    first, *others = (numbering.column() for _ in given)
    value = numbering.pointwise(op, numbering.pointwise("abs", first) if positive else first, *others)
    (function,) = device_functions([value])
    name = function.partition("def ")[2].partition("(")[0]
    assert ("positive" in name) is positive
    names = [f"x{place}_ptr" for place in range(len(given))]
    loads = ", ".join(f"tl.load({name} + cols, mask=mask, other=1.0)" for name in names)
    module = loaded(op, KERNEL.format(function=function, name=name, pointers=", ".join(names), loads=loads))
    out = torch.full_like(given[0], torch.nan)
    module.kernel[(1,)](out, *given, out.numel(), BLOCK_SIZE=1024)
    return out


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_device_function_gives_what_torch_does(op: str) -> None:
    pairs = itertools.product(NUMBERS, NUMBERS) if op in TWO_NUMBERS else ((number,) for number in NUMBERS + SMALL)
    given = [torch.tensor(numbers) for numbers in zip(*pairs, strict=True)]
    torch.testing.assert_close(computed(op, *given), FUNCTIONS[op](*given), rtol=2e-5, atol=1e-30, equal_nan=True)


@pytest.mark.parametrize("op", ["tanh", "pow"])
def test_a_device_function_of_what_is_never_negative_decides_nothing_by_its_sign(op: str) -> None:
    numbers = [0.0, 1e-6, 0.6, 0.63, *(number for number in NUMBERS if number > 0), float("inf")]
    pairs = (
        itertools.product(numbers, NUMBERS) if op in TWO_NUMBERS else ((number,) for number in (*numbers, torch.nan))
    )
    given = [torch.tensor(each) for each in zip(*pairs, strict=True)]
    torch.testing.assert_close(
        computed(op, *given, positive=True), FUNCTIONS[op](*given), rtol=2e-5, atol=1e-30, equal_nan=True
    )


def test_powers_of_zeros_and_infinities_have_the_sign_that_torch_gives_them() -> None:
    pairs = itertools.product([0.0, -0.0, *INFINITE], [number for number in NUMBERS if number])
    base, exponent = (torch.tensor(numbers) for numbers in zip(*pairs, strict=True))
    power, expected = computed("pow", base, exponent), torch.pow(base, exponent)
    assert torch.equal(power, expected)
    assert torch.equal(power.signbit(), expected.signbit())


def test_odd_powers_of_negative_numbers_are_negative() -> None:
    base = torch.tensor([-1.5, -2.0, -0.25, -3.0])
    for exponent in (1.0, 3.0, 5.0, -1.0, -3.0):
        power = computed("pow", base, torch.full_like(base, exponent))
        assert (power < 0).all()
        torch.testing.assert_close(power, base**exponent)
