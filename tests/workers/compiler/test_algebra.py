"""Simplification keeps values and loses what a person would not write."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.authors.compiler.algebra import simplified
from workers.authors.compiler.domain import FULL, ROW
from workers.authors.compiler.polynomials import with_polynomials
from workers.authors.compiler.schedules.base import Lane, outside
from workers.authors.compiler.values import TileValue, ValueNumbering, never_negative, never_positive, topological


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


def evaluated(value: TileValue, given: Mapping[str, Fraction]) -> Fraction:
    """A value in exact arithmetic; a sum over a row is the number ``given`` for it."""
    if value.number is not None:
        return Fraction(value.number)
    if value.op in {"load", "over_cols"}:
        return given[str(value.datum)]
    args = [evaluated(arg, given) for arg in value.args]
    operators = {
        "add": operator.add,
        "sub": operator.sub,
        "mul": operator.mul,
        "div": operator.truediv,
        "neg": operator.neg,
    }
    return operators[value.op](*args)


def operations(value: TileValue) -> int:
    return sum(inner.space.cols and bool(inner.args) for inner in topological([value]))


NUMBERS = st.integers(-3, 3).map(float)
LEAVES = st.one_of(st.sampled_from(["x", "dy", "w", "row"]), NUMBERS)
EXPRESSIONS = st.recursive(
    LEAVES, lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul", "mul", "neg"]), inner, inner), max_leaves=16
)


def built(numbering: ValueNumbering, tree: object) -> TileValue:
    if isinstance(tree, float):
        return numbering.const(tree)
    if isinstance(tree, str):
        return numbering.load(tree, ROW if tree == "row" else FULL)
    op, left, right = tree  # type: ignore[misc]
    args = [built(numbering, left)] + ([built(numbering, right)] if op != "neg" else [])
    return simplified(numbering, op, *args)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS, st.fixed_dictionaries({name: st.fractions(-4, 4) for name in ("x", "dy", "w", "row")}))
def test_a_polynomial_keeps_its_value_and_gets_no_longer(tree: object, given: dict[str, Fraction]) -> None:
    numbering = ValueNumbering()
    value = built(numbering, tree)
    (new,) = with_polynomials(numbering, [value], [])
    assert evaluated(new, given) == evaluated(value, given)
    assert new is value or operations(new) < operations(value)


def polynomial(numbering: ValueNumbering, x: TileValue, *coefficients: TileValue) -> TileValue:
    """``coefficients[0] * x + coefficients[1] * x * x + ...``, each power of its own."""
    total = None
    for power, factor in enumerate(coefficients, start=1):
        term = simplified(numbering, "mul", factor, simplified(numbering, "pow", x, numbering.const(float(power))))
        total = term if total is None else simplified(numbering, "add", total, term)
    assert total is not None
    return total


def test_a_sum_of_powers_is_written_by_horners_scheme(numbering: ValueNumbering) -> None:
    x, rows = x_of(numbering), [numbering.load(name, ROW) for name in "abcd"]
    value = polynomial(numbering, x, *rows)
    (new,) = with_polynomials(numbering, [value], [])
    assert operations(value) == 3 + 4 + 3  # powers, products with coefficients, sums
    assert operations(new) == 4 + 3
    assert all(x in inner.args or inner.op == "add" for inner in topological([new]) if inner.space.cols and inner.args)


def test_powers_that_a_sum_over_the_row_needs_are_not_computed_again(numbering: ValueNumbering) -> None:
    x, w = x_of(numbering), numbering.load("w", ROW)
    square = simplified(numbering, "mul", x, x)
    value = simplified(numbering, "add", simplified(numbering, "mul", w, square), x)
    (alone,) = with_polynomials(numbering, [value], [])
    assert alone is value  # (w * x + 1) * x is no shorter
    cube, v = simplified(numbering, "mul", square, x), numbering.load("v", ROW)
    value = simplified(numbering, "sub", simplified(numbering, "mul", v, cube), simplified(numbering, "mul", w, square))
    assert with_polynomials(numbering, [value], [])[0] is not value  # (v * x - w) * x * x
    assert with_polynomials(numbering, [value], [numbering.over_cols("sum", cube)])[0] is value


def test_two_exact_terms_that_may_cancel_stay_a_difference(numbering: ValueNumbering) -> None:
    """x - w has every digit where both are near; x * x * x - w * x * x has lost them."""
    x, w = x_of(numbering), numbering.load("w", ROW)

    def value(part: TileValue) -> TileValue:
        near = simplified(numbering, "mul", simplified(numbering, "sub", x, part), simplified(numbering, "mul", x, x))
        return simplified(numbering, "add", polynomial(numbering, x, w, w), simplified(numbering, "mul", w, near))

    assert with_polynomials(numbering, [value(w)], [])[0] is value(w)
    mean = numbering.over_cols("sum", x)  # rounded already
    assert with_polynomials(numbering, [value(mean)], [])[0] is not value(mean)


def test_values_of_other_functions_of_the_tensor_stay(numbering: ValueNumbering) -> None:
    x = x_of(numbering)
    value = polynomial(numbering, x, *[simplified(numbering, "exp", x)] * 3)
    assert with_polynomials(numbering, [value], [])[0] is value
