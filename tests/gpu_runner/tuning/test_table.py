"""The table holds for the sizes that were measured, and for no others."""

from __future__ import annotations

from gpu_runner.contracts import Pass, Workload
from gpu_runner.tuning.settings import DEFAULT, Found, Settings, table

EIGHT: Settings = (("num_warps", 8),)
SIXTEEN: Settings = (("num_warps", 16),)


def found(size: int, settings: Settings, costs: dict[Settings, float] | None = None, rows: int = 4096) -> Found:
    times = {DEFAULT: 100.0, settings: 90.0} | (costs or {})
    workload = Workload((("T", rows), ("H", size)))
    return Found(Pass.forward, workload, (size,), settings, tuple(times.items()))


def test_a_size_reaches_down_to_its_half() -> None:
    assert table([found(4096, EIGHT)]) == ((Pass.forward, ((2048, DEFAULT), (4096, EIGHT))),)


def test_neighbours_that_agree_are_one_entry() -> None:
    rows = table([found(4096, EIGHT), found(8192, EIGHT), found(16384, SIXTEEN)])
    assert rows == ((Pass.forward, ((2048, DEFAULT), (8192, EIGHT), (16384, SIXTEEN))),)


def test_between_sizes_that_lie_far_apart_the_default_holds() -> None:
    rows = table([found(1024, EIGHT), found(16384, EIGHT)])
    assert rows == ((Pass.forward, ((512, DEFAULT), (1024, EIGHT), (8192, DEFAULT), (16384, EIGHT))),)


def test_a_size_for_which_the_default_won_is_not_covered_by_a_larger_one() -> None:
    rows = table([found(4096, DEFAULT), found(8192, EIGHT)])
    assert rows == ((Pass.forward, ((4096, DEFAULT), (8192, EIGHT))),)


def test_where_the_default_won_everywhere_there_is_no_row() -> None:
    assert table([found(4096, DEFAULT), found(8192, DEFAULT)]) == ()


def test_workloads_of_one_size_agree_on_what_is_best_over_both() -> None:
    first = found(4096, EIGHT, {EIGHT: 80.0, SIXTEEN: 85.0}, rows=1024)
    second = found(4096, SIXTEEN, {EIGHT: 98.0, SIXTEEN: 90.0}, rows=8192)
    assert table([first, second]) == ((Pass.forward, ((2048, DEFAULT), (4096, SIXTEEN))),)


def test_what_harms_one_workload_of_a_size_is_not_taken() -> None:
    first = found(4096, EIGHT, {EIGHT: 80.0}, rows=1024)
    second = found(4096, DEFAULT, {EIGHT: 103.0}, rows=8192)
    assert table([first, second]) == ()


def test_what_was_not_tried_on_every_workload_of_a_size_is_not_taken() -> None:
    first = found(4096, EIGHT, rows=1024)
    second = found(4096, DEFAULT, rows=8192)
    assert table([first, second]) == ()


def test_passes_are_apart() -> None:
    backward = Found(Pass.backward, Workload((("H", 64),)), (64,), EIGHT, ((DEFAULT, 2.0), (EIGHT, 1.0)))
    rows = table([backward, found(64, SIXTEEN)])
    assert [row[0] for row in rows] == [Pass.forward, Pass.backward]
