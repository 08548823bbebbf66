"""The numbers on the pages about measuring and about verdicts are those of the program."""

from __future__ import annotations

import math
import re
from pathlib import Path

import torch

from gpu_runner import peaks
from gpu_runner.benchmark import checks, conditions, contender, estimate, material, race
from gpu_runner.benchmark.roofline import FAULT_SHARE
from gpu_runner.child import gauge, input_sets, timing
from gpu_runner.contracts import RecordRequest, Status, parse_problem
from gpu_runner.numerics import tolerances
from gpu_runner.profiler import rules
from gpu_runner.program import poison
from gpu_runner.tuning import plan, search, settings, tuner
from gpu_runner.verify import (
    cases,
    constants,
    draws,
    extremes,
    honesty,
    inputs,
    judge,
    laying,
    mutants,
    other_calls,
    proof,
    truth,
)
from tests.problems import problem_source

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, VERDICT = (DOCS / "measuring.md").read_text(), (DOCS / "verdict.md").read_text()
FLAT, VERDICT_FLAT = " ".join(PAGE.split()), " ".join(VERDICT.split())  # a phrase may go on in the next line


def row(first: str) -> str:
    """The table row of the page about verdicts that begins with a cell."""
    return next(line for line in VERDICT.splitlines() if line.startswith(f"| {first} |"))


def test_the_allowed_errors_are_told() -> None:
    for name in ("float32", "float16", "bfloat16"):
        floor = tolerances.FLOORS[getattr(torch, name)]
        told = [float(cell) for cell in row(name).strip("| ").split(" | ")[1:]]
        assert told == [floor.tensor, floor.row, floor.element]
    assert f"{tolerances.ERROR_RATIO:.0f} (1 + 1/sqrt(n)) x own + floor x scale" in row("whole tensor")
    assert f"+ {tolerances.PEAK_RATIO:.0f} x typical own" in row("each element")


def test_what_is_allowed_beside_an_original_is_told() -> None:
    assert tolerances.PEER_RATIO == 2.0
    assert "and beyond the table by twice as much" in row("errs more than the table above allows")
    assert f"Of {tolerances.FEW_ELEMENTS} elements or fewer the share counts" in VERDICT_FLAT
    assert checks.MOST_PEER_ERROR == 0.1
    assert "ten times beyond what is allowed, and by more than a tenth of the scale, gives no allowance" in FLAT


def test_where_tensors_lie_is_told() -> None:
    cells = row("layout of inputs and of upstream gradients")
    assert f"a gap after each row, of 1 to {laying.MOST_GAP} elements or of a row's own length" in cells
    assert f"an odd storage offset, in half of the cases beyond {power(laying.FAR_SHIFT)} elements" in cells
    assert f"columns of a wider tensor, up to {laying.MOST_STEP} apart" in cells


def power(value: float) -> str:
    """A power of two as the page writes it."""
    exponent = math.log2(value)
    assert exponent.is_integer()
    return f"2^{exponent:.0f}"


def test_every_kind_of_case_that_is_planned_has_a_row() -> None:
    problem = parse_problem(problem_source("rms_norm"))
    for quick in (False, True):
        planned = cases.plan_cases(
            problem,
            problem.dtypes,
            problem.workloads,
            interpreted=True,
            quick=quick,
            draws=draws.Draws.fresh(),
            numbers=constants.WrittenNumbers({64}),
        )
        for name in {case.name for case in planned} - {"workload", "other whole scalars"}:
            assert any(name in line for line in VERDICT.splitlines() if line.startswith("| ")), name


def test_the_numbers_of_the_cases_are_told() -> None:
    assert f"4100 to {cases.WIDEST_DRAWN}, for each of the first two column dimensions; all |" in row(
        "wider than one block"
    )
    kinds = f"{cases.BOUNDARIES} in all, {cases.INTERPRETED_BOUNDARIES} in the interpreter"
    assert kinds in row("around a constant")
    assert f"one element {extremes.PEAK:.0f} times as large" in row("special rows")
    assert f"2^-{inputs.WILD:.0f} to 2^{inputs.WILD:.0f}" in row("scales")
    assert inputs.ZERO_WEIGHTS == 1 / 8
    for text in (
        f"{8 * draws.MASTER_BYTES} bits",
        f"tree up to {power(constants.LARGEST)}",
        f"one program after the other, an input has at most {power(cases.INTERPRETED_ELEMENTS)} elements",
        f"reach {power(cases.INTERPRETED_WIDEST)} columns and {cases.INTERPRETED_DEEPEST} rows",
        f"all dimensions is at most {power(cases.INTERPRETED_WORK)}",
        f"about {2 * cases.INTERPRETED_ROWS} rows and {cases.INTERPRETED_COLUMNS} columns",
        f"up to {power(truth.MOST_SHAKEN)} elements",
        f"{poison.GUARD_ELEMENTS} elements before and after",
        f"no input has more than {power(cases.GPU_ELEMENTS)} elements",
    ):
        assert text in VERDICT_FLAT, text
    assert truth.SHAKE == 4 * tolerances.FLOAT32_STEP
    assert "four roundings of float32 away" in VERDICT_FLAT


def test_what_torch_may_do_is_told() -> None:
    assert f"beyond 1/{honesty.PART} of the largest tensor and {honesty.LEAST} elements" in VERDICT_FLAT
    assert f"at most 1/{proof.SMALL} of the largest input" in VERDICT_FLAT
    assert (honesty.FEW, honesty.SHARE, honesty.PROGRAMS) == (4, 16, 4)
    assert (
        f"no more meet in one result than {honesty.PARTIALS}, or four for each multiprocessor, or a 16th of"
        in VERDICT_FLAT
    )
    assert "at most a quarter of that tensor" in VERDICT_FLAT


def test_every_status_has_a_row() -> None:
    statuses = {word for line in PAGE.splitlines() if line.startswith("| `") for word in re.findall(r"`(\w+)`", line)}
    assert set(Status) - {Status.passed} <= statuses
    for rule in (judge.INTERPRETED, other_calls.OTHERWISE):
        assert f"| `{rule}` |" in PAGE


def test_every_status_of_the_tables_of_checks_is_one() -> None:
    for word in re.findall(
        r"`(incorrect_\w+|unwritten_output|mutated_input|out_of_bounds|nondeterministic|unproved)`", PAGE + VERDICT
    ):
        assert word in set(Status)


def test_the_mutants_are_told() -> None:
    told = VERDICT_FLAT.split("**Mutants**", 1)[1].split("4. **", 1)[0].lower()
    for words in ("zeros", "ones", "the mean everywhere", "an input", "only the first columns", "the last answer"):
        assert words in told
        assert words in mutants.MUTANTS
    assert len(mutants.MUTANTS) == 6


def test_the_protocol_is_told() -> None:
    for text in (
        f"2 warm-up runs and {contender.MOST_SAMPLES} timed ones",
        f"gives {contender.LEAST_SAMPLES} at least",
        f"after {', '.join(map(str, race.LOOKS[:-1]))} and {race.LOOKS[-1]} pairs",
        f"holds with {race.EARLY_LEVEL:.1%} certainty",
        f"The last look takes {race.LAST_LEVEL:.0%}. Fewer than {race.LEAST_PAIRS} pairs give no word.",
        f"at least {race.RESOLUTION_US} µs of the clock",
        f"fell by more than {conditions.CLOCK_FALL:.0%} of the median",
        f"of larger ones secret rows with 2^{input_sets.MOST_ELEMENTS.bit_length() - 1} elements",
        f"{estimate.RESAMPLES} resamples",
        f"lies beyond {estimate.MARGIN:.0%}",
        f"within the control, up to {estimate.MOST_SAME:.0%}",
        f"under {FAULT_SHARE:.0%} of what is sure of the floor",
        f"({peaks.DEFAULT.name}) times {peaks.COPY_SHARE}",
        f"{input_sets.LEAST_BYTES >> 20} MiB at least",
        f"{gauge.COPY_BYTES >> 30} GiB copy",
    ):
        assert text in FLAT, text
    assert (material.PLACES, material.FEW_PLACES) == (3, 2)
    assert "A ring of three sets that differ in content (two where one is large)" in FLAT
    assert judge.MOST_EVIDENCE == 5
    assert "stops after five findings" in VERDICT_FLAT


def test_the_rules_of_the_profile_are_told() -> None:
    told = FLAT.split("## Profile", 1)[1].split("## Tune", 1)[0]
    for name in [rule.name for rule in rules.RULES]:
        assert f"`{name}`" in told
    for text in (
        f"at {rules.BUSY:.0%} of its peak or more",
        f"or more, device memory under {rules.IDLE:.0%}",
        f"occupancy under {rules.LOW_OCCUPANCY:.0%}",
        f"one reason for {rules.LONG_STALL:.0%} of the waiting or more, and nothing at {rules.BUSY:.0%}",
        f"over {rules.REFETCHED} times the bytes",
        f"({rules.OTHERS_SHARE:.0%} of the time or more",
        f"a floor under {rules.SHORT_US:.0f} µs",
    ):
        assert text in told, text


def test_the_search_for_settings_is_told() -> None:
    first, second = (limit - 1 for limit in search.CLEARLY_WORSE)
    for text in (
        f"({first:.0%} after the first block, {second:.0%} after the second)",
        f"{search.LEAST_ROUNDS} to {search.MOST_FINAL_ROUNDS} rounds",
        f"The search has {tuner.SEARCH_SHARE:.0%} of the time",
        f"more than {settings.HARM - 1:.0%} slower are not taken",
        f"within {plan.NEAR - 1:.0%} of what the GPU's memory allows",
    ):
        assert text in FLAT, text
    assert search.FINALISTS == 3
    assert "a last round among the best three" in FLAT


def test_what_is_recorded_and_what_is_wrong_by_far_is_told() -> None:
    assert f"{RecordRequest('', '', '', '').most} at most" in FLAT
    assert tolerances.FAR == 10.0
    assert "more than ten times the allowed error" in VERDICT_FLAT
    assert timing.MOST_LATE == 3
    assert "three times the runs of a turn at most" in FLAT
    assert f"the median of at most {contender.HOST_SAMPLES} runs" in FLAT
