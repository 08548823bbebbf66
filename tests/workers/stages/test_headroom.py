from __future__ import annotations

from statistics import geometric_mean

import pytest

from gpu_runner.contracts import BenchmarkResult, Pass, Workload, parse_problem
from tests.workers.stages.rows import row
from workers.contracts import FailureCode, Scope, Target, UserFacingError
from workers.stages.headroom import (
    MOST_SIZES,
    chosen_sizes,
    headrooms,
    nothing_to_gain,
    room,
    target_met,
    with_sizes,
)


def measured(*times_us: float, predicted: bool = False) -> BenchmarkResult:
    return BenchmarkResult(tuple(row(time_us) for time_us in times_us), predicted, "a GPU", 4000.0)


@pytest.mark.parametrize(
    ("times_us", "nothing"),
    [((105.0, 107.0), True), ((105.0, 130.0), False), ((116.0, 116.0), False), ((90.0, 95.0), True)],
)
def test_there_is_nothing_to_gain_only_near_the_floor_at_every_size(times_us: tuple[float, ...], nothing: bool) -> None:
    assert nothing_to_gain(measured(*times_us), Scope.general) is nothing


def test_a_prediction_never_says_that_there_is_nothing_to_gain() -> None:
    assert nothing_to_gain(measured(100.0, predicted=True), Scope.general) is False


def test_scope_looks_at_its_own_pass_alone() -> None:
    rows = (row(104.0, timed_pass=Pass.forward), row(312.0, timed_pass=Pass.backward))
    assert headrooms(rows, Scope.forward) == (1.0,)
    assert headrooms(rows, Scope.backward) == (3.0,)
    assert headrooms((row(None), row(100.0, floor_us=None)), Scope.general) == ()


def test_both_passes_together_count_only_where_the_backward_pass_has_no_floor() -> None:
    full = row(208.0, timed_pass=Pass.full)
    assert headrooms((row(104.0), full), Scope.general) == (1.0, 2.0)
    assert headrooms((row(104.0), full), Scope.forward) == (1.0,)
    assert headrooms((row(104.0), row(104.0, timed_pass=Pass.backward), full), Scope.general) == (1.0, 1.0)


def test_a_launch_is_no_headroom() -> None:
    assert headrooms((row(8.0, floor_us=4.0),), Scope.general) == (1.0,)


@pytest.mark.parametrize("times_us", [(105.0, 107.0), (105.0, 130.0), (116.0, 116.0), (90.0, 95.0), (300.0,)])
def test_a_new_kernel_has_room_where_there_is_something_to_gain(times_us: tuple[float, ...]) -> None:
    found = room(measured(*times_us))
    assert (found is None) is nothing_to_gain(measured(*times_us), Scope.general)
    assert found is None or found == geometric_mean([max(1.0, time_us / 104.0) for time_us in times_us])


def test_there_is_no_room_in_a_prediction_or_where_no_floor_is_known() -> None:
    assert room(measured(300.0, predicted=True)) is None
    assert room(BenchmarkResult((row(300.0, None), row(None)), False, "a GPU", None)) is None


def test_sizes_at_which_launches_take_the_time_are_no_room() -> None:
    small = (row(12.0, 2.0), row(20.0, 3.0, Pass.backward), row(30.0, 5.0, Pass.full))
    assert room(BenchmarkResult(small, False, "a GPU", 4000.0)) is None
    assert room(BenchmarkResult((*small, row(104.0)), False, "a GPU", 4000.0)) is None
    assert room(BenchmarkResult((*small, row(208.0)), False, "a GPU", 4000.0)) == 2.0


def test_target_holds_only_where_every_row_it_speaks_of_is_under_it() -> None:
    small, large = row(50.0, sizes=(("T", 1024), ("H", 4096))), row(80.0, sizes=(("T", 4096), ("H", 4096)))
    target = Target("forward", 60.0, (("H", 4096),))
    assert target_met((small,), target)
    assert not target_met((small, large), target)
    assert not target_met((small,), Target("backward", 60.0))
    assert not target_met((small,), Target("forward", 60.0, (("H", 8192),)))


def test_sizes_are_the_problems_own_and_then_the_ends_of_what_was_recorded() -> None:
    own = (Workload((("T", 4096),)),)
    recorded = tuple(Workload((("T", size),), "bfloat16") for size in (1024, 2048, 4096, 8192, 16384, 32768, 65536))
    chosen = chosen_sizes(own, recorded)
    assert len(chosen) == MOST_SIZES
    assert [w.sizes[0][1] for w in chosen] == [4096, 65536, 1024, 32768, 2048, 16384]


def test_the_same_size_in_another_dtype_is_another_workload() -> None:
    own = (Workload((("T", 4096),), "float32"),)
    assert len(chosen_sizes(own, (Workload((("T", 4096),), "bfloat16"),))) == 2


PROBLEM = parse_problem(
    "import torch\n\ndef reference(x):\n    return x.relu()\n\nINPUTS = {'x': 'T H'}\nWORKLOADS = [{'T': 8, 'H': 16}]\n"
)


def sized(**sizes: int) -> Workload:
    return Workload(tuple(sizes.items()))


def test_sizes_that_the_command_names_are_measured_before_others() -> None:
    recorded = [sized(T=8, H=size) for size in (8192, 4096, 2048, 1024, 512, 256, 128, 64, 32)]
    assert sized(T=8, H=512) not in chosen_sizes([sized(T=8, H=16)], recorded)
    assert sized(T=8, H=512) in chosen_sizes([sized(T=8, H=16)], recorded, [(("H", 512),)])


def test_sizes_that_nothing_has_are_added_once() -> None:
    found, added = with_sizes([sized(T=8, H=16)], [(("H", 4096),), (("H", 4096),), (("T", 8),)], PROBLEM)
    assert added == (sized(T=8, H=4096),)
    assert found == (sized(T=8, H=16), sized(T=8, H=4096))


@pytest.mark.parametrize("size", [0, 2**40])
def test_a_size_that_no_gpu_measures_is_refused(size: int) -> None:
    with pytest.raises(UserFacingError) as caught:
        with_sizes([sized(T=8, H=16)], [(("H", size),)], PROBLEM)
    assert caught.value.failure.code is FailureCode.refused
