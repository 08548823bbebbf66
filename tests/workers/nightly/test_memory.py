"""What is kept of a night: one number for each series and revision, on both kinds of database."""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from typing import Any

import pytest
from sqlalchemy.orm import Session

from gpu_runner.contracts import BenchmarkResult, Conditions, Pass, Timing, Workload, WorkloadTiming, to_json
from tests.service.report.facts import REQUEST
from tests.service.report.kernels_facts import PROFILE_SUMMARY
from tests.workers.nightly.numbers import DAY_S, H200, KEY, REPOSITORY, point
from tests.workers.store.worlds import World
from workers.contracts import MeasuredKernel, MeasureSummary, StageName
from workers.history import import_jobs
from workers.nightly.detection import Candidate, NightEvidence, SeriesState
from workers.nightly.planning import Retention, forgotten
from workers.nightly.series import Metric, PointSource, Testbed, points_of
from workers.store import history
from workers.store.models import Job, SeriesChange, StageAttempt

HOST = (("gpu_uuid", "GPU-1"), ("driver", "580.159.04"), ("torch", "2.11.0"), ("triton", "3.6.0"))


def result(*timings: Timing, **more: object) -> BenchmarkResult:
    row = WorkloadTiming(
        Workload((("T", 4096),), "bfloat16"), Pass.forward, timings, 1, 1, floor_us=50.0, conditions=Conditions(1800)
    )
    return BenchmarkResult((row,), False, "NVIDIA H200", 4000.0, HOST, **more)  # type: ignore[arg-type]


def test_a_benchmark_gives_time_and_memory_with_what_they_are_worth() -> None:
    measured = result(Timing("candidate", 100.0, 99.0, 102.0, 12, 4096), Timing("eager", 300.0))
    (time_key, time), (peak_key, peak) = points_of(measured, REPOSITORY, "geglu", "c1", 7.0)
    assert (time_key.metric, time_key.workload, time_key.testbed) == (Metric.time_us, "T=4096 bfloat16", H200)
    assert (time.value, time.low, time.high, time.samples, time.floor_share, time.sm_clock_mhz) == (
        100.0,
        99.0,
        102.0,
        12,
        0.5,
        1800,
    )
    assert (peak_key, peak.value, peak.revision, peak.measured_at) == (
        replace(time_key, metric=Metric.peak_bytes),
        4096.0,
        "c1",
        7.0,
    )


@pytest.mark.parametrize(
    "measured",
    [
        replace(result(Timing("candidate", 100.0)), predicted=True),
        result(Timing("candidate", None, error="out of memory")),
        result(Timing("eager", 100.0)),
        replace(
            result(Timing("candidate", 1.0)), rows=(replace(result(Timing("candidate", 1.0)).rows[0], fault="floor"),)
        ),
    ],
    ids=["predicted", "failed", "another contender", "under the floor"],
)
def test_what_was_not_measured_is_no_point(measured: BenchmarkResult) -> None:
    assert list(points_of(measured, REPOSITORY, "geglu", "c1", 7.0)) == []


def test_the_same_point_twice_is_one_and_the_first_number_stays(world: World) -> None:
    with world.runtime.database.write() as session:
        assert history.add(session, [(KEY, point(1)), (KEY, point(2))]) == 2
    with world.runtime.database.write() as session:
        assert history.add(session, [(KEY, point(2, 55.0)), (KEY, point(3))]) == 1
    with world.runtime.database.read() as session:
        ((key, points),) = history.read(session, REPOSITORY)
    assert key == KEY
    assert points == (point(1), point(2), point(3))


def test_every_field_comes_back_as_it_was_kept(world: World) -> None:
    full = point(1, 3.5, low=3.0, high=4.0, samples=9, floor_share=0.9, sm_clock_mhz=1980, source=PointSource.job)
    assert all(getattr(full, field.name) is not None for field in fields(full))
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, full)])
    with world.runtime.database.read() as session:
        assert list(history.read(session, REPOSITORY, "geglu", H200)) == [(KEY, (full,))]


def test_two_processes_that_keep_the_same_points_at_once_keep_each_once(world: World) -> None:
    numbers = [(replace(KEY, workload=f"T={size}"), point(night)) for size in range(8) for night in range(40)]
    new: list[int] = []

    def keep() -> None:
        with world.runtime.database.write() as session:
            new.append(history.add(session, numbers))

    threads = [threading.Thread(target=keep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(new), len(new)) == (len(numbers), 4)


@pytest.mark.parametrize("field", [field.name for field in fields(Testbed)])
def test_another_testbed_is_another_series(world: World, field: str) -> None:
    other = replace(H200, **{field: "another"})
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, point(1)), (KEY.on(other), point(1, 200.0))])
    with world.runtime.database.read() as session:
        assert [points for _, points in history.read(session, REPOSITORY)] == [(point(1),), (point(1, 200.0),)]
        assert list(history.read(session, REPOSITORY, testbed=other)) == [(KEY.on(other), (point(1, 200.0),))]
        assert history.last_measured(session, REPOSITORY, other) == {"geglu": (point(1).revision, point(1).measured_at)}
        assert history.kernels_at(session, REPOSITORY, other, point(1).revision) == {"geglu"}
        assert history.kernels_at(session, REPOSITORY, other, point(2).revision) == set()
    assert other.changes(H200) == (f"{field} {getattr(H200, field)} -> another",)


def test_the_last_commit_and_its_snapshot_are_known(world: World) -> None:
    with world.runtime.database.write() as session:
        assert history.last_commit(session, REPOSITORY) is None
        for number, revision in enumerate(("old", "new", "old")):
            history.add_commit(session, REPOSITORY, revision, f"snapshot-{number}", float(number))
    with world.runtime.database.read() as session:
        assert history.last_commit(session, REPOSITORY) == ("new", "snapshot-1")
        assert history.last_commit(session, REPOSITORY, "new") == ("old", "snapshot-0")
        assert history.snapshot_of(session, REPOSITORY, "old") == "snapshot-0"
        assert history.snapshot_of(session, "acme/other", "old") is None


def test_old_points_become_one_a_week_and_what_a_change_names_stays(world: World) -> None:
    nights = 800
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, point(night)) for night in range(nights)])
        series_id = session.query(history.MeasuredSeries.id).scalar()
        change = SeriesChange(series_id=series_id, state="recovered", good_revision=point(2).revision,
                              bad_revision=point(3).revision, recovered_revision=point(5).revision,
                              ratio=1.1, opened_at=0.0, changed_at=0.0)  # fmt: skip
        session.add(change)
    with world.runtime.database.write() as session:
        removed = history.forget(session, Retention(400, 600), now=point(nights).measured_at)
        ((_, left),) = history.read(session, REPOSITORY)
        assert history.standing(session, REPOSITORY, H200.gpu) == ()
    ages = [(point(nights).measured_at - item.measured_at) / DAY_S for item in left]
    assert removed == nights - len(left)
    assert [age for age in ages if age > 600] == [nights - 2, nights - 3, nights - 5]
    assert 28 <= sum(400 < age <= 600 for age in ages) <= 30
    assert sum(age <= 400 for age in ages) == 400


def test_every_release_that_was_imported_stays(world: World) -> None:
    releases = [replace(point(0), revision=f"v0.8.{minor}", source=PointSource.library) for minor in range(5)]
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, release) for release in releases])
    with world.runtime.database.write() as session:
        assert history.forget(session, Retention(), now=point(800).measured_at) == 0


def test_no_point_is_forgotten_in_the_days_for_which_every_point_is_kept() -> None:
    points = [(night, night * 86_400.0) for night in range(1000)]
    assert forgotten(points, Retention(all_days=500, weekly_days=100), 1000 * 86_400.0) == list(range(500))


def test_the_newest_point_of_a_series_is_never_forgotten() -> None:
    assert forgotten([(1, 0.0), (2, 5.0)], Retention(1, 1), 1e10) == [1]
    assert forgotten([], Retention(1, 1), 1e10) == []


def test_a_night_takes_the_place_of_a_jobs_number_and_nothing_takes_the_place_of_a_nights(world: World) -> None:
    database = world.runtime.database
    night, job = point(1, 100.0), replace(point(1, 130.0), measured_at=5.0, source=PointSource.job)
    with database.write() as session:
        assert history.add(session, [(KEY, job)]) == 1
        assert history.add(session, [(KEY, replace(job, value=140.0))]) == 0
        assert history.add(session, [(KEY, night)]) == 1
        assert history.add(session, [(KEY, job)]) == 0
        assert history.add(session, [(KEY, replace(night, value=99.0))]) == 0
    with database.read() as session:
        assert list(history.read(session, REPOSITORY)) == [(KEY, (night,))]


def job_row(session: Session, number: int, summary: object, stage: StageName, **fields: Any) -> None:
    """Keep a job that ended, with the output of one stage."""
    request = replace(REQUEST, key=f"comment/{number}", **fields)
    job = Job(
        job_id=f"job{number}",
        key=request.key,
        repository=request.origin.repository,
        number=7,
        kernel=request.kernel,
        request=to_json(request),
        state="done",
        created_at=1.0,
        updated_at=2.0,
        branch="kernelsmith/job",
    )
    attempt = StageAttempt(
        job_id=job.job_id, generation=1, stage=stage, attempt=1, state="done", output={"summary": to_json(summary)}
    )
    attempt.ended_at = float(number)
    session.add_all([job, attempt])


def test_what_earlier_jobs_measured_at_the_commit_they_started_from_is_brought_in_once(world: World) -> None:
    pair = result(Timing("candidate", 80.0, peak_bytes=64), Timing("original", 100.0, peak_bytes=32))
    repository = replace(REQUEST.origin, repository=REPOSITORY)
    alone = result(Timing("candidate", 95.0))
    profiled = replace(
        PROFILE_SUMMARY, benchmark=alone, reading=replace(PROFILE_SUMMARY.reading, path="src/ops/geglu.py")
    )
    with world.runtime.database.write() as session:
        benched = MeasureSummary((MeasuredKernel("geglu", "geglu.py", (), pair),), "base", "head", "main")
        job_row(session, 1, benched, StageName.measure, origin=repository)
        job_row(session, 2, profiled, StageName.profile, origin=repository, base_sha="start")
        on_pull = replace(repository, is_pull=True)
        job_row(session, 3, profiled, StageName.profile, origin=on_pull, base_sha="of a pull request")
        job_row(session, 4, {"$": "MeasureSummary"}, StageName.measure, origin=repository)
        job_row(session, 5, benched, StageName.measure)  # of another repository
    for new, known in ((3, 0), (0, 3)):
        done = import_jobs(REPOSITORY)
        assert (done.new, done.known, done.dropped) == (new, known, 1)
    assert "comment/4" in done.problems[0]
    with world.runtime.database.read() as session:
        series = {key.metric: points for key, points in history.read(session, REPOSITORY)}
    assert [(one.revision, one.value, one.measured_at, one.source) for one in series[Metric.time_us]] == [
        ("base", 100.0, 1.0, PointSource.job),
        ("start", 95.0, 2.0, PointSource.job),
    ]
    assert [(one.revision, one.value) for one in series[Metric.peak_bytes]] == [("base", 32.0)]


def test_a_repositorys_numbers_go_on_under_its_new_name_and_two_of_one_series_become_one(world: World) -> None:
    renamed = replace(KEY, repository="acme/renamed")
    alone = replace(KEY, kernel="rms_norm")
    with world.runtime.database.write() as session:
        history.add(session, [(KEY, point(1)), (KEY, point(2)), (alone, point(1))])
        history.add(session, [(renamed, point(2, 55.0)), (renamed, point(3))])
        for repository, revision in ((REPOSITORY, "a"), (REPOSITORY, "b"), (renamed.repository, "b")):
            history.add_commit(session, repository, revision, f"of {repository}", 1.0)
        for key, good, bad in ((KEY, 1, 2), (renamed, 2, 3), (renamed, 1, 2)):
            found = Candidate(point(good).revision, point(bad).revision, 1.1, NightEvidence.band)
            history.keep_change(session, key, found, SeriesState.confirmed, (1.1, None, None), 1.0)
    for left in (2, 0):
        with world.runtime.database.write() as session:
            assert history.rename(session, REPOSITORY, renamed.repository) == left
    with world.runtime.database.read() as session:
        assert history.repositories(session) == (renamed.repository,)
        kept = dict(history.read(session, renamed.repository))
        assert kept[renamed] == (point(1), point(2, 55.0), point(3)), "each commit has one number, the new name's own"
        assert kept[replace(alone, repository=renamed.repository)] == (point(1),)
        assert len(history.changes_of(session, renamed)) == 2
        assert history.snapshot_of(session, renamed.repository, "a") == f"of {REPOSITORY}"
        assert history.snapshot_of(session, renamed.repository, "b") == f"of {renamed.repository}"
        assert history.last_commit(session, REPOSITORY) is None
