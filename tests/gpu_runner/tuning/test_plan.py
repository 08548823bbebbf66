"""One search for each size by which settings are looked up, and none where nothing is to be gained."""

from __future__ import annotations

import pytest

from gpu_runner.benchmark.roofline import TimeFloor
from gpu_runner.contracts import Pass, Workload
from gpu_runner.messages import CallForm, DrawnCall, PreparedTuning
from gpu_runner.tuning.plan import TuningJob, is_near, share, steps
from gpu_runner.verify.proof import ChildCall

FACTS = PreparedTuning({"forward": (96,), "backward": (96, 12)}, {"forward": {"num_warps": 4}})


def job(rows: int, backward: bool = True) -> TuningJob:
    return TuningJob(
        Workload((("T", rows),)), ChildCall(DrawnCall(CallForm("reference"), {}, 1, ())), backward, rows, {}
    )


def test_workloads_of_one_size_share_the_search_of_the_largest() -> None:
    wide = PreparedTuning({"forward": (1024,)}, {})
    found, notes = steps([(job(4), FACTS), (job(64), FACTS), (job(8, backward=False), wide)], set(Pass))
    told = [(step.label, step.key[1], step.is_search) for step in found]
    assert told == [
        ("forward at T=64", 96, True),
        ("backward at T=64", 96, True),
        ("forward at T=8", 1024, True),
        ("forward at T=4", 96, False),
        ("backward at T=4", 96, False),
    ]
    assert found[0].defaults == (("num_warps", 4),)
    assert notes == []
    assert share(found, 32.0) == pytest.approx(10.0)
    assert share(found[3:], 3.0) == pytest.approx(1.5)
    assert share(found, -1.0) == 0.0


def test_only_wanted_passes_are_planned_and_one_without_sizes_is_told() -> None:
    found, notes = steps([(job(4), PreparedTuning({"backward": (-1,)}, {}))], {Pass.forward})
    assert found == []
    assert notes == ["The candidate read no settings in its forward pass at T=4."]
    assert steps([(job(4), PreparedTuning({}, {}))], set()) == ([], [])


@pytest.mark.parametrize(
    ("time_us", "near"), [(100.0, True), (102.9, True), (103.1, False), (80.0, True), (71.9, False)]
)
def test_a_time_at_its_floor_needs_no_search_and_one_far_below_is_not_trusted(time_us: float, near: bool) -> None:
    assert is_near(time_us, TimeFloor(100.0, "memory", 80.0)) is near
    assert not is_near(time_us, None)
    assert not is_near(time_us, TimeFloor(None, None, None))
