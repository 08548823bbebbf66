"""Simplification keeps values and loses what a person would not write."""

from __future__ import annotations

import pytest

from workers.authors.compiler.algebra import simplified
from workers.authors.compiler.domain import FULL, ROW
from workers.authors.compiler.schedules.base import Lane, outside
from workers.authors.compiler.values import TileValue, ValueNumbering, never_negative, never_positive


@pytest.fixture
def numbering() -> ValueNumbering:
    return ValueNumbering()


def x_of(numbering: ValueNumbering) -> TileValue:
    return numbering.load("x", FULL)


def test_what_is_computed_twice_is_one_value(numbering: ValueNumbering) -> None:
    x = x_of(numbering)
    assert simplified(numbering, "sigmoid", x) is simplified(numbering, "sigmoid", x)


def test_numbers_gather_in_front_of_a_product(numbering: ValueNumbering) -> None:
    x, y = x_of(numbering), numbering.load("y", FULL)
    doubled = simplified(numbering, "mul", x, numbering.const(2.0))
    halved = simplified(numbering, "mul", simplified(numbering, "mul", numbering.const(-0.5), y), doubled)
    assert halved.op == "neg"
    assert halved.args[0].op == "mul" and set(halved.args[0].args) == {x, y}


def test_adding_what_is_negative_is_subtracting(numbering: ValueNumbering) -> None:
    x, y = x_of(numbering), numbering.load("y", FULL)
    assert simplified(numbering, "add", x, simplified(numbering, "neg", y)).op == "sub"


@pytest.mark.parametrize(
    ("exponent", "op"), [(1, "load"), (2, "mul"), (-0.5, "rsqrt"), (0.5, "sqrt"), (-1, "reciprocal")]
)
def test_whole_and_half_powers_are_written_out(numbering: ValueNumbering, exponent: float, op: str) -> None:
    assert simplified(numbering, "pow", x_of(numbering), numbering.const(exponent)).op == op


def test_the_gradient_of_relu_asks_the_input_and_not_the_output(numbering: ValueNumbering) -> None:
    x, dy = x_of(numbering), numbering.load("dy", FULL)
    shut = simplified(numbering, "le", simplified(numbering, "relu", x), numbering.const(0))
    gradient = simplified(numbering, "where", shut, numbering.const(0.0), dy)
    assert gradient.args[0].op == "le" and gradient.args[0].args[0] is x and gradient.args[2] is dy  # NaN is let pass


def test_lanes_outside_of_the_mask_are_known_only_where_nothing_can_break_them(numbering: ValueNumbering) -> None:
    x, mean = x_of(numbering), numbering.load("mean", ROW)
    squared = simplified(numbering, "mul", x, x)
    centered = simplified(numbering, "sub", x, mean)
    inverse = simplified(numbering, "mul", x, simplified(numbering, "reciprocal", x))
    assert outside(squared, {}, False) is Lane.zero
    assert outside(centered, {}, False) is Lane.finite
    assert outside(simplified(numbering, "div", x, x), {}, False) is Lane.unknown
    assert outside(inverse, {}, False) is Lane.unknown


def test_the_exponential_of_minus_infinity_needs_no_mask(numbering: ValueNumbering) -> None:
    x = x_of(numbering)
    shifted = simplified(numbering, "exp", simplified(numbering, "sub", x, numbering.over_cols("max", x)))
    assert outside(shifted, {"x": Lane.negative_infinity}, False) is Lane.zero


def test_a_probability_is_at_most_one_and_its_logarithm_at_most_zero(numbering: ValueNumbering) -> None:
    x, other = numbering.load("x", FULL), numbering.load("other", FULL)
    point, top = numbering.pointwise, numbering.over_cols("max", x)
    below = point("sub", x, top)
    total = numbering.over_cols("sum", point("exp", below))
    logarithm = point("sub", numbering.pick(x, numbering.load("t", ROW, integer=True)), top)
    logarithm = point("sub", logarithm, point("log", total))
    assert never_positive(below) and never_positive(logarithm)
    assert never_negative(point("sub", numbering.const(1), point("exp", logarithm)))
    assert not never_positive(point("sub", other, top))
    assert not never_negative(point("log", numbering.over_cols("sum", point("exp", x))))
    assert not never_negative(point("sub", numbering.const(0.5), point("exp", logarithm)))
    assert not never_negative(point("sub", numbering.const(1), point("exp", x)))
