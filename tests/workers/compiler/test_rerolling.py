"""Loops that a trace has unrolled are found again, and give the same bits as what was unrolled."""

from __future__ import annotations

import re

import pytest

from tests.few import asked_for
from tests.workers.compiler.captured import COMPILED, names, proposal
from tests.workers.compiler.formed import formed, section_style
from tests.workers.compiler.processes import interpreted
from workers.authors.compiler.domain import COL, FULL
from workers.authors.compiler.rerolling import RerolledLoop, rerolled_loops
from workers.authors.compiler.values import TileValue, ValueNumbering

LOOPED = ("sparsemax", "newton_root", "sinkhorn_rows")
SIZES = ((1, 1), (5, 129), (7, 64))
CASES = {
    f"{name} {rows}x{cols} {dtype} {form}": (name, {"T": rows, "H": cols}, dtype, form)
    for name in LOOPED
    for form, dtype in (("plain", "float32"), ("plain", "bfloat16"), ("tuned", "float32"))
    for rows, cols in SIZES
}


def newton(numbering: ValueNumbering, turns: int) -> list[TileValue]:
    """The states of Newton's iteration for a square root, each with four operations."""
    x = numbering.load("x", FULL)
    states = [numbering.pointwise("add", x, numbering.const(1.0))]
    for _ in range(turns):
        ratio = numbering.pointwise("div", x, states[-1])
        mean = numbering.pointwise("mul", numbering.const(0.5), numbering.pointwise("add", states[-1], ratio))
        states.append(numbering.pointwise("maximum", mean, numbering.const(0.0)))
    return states


def only(*roots: TileValue) -> RerolledLoop:
    """The one loop that there is."""
    (found,) = rerolled_loops(roots)
    return found


def test_every_turn_of_a_python_loop_is_a_turn() -> None:
    states = newton(ValueNumbering(), 9)
    loop = only(states[-1])
    assert (loop.count, len(loop.body)) == (9, 4)
    assert (loop.starts, loop.ends) == ((states[0],), (states[-1],))


def test_what_comes_before_and_after_stays_outside() -> None:
    numbering = ValueNumbering()
    states = newton(numbering, 6)
    loop = only(numbering.pointwise("exp", numbering.pointwise("mul", states[-1], states[0])))
    assert loop.count == 6
    assert loop.own == frozenset()  # the first state is read again behind the loop


def test_two_states_that_lean_on_each_other_go_over_together() -> None:
    numbering = ValueNumbering()
    a, b = numbering.load("a", FULL), numbering.load("b", FULL)
    low, high = numbering.pointwise("minimum", a, b), numbering.pointwise("maximum", a, b)
    first = (low, high)
    for _ in range(5):
        middle = numbering.pointwise("mul", numbering.const(0.5), numbering.pointwise("add", low, high))
        above = numbering.pointwise("gt", middle, a)
        low, high = numbering.pointwise("where", above, middle, low), numbering.pointwise("where", above, high, middle)
    both = only(numbering.pointwise("sub", high, low))
    assert (both.count, set(both.starts), set(both.ends)) == (5, set(first), {low, high})
    one = only(low)
    assert (one.count, set(one.ends)) == (5, {low, None})  # the other state's last value does not exist


def test_a_state_that_is_read_between_turns_keeps_them_unrolled() -> None:
    numbering = ValueNumbering()
    states = newton(numbering, 9)
    assert rerolled_loops(states) == ()
    found = rerolled_loops([numbering.pointwise("add", states[4], states[9])])
    assert [(loop.count, *loop.starts, *loop.ends) for loop in found] == [
        (4, states[0], states[4]),
        (5, states[4], states[9]),
    ]


def test_turns_with_numbers_of_their_own_are_not_the_same() -> None:
    numbering = ValueNumbering()
    value = numbering.load("x", FULL)
    for turn in range(12):
        value = numbering.pointwise("mul", value, numbering.const(float(turn) + 0.5))
        value = numbering.pointwise("exp", numbering.pointwise("neg", value))
    assert rerolled_loops([value]) == ()


def test_a_few_operations_are_shorter_as_they_are() -> None:
    assert rerolled_loops([newton(ValueNumbering(), 3)[-1]]) == ()
    numbering = ValueNumbering()
    power = x = numbering.load("x", FULL)
    for _ in range(4):
        power = numbering.pointwise("mul", power, x)
    assert rerolled_loops([power]) == ()


def test_what_no_row_changes_is_computed_before_the_rows_and_not_in_a_loop() -> None:
    numbering = ValueNumbering()
    value = numbering.load("w", COL)
    for _ in range(9):
        value = numbering.pointwise("exp", numbering.pointwise("neg", numbering.pointwise("abs", value)))
    assert rerolled_loops([numbering.pointwise("mul", numbering.load("x", FULL), value)]) == ()


def test_two_loops_one_behind_the_other_are_two() -> None:
    numbering = ValueNumbering()
    states = newton(numbering, 6)
    value = states[-1]
    for _ in range(8):
        value = numbering.pointwise("tanh", numbering.pointwise("sub", numbering.pointwise("exp", value), states[-1]))
    found = rerolled_loops([value])
    assert [(loop.count, len(loop.body)) for loop in found] == [(6, 4), (8, 3)]


def test_the_kernel_of_a_bisection_writes_it_once() -> None:
    source = formed("sparsemax", section_style("sparsemax")).source
    kernel = source[source.index("_forward_kernel(") : source.index("_forward_kernel_wide(")]
    assert "for _ in tl.range(20, loop_unroll_factor=20 if NUM_STAGES > 1 else 1):" in kernel
    assert "    20 times:" in kernel
    assert len(re.findall(r"tl\.where\(row_sum_\d_is_gt", kernel)) == 2
    assert "for _ in range(20):" in proposal("sparsemax").source


def test_row_numbers_that_backward_is_handed_keep_turns_apart() -> None:
    source = proposal("row_power").source
    assert "rstd_6_ptr" in source
    assert "for _ in" not in source


def test_nothing_else_is_taken_for_a_loop() -> None:
    assert set(LOOPED) <= set(names())
    assert {name for name in COMPILED if "for _ in" in proposal(name).source} == set(LOOPED)


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the cases of this run found, from one process."""
    cases = {case: CASES[case] for case in asked_for(request, "case")}
    return interpreted("repeated", cases, tmp_path_factory.mktemp("repeated"))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_loop_gives_the_bits_of_what_was_unrolled(case: str, results: dict[str, list[str]]) -> None:
    assert results[case] == []
