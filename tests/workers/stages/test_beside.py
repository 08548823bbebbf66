"""A model's kernel beside the compiler's: whether the runner's words are enough for it to take the place."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import BenchmarkResult, Comparison, Pass, Timing, Word, WorkloadTiming
from tests.workers.stages.rows import row
from workers.stages.figures import compiled_figures
from workers.stages.generate import weighed

SMALL, LARGE = (("T", 1024),), (("T", 8192),)


def timed(
    speedup: float, sizes: Any = SMALL, timed_pass: Pass = Pass.full, word: Word | None = None, width: float = 0.005
) -> WorkloadTiming:
    low, high = speedup * (1 - width), speedup * (1 + width)
    said = word or (Word.faster if low > 1.01 else Word.slower if high < 0.99 else Word.same)
    found = Comparison("candidate", "original", speedup, low, high, said, 12)
    return replace(row(100.0 / speedup, 50.0, timed_pass, sizes=sizes), comparisons=(found,))


def run(*rows: WorkloadTiming, **changes: Any) -> BenchmarkResult:
    return replace(BenchmarkResult(rows, False, "a GPU", 4000.0), **changes)


def test_faster_at_every_size_is_taken_with_its_mean_and_interval() -> None:
    found = weighed(run(timed(1.2), timed(1.5, LARGE)))
    assert found.taken
    assert found.reason == "1.34 times as fast (1.34 to 1.35) over 2 sizes"
    assert found.median_us == pytest.approx(100.0 / math.sqrt(1.2 * 1.5))


def test_faster_over_all_and_the_same_at_one_size_is_taken() -> None:
    assert weighed(run(timed(1.3), timed(1.0, LARGE))).taken


@pytest.mark.parametrize("timed_pass", list(Pass))
def test_slower_at_one_size_in_any_pass_is_not(timed_pass: Pass) -> None:
    found = weighed(run(timed(1.5), timed(1.5, LARGE), timed(0.9, LARGE, timed_pass)))
    assert not found.taken
    assert f"and slower in {timed_pass.value} at T=8192: 0.90 times as fast (0.90 to 0.90)" in found.reason


@pytest.mark.parametrize("word", [Word.undecided, Word.same])
def test_what_no_size_is_surely_faster_at_is_not(word: Word) -> None:
    assert not weighed(run(timed(1.1, word=word, width=0.01))).taken


def test_a_mean_whose_interval_reaches_down_to_a_hundredth_is_not() -> None:
    found = weighed(run(timed(1.02, word=Word.faster), timed(1.0, LARGE)))
    assert (found.taken, found.reason) == (
        False,
        "1.01 times as fast (1.01 to 1.01) over 2 sizes, which is not faster beyond noise",
    )


def test_more_memory_than_a_guardrail_allows_is_not() -> None:
    peaks = (Timing("candidate", 50.0, peak_bytes=2**30), Timing("original", 100.0, peak_bytes=2**29))
    found = weighed(run(replace(timed(2.0), timings=peaks)))
    assert not found.taken and "and needs 2.00 times the memory in full at T=1024" in found.reason


def failing() -> WorkloadTiming:
    return replace(
        timed(1.5, LARGE), timings=(Timing("candidate", None, error="it is wrong"), Timing("original", 100.0))
    )


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        (run(timed(1.5), predicted=True), "no GPU took part"),
        (run(), "no GPU took part"),
        (run(timed(1.5), failing()), "full at T=8192 failed while it was timed: it is wrong"),
        (run(timed(1.5), replace(timed(1.5, LARGE), comparisons=())), "full at T=8192 was not timed within the time"),
        (run(timed(1.5), replace(timed(9.0, LARGE), fault="under the floor")), "the times of full at T=8192 cannot be right"),
        (run(timed(1.5), complete=False), "not all sizes were timed within the time"),
    ],
)  # fmt: skip
def test_what_was_not_timed_everywhere_is_not(measured: BenchmarkResult, told: str) -> None:
    found = weighed(measured)
    assert not found.taken and found.reason.startswith(told)


def test_where_no_backward_is_timed_the_forward_pass_decides() -> None:
    assert weighed(run(timed(1.4, timed_pass=Pass.forward))).taken


@given(st.lists(st.floats(min_value=0.5, max_value=2.0), min_size=1, max_size=6))
def test_none_is_taken_that_is_slower_anywhere_or_not_faster_over_all(speedups: list[float]) -> None:
    rows = [timed(speedup, (("T", 2**at),)) for at, speedup in enumerate(speedups)]
    if weighed(run(*rows)).taken:
        assert math.prod(speedups) ** (1 / len(speedups)) > 1.01
        assert all(row.comparisons[0].word is not Word.slower for row in rows)


def test_figures_say_what_is_known_and_leave_out_what_is_not() -> None:
    known = replace(row(200.0, 100.0), bound="memory")
    told = compiled_figures(run(known, row(None), row(50.0, None, Pass.backward), vector_tflops=60.0))
    lines = told.splitlines()
    assert lines[0] == "The compiled kernel, timed on a GPU at the problem's own sizes, with a cold cache."
    assert lines[1] == "The floor is the least time that this GPU needs, as measured: 4000 GB/s, 60 TFLOP/s otherwise."
    assert "forward at T=4096 H=8192: 200.0 us, floor 100.0 us, the floor is 50% of its time, bound by memory" in lines
    assert "forward at T=4096 H=8192: not timed, floor 100.0 us" in lines
    assert "backward at T=4096 H=8192: 50.0 us" in lines
