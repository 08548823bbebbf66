"""Numbers become expressions, expressions become numbers, and the two agree."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import parse_problem
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from gpu_runner.tracing.fitting import Fitter
from gpu_runner.tracing.sizes import MAX_ELEMENTS, dimensions, scalar_sets, size_sets
from tests.gpu_runner.core.problems import PROBLEMS

SETTINGS = (
    {"T": 101, "H": 131, "V": 151, "eps": 1e-6, "s": 0.1, "groups": 8},
    {"T": 137, "H": 149, "V": 173, "eps": 7.31e-7, "s": 0.0617, "groups": 11},
    {"T": 168, "H": 182, "V": 194, "eps": 1.391e-6, "s": 0.1523, "groups": 13},
)
FITTER = Fitter(SETTINGS, ("T", "H", "V"))


@pytest.mark.parametrize(
    "text",
    [
        "T",
        "T * H",
        "H // 2",
        "(H + 1) // 2",
        "2 * H",
        "T - 1",
        "H + 3",
        "-T",
        "T + H",
        "V - H",
        "T * H * V",
        "2 * T + 1",
        "H // 2 + 1",
        "(T * H) // 8",
        "T * groups",
        "eps",
        "-eps",
        "1 - s",
        "1 / s",
        "s * s",
        "2 * s",
        "s / V",
        "(1 - s) / V",
        "s / (V - 1)",
        "1 / H",
        "1 / (T * H)",
        "2 / H",
        "s * eps",
        "0.5 - s",
        "2 * s + 1",
        "1 - s - s / (V - 1)",
    ],
)
def test_an_expression_is_recovered_from_its_values(text: str) -> None:
    values = [evaluate_expression(text, setting) for setting in SETTINGS]
    found = FITTER.fit(values)
    if text == "1 - s - s / (V - 1)":
        assert found is None  # two terms that both change are beyond it, and that is said instead of guessed
        return
    assert found is not None
    other = {"T": 16, "H": 50, "V": 34, "eps": 1e-3, "s": 0.7, "groups": 4}
    assert math.isclose(evaluate_expression(found, other), evaluate_expression(text, other), rel_tol=1e-9), found


def test_a_size_less_a_number_is_no_quotient_of_a_product() -> None:
    settings = ({"N": 5, "H": 13}, {"N": 7, "H": 17}, {"N": 12, "H": 20})  # (H * H + 33) // 34 gives the same
    assert Fitter(settings, ("N", "H")).fit([5, 9, 12]) == "H - 8"


def test_the_nearest_of_sizes_that_grow_alike_is_taken() -> None:
    settings = ({"C": 13, "W": 37}, {"C": 17, "W": 41}, {"C": 20, "W": 44})
    assert Fitter(settings, ("C", "W")).fit([35, 39, 42]) == "W - 2"


def test_numbers_without_a_rule_have_no_expression() -> None:
    assert FITTER.fit([3, 17, 4]) is None
    assert FITTER.fit([0.123, 0.77, 0.5]) is None


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "T.real", "T ** 2", "T[0]", "1 if T else 2", "unknown", "'a'", "T(", "1 / 0", "(" * 99 + "T"],
)
def test_what_is_no_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate_expression(text, {"T": 3})


@given(st.text(max_size=40))
def test_no_text_does_anything_but_give_a_number_or_an_error(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        assert isinstance(evaluate_expression(text, {"T": 3, "eps": 0.5}), int | float)


@pytest.mark.parametrize("name", ["rms_norm", "group_norm", "rope_pairs", "repeated_heads"])
def test_sizes_to_trace_with_are_all_different_and_small_enough(name: str) -> None:
    problem = parse_problem(PROBLEMS[name])
    for triple in size_sets(problem):
        assert len(triple) == 3
        for dim in dimensions(problem):
            assert len({sizes[dim] for sizes in triple}) == 3
        for spec in problem.inputs:
            assert max(math.prod(int(d) if d.isdigit() else s[d] for d in spec.dims) for s in triple) <= MAX_ELEMENTS


def test_scalars_start_with_their_own_value_and_then_change() -> None:
    problem = parse_problem(PROBLEMS["cross_entropy"])
    first, second, third = scalar_sets(problem, ["smoothing", "ignore"])
    assert first == {"smoothing": 0.1, "ignore": -100}
    assert (
        len({s["smoothing"] for s in (first, second, third)}) == len({s["ignore"] for s in (first, second, third)}) == 3
    )
    assert scalar_sets(problem, [])[2] == first
