"""Every rule holds where its threshold says, and the diagnosis follows the time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import Bound, GpuPeaks, KernelCounters, Pass, Roofline, Stall, Workload
from gpu_runner.profiler import rules

GPU = GpuPeaks("NVIDIA H200", 4224.0, 989.0, 67.0, 50 * 2**20, 132, "a data sheet", measured=False)
WORKLOAD = Workload((("T", 4096),))
LINE = Roofline(WORKLOAD, Pass.forward, 1_000_000, 1_000_000, 0, 1.0, 100.0, 10.0, 100.0, Bound.memory)
QUIET = KernelCounters(
    "kernel", Pass.forward, WORKLOAD, True, 100.0, 0.1, 0.1, 0.1, 0.0, 1_000_000, 0.5, 0.9, 32, 0, 4096, 256
)


def names(*kernels: KernelCounters, line: Roofline = LINE) -> set[str]:
    findings, _ = rules.examine([line], kernels, GPU)
    return {finding.rule for finding in findings}


def bound(*kernels: KernelCounters, line: Roofline = LINE) -> Bound:
    return dict(rules.examine([line], kernels, GPU)[1])[Pass.forward]


@pytest.mark.parametrize(
    ("change", "rule", "expected"),
    [
        ({"dram_share": 0.85}, "memory_busy", Bound.memory),
        ({"sm_share": 0.7}, "compute_busy", Bound.compute),
        ({"tensor_share": 0.65}, "tensor_busy", Bound.compute),
        ({"l2_share": 0.8, "dram_share": 0.2}, "l2_busy", Bound.locality),
        ({"grid": 64}, "few_programs", Bound.latency),
        ({"occupancy": 0.2}, "low_occupancy", Bound.latency),
        ({}, "nothing_busy", Bound.latency),
        ({"stalls": (Stall("long_scoreboard", 0.7),)}, "long_stall", Bound.latency),
    ],
)
def test_a_rule_holds_and_names_what_bounds(change: dict[str, object], rule: str, expected: Bound) -> None:
    kernel = replace(QUIET, **change)  # type: ignore[arg-type]
    assert rule in names(kernel)
    assert bound(kernel) is expected


def test_a_finding_cites_what_it_saw_and_the_threshold() -> None:
    findings, _ = rules.examine([LINE], [replace(QUIET, dram_share=0.85)], GPU)
    found = next(finding for finding in findings if finding.rule == "memory_busy")
    assert (found.metric, found.value, found.threshold, found.subject) == ("dram_share", 0.85, 0.6, "kernel (forward)")


def test_just_below_the_threshold_nothing_holds() -> None:
    assert names(replace(QUIET, dram_share=0.59)) == set()


def test_a_busy_kernel_with_a_small_grid_is_no_latency_problem() -> None:
    assert names(replace(QUIET, grid=64, dram_share=0.9)) == {"memory_busy"}


def test_spills_are_told_whatever_bounds() -> None:
    assert names(replace(QUIET, spilled_bytes=4096, dram_share=0.9)) == {"memory_busy", "spills"}


def test_bytes_beyond_what_must_move_are_a_problem_of_locality() -> None:
    busy = replace(QUIET, dram_share=0.9, dram_bytes=1_400_000)
    assert "moves_more" in names(busy)
    assert bound(busy) is Bound.locality
    assert bound(replace(busy, dram_bytes=1_200_000)) is Bound.memory


def test_bytes_of_all_launches_of_a_pass_count_together() -> None:
    half = replace(QUIET, dram_share=0.9, dram_bytes=700_000)
    assert "moves_more" in names(half, half)


def test_time_in_other_kernels_is_told_from_a_tenth_on() -> None:
    busy = replace(QUIET, dram_share=0.9, dram_bytes=500_000)
    assert "other_kernels" in names(busy, replace(busy, own=False, kernel="fill", duration_us=12.0))
    assert "other_kernels" not in names(busy, replace(busy, own=False, kernel="fill", duration_us=10.0))


def test_the_diagnosis_is_that_of_most_of_the_time() -> None:
    long = replace(QUIET, dram_share=0.9, duration_us=80.0, dram_bytes=500_000)
    short = replace(QUIET, kernel="small", duration_us=20.0, dram_bytes=1000)
    assert bound(long, short) is Bound.memory
    assert bound(replace(long, duration_us=10.0), short) is Bound.latency


def test_a_unit_between_the_thresholds_still_names_the_busiest() -> None:
    assert bound(replace(QUIET, dram_share=0.5, sm_share=0.45)) is Bound.memory


def test_without_counters_the_roofline_decides() -> None:
    assert bound() is Bound.memory
    assert bound(line=replace(LINE, bound=Bound.compute)) is Bound.compute
    assert bound(line=replace(LINE, floor_us=3.0)) is Bound.latency
    assert bound(line=replace(LINE, floor_us=None, bound=Bound.unknown)) is Bound.unknown


def test_every_rule_says_where_its_threshold_is_from() -> None:
    assert all("Source:" in (rule.measure.__doc__ or "") for rule in rules.RULES)
    assert len({rule.name for rule in rules.RULES}) == len(rules.RULES)
