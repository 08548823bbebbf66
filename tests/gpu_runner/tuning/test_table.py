"""The table holds for the sizes that were measured, and for no others."""

from __future__ import annotations

from gpu_runner.contracts import Pass, Workload
from gpu_runner.tuning.settings import DEFAULT, Settings, TunedSize, table

EIGHT: Settings = (("num_warps", 8),)
SIXTEEN: Settings = (("num_warps", 16),)


def tuned_size(
    size: int, settings: Settings, costs: dict[Settings, float] | None = None, rows: int = 4096
) -> TunedSize:
    times = {DEFAULT: 100.0, settings: 90.0} | (costs or {})
    workload = Workload((("T", rows), ("H", size)))
    return TunedSize(Pass.forward, workload, (size,), settings, tuple(times.items()))


def test_a_size_reaches_down_to_its_half() -> None:
    assert table([tuned_size(4096, EIGHT)]) == ((Pass.forward, ((2048, DEFAULT), (4096, EIGHT))),)


def test_neighbours_that_agree_are_one_entry() -> None:
    rows = table([tuned_size(4096, EIGHT), tuned_size(8192, EIGHT), tuned_size(16384, SIXTEEN)])
    assert rows == ((Pass.forward, ((2048, DEFAULT), (8192, EIGHT), (16384, SIXTEEN))),)


def test_between_sizes_that_lie_far_apart_the_default_holds() -> None:
    rows = table([tuned_size(1024, EIGHT), tuned_size(16384, EIGHT)])
    assert rows == ((Pass.forward, ((512, DEFAULT), (1024, EIGHT), (8192, DEFAULT), (16384, EIGHT))),)


def test_a_size_for_which_the_default_won_is_not_covered_by_a_larger_one() -> None:
    rows = table([tuned_size(4096, DEFAULT), tuned_size(8192, EIGHT)])
    assert rows == ((Pass.forward, ((4096, DEFAULT), (8192, EIGHT))),)


def test_where_the_default_won_everywhere_there_is_no_row() -> None:
    assert table([tuned_size(4096, DEFAULT), tuned_size(8192, DEFAULT)]) == ()


def test_workloads_of_one_size_agree_on_what_is_best_over_both() -> None:
    first = tuned_size(4096, EIGHT, {EIGHT: 80.0, SIXTEEN: 85.0}, rows=1024)
    second = tuned_size(4096, SIXTEEN, {EIGHT: 98.0, SIXTEEN: 90.0}, rows=8192)
    assert table([first, second]) == ((Pass.forward, ((2048, DEFAULT), (4096, SIXTEEN))),)


def test_what_harms_one_workload_of_a_size_is_not_taken() -> None:
    first = tuned_size(4096, EIGHT, {EIGHT: 80.0}, rows=1024)
    second = tuned_size(4096, DEFAULT, {EIGHT: 103.0}, rows=8192)
    assert table([first, second]) == ()


def test_what_was_not_tried_on_every_workload_of_a_size_is_not_taken() -> None:
    first = tuned_size(4096, EIGHT, rows=1024)
    second = tuned_size(4096, DEFAULT, rows=8192)
    assert table([first, second]) == ()


def test_passes_are_apart() -> None:
    backward = TunedSize(Pass.backward, Workload((("H", 64),)), (64,), EIGHT, ((DEFAULT, 2.0), (EIGHT, 1.0)))
    rows = table([backward, tuned_size(64, SIXTEEN)])
    assert [row[0] for row in rows] == [Pass.forward, Pass.backward]
