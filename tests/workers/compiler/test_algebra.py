"""Simplification keeps values and loses what a person would not write."""

from __future__ import annotations

import pytest

from workers.authors.compiler.algebra import simplified
from workers.authors.compiler.domain import FULL, ROW
from workers.authors.compiler.schedules.base import Lane, outside
from workers.authors.compiler.values import Pool, Value


@pytest.fixture
def pool() -> Pool:
    return Pool()


def x_of(pool: Pool) -> Value:
    return pool.load("x", FULL)


def test_what_is_computed_twice_is_one_value(pool: Pool) -> None:
    x = x_of(pool)
    assert simplified(pool, "sigmoid", x) is simplified(pool, "sigmoid", x)


def test_numbers_gather_in_front_of_a_product(pool: Pool) -> None:
    x, y = x_of(pool), pool.load("y", FULL)
    doubled = simplified(pool, "mul", x, pool.const(2.0))
    halved = simplified(pool, "mul", simplified(pool, "mul", pool.const(-0.5), y), doubled)
    assert halved.op == "neg"
    assert halved.args[0].op == "mul" and set(halved.args[0].args) == {x, y}


def test_adding_what_is_negative_is_subtracting(pool: Pool) -> None:
    x, y = x_of(pool), pool.load("y", FULL)
    assert simplified(pool, "add", x, simplified(pool, "neg", y)).op == "sub"


@pytest.mark.parametrize(
    ("exponent", "op"), [(1, "load"), (2, "mul"), (-0.5, "rsqrt"), (0.5, "sqrt"), (-1, "reciprocal")]
)
def test_whole_and_half_powers_are_written_out(pool: Pool, exponent: float, op: str) -> None:
    assert simplified(pool, "pow", x_of(pool), pool.const(exponent)).op == op


def test_the_gradient_of_relu_asks_the_input_and_not_the_output(pool: Pool) -> None:
    x, dy = x_of(pool), pool.load("dy", FULL)
    shut = simplified(pool, "le", simplified(pool, "relu", x), pool.const(0))
    gradient = simplified(pool, "where", shut, pool.const(0.0), dy)
    assert gradient.args[0].op == "gt" and gradient.args[0].args[0] is x and gradient.args[1] is dy


def test_lanes_outside_of_the_mask_are_known_only_where_nothing_can_break_them(pool: Pool) -> None:
    x, mean = x_of(pool), pool.load("mean", ROW)
    squared = simplified(pool, "mul", x, x)
    centered = simplified(pool, "sub", x, mean)
    inverse = simplified(pool, "mul", x, simplified(pool, "reciprocal", x))
    assert outside(squared, {}, False) is Lane.zero
    assert outside(centered, {}, False) is Lane.finite
    assert outside(simplified(pool, "div", x, x), {}, False) is Lane.unknown
    assert outside(inverse, {}, False) is Lane.unknown


def test_the_exponential_of_minus_infinity_needs_no_mask(pool: Pool) -> None:
    x = x_of(pool)
    shifted = simplified(pool, "exp", simplified(pool, "sub", x, pool.over_cols("max", x)))
    assert outside(shifted, {"x": Lane.negative_infinity}, False) is Lane.zero
