"""Artifacts go by policy, and nothing goes that a live job, an open pull request or a recording needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.workers.engine.fakes import request
from tests.workers.nightly.numbers import KEY, point
from tests.workers.store.worlds import World
from workers import artifacts, embedded, history, inbox, upkeep
from workers.artifacts import BlobError
from workers.contracts import Decision, JobState
from workers.nightly.planning import Retention
from workers.store import attempts, jobs, retention
from workers.store import history as store_history
from workers.store.models import Cleanup

DAY_S = 86_400.0
LONG_S = 91 * DAY_S


def finished(world: World, name: str = "comment/1", pull: int | None = None) -> tuple[str, str]:
    """Play a job to its end; give its id and the digest of its snapshot."""
    snapshot = artifacts.put(f"the snapshot of {name}".encode())
    job_id = inbox.submit(request(name, snapshot=snapshot)).job_id
    embedded.drive()
    world.publish()
    inbox.cancel(job_id, "mona")
    world.publish()
    with world.runtime.database.write() as session:
        job = jobs.locked(session, job_id)
        assert job is not None
        job.pull_number = pull
        attempts.keep_artifact(session, job, "notes.txt", artifacts.put(f"notes of {name}".encode()), "text/plain", 1)
        record = artifacts.put(f"record of {name}".encode())
        attempts.keep_artifact(session, job, "models/1.json", record, "application/json", 1)
    return job_id, snapshot


def later(world: World, seconds: float) -> None:
    """Let time pass for the clock, for the passes that a service makes meanwhile, and for what is stored."""
    world.clock.advance(seconds)
    with world.runtime.database.write() as session:
        session.merge(Cleanup(id=retention.CLEANUP_ID, counted_to=world.clock.now, moved_at=world.clock.now))
    for path in stored(world):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))


def stored(world: World) -> list[Path]:
    return [path for path in (world.runtime.settings.data_dir / "artifacts").rglob("*") if path.is_file()]


def there(digest: str) -> bool:
    try:
        artifacts.get(digest)
    except BlobError:
        return False
    return True


@pytest.fixture(autouse=True)
def _now(local: World) -> None:
    # The files of the store have the system's time.
    local.clock.now = time.time()


def test_what_a_job_that_ended_long_ago_named_is_removed_and_its_records_are_kept(local: World) -> None:
    job_id, snapshot = finished(local)
    before = len(stored(local))
    later(local, 89 * DAY_S)
    assert embedded.collect().artifacts == 0
    later(local, 2 * DAY_S)
    dry = embedded.collect(dry_run=True)
    assert len(stored(local)) == before
    made = embedded.collect()
    assert made.jobs == dry.jobs == (job_id,)
    assert made.artifacts == dry.artifacts == before - 1
    assert made.artifact_bytes == dry.artifact_bytes > 0
    assert not there(snapshot)
    (kept,) = stored(local)
    assert kept.read_bytes() == b"record of comment/1"
    assert [item.name for item in local.job(job_id).artifacts] == ["models/1.json"]
    assert embedded.collect().artifacts == 0


def test_a_clock_that_jumps_months_ahead_removes_nothing(local: World) -> None:
    finished(local)
    embedded.collect()
    before = sorted(stored(local))
    local.clock.advance(90 * DAY_S)
    for _ in range(5):  # a service that is restarted over and over
        with capture_logs() as events:
            assert embedded.collect().artifacts == 0
        local.clock.advance(60)
    assert [event["behind_s"] // DAY_S for event in events if event["event"] == "ages_behind"] == [88]
    local.clock.advance(-90 * DAY_S)
    assert embedded.collect().artifacts == 0
    later(local, 89 * DAY_S)
    assert embedded.collect().artifacts == 0
    assert sorted(stored(local)) == before
    local.clock.advance(2 * DAY_S)
    with capture_logs() as events:
        assert embedded.collect().artifacts > 0
    assert "ages_behind" not in [event["event"] for event in events]


def test_a_clock_that_jumps_ahead_removes_no_points_by_hand_either(local: World) -> None:
    first = local.clock()
    with local.runtime.database.write() as session:
        store_history.add(session, [(KEY, replace(point(night), measured_at=first + night)) for night in range(2)])
    embedded.collect()
    local.clock.advance(500 * DAY_S)
    removed, behind_s = history.forget(Retention(400, 450))
    assert removed == 0
    assert behind_s == 498 * DAY_S


def behind_s(world: World) -> float:
    with world.runtime.database.write() as session:
        retention.move_on(session, world.clock.now)
        return world.clock.now - retention.counted_to(session, world.clock.now)


@pytest.mark.parametrize("days", [0.3, 1, 1.9])
def test_passes_at_any_hour_keep_up_with_the_clock(world: World, days: float) -> None:
    for _ in range(20):
        assert behind_s(world) < retention.AGAIN_S
        world.clock.advance(days * DAY_S)


def test_what_is_behind_after_an_outage_catches_up(world: World) -> None:
    assert behind_s(world) == 0
    world.clock.advance(30 * DAY_S)
    behind = []
    for _ in range(40):
        behind.append(behind_s(world))
        world.clock.advance(DAY_S)
    assert behind[0] == 28 * DAY_S and behind[27] == DAY_S and set(behind[28:]) == {0}


def test_what_a_live_job_names_stays_however_old_it_is(local: World) -> None:
    snapshot = artifacts.put(b"a snapshot")
    job_id = inbox.submit(request(snapshot=snapshot)).job_id
    embedded.drive()
    local.publish()
    assert local.job(job_id).state is JobState.waiting
    before = sorted(stored(local))
    later(local, 10 * LONG_S)
    assert embedded.collect().artifacts == 0
    assert sorted(stored(local)) == before
    checkpoint = local.job(job_id).checkpoint
    assert checkpoint is not None and checkpoint.sha is not None
    inbox.decide(job_id, None, checkpoint.sha, Decision.approve, "", (), "mona", "review/1")
    embedded.drive()
    assert local.job(job_id).failure is None


def test_what_an_open_pull_request_needs_stays_until_it_was_closed_long_ago(local: World) -> None:
    _, snapshot = finished(local, pull=7)
    later(local, 5 * LONG_S)
    assert embedded.collect().jobs == ()
    inbox.pull_closed("acme/kernels", 7, closed=True)
    inbox.pull_closed("acme/other", 7, closed=False)
    later(local, LONG_S - 2 * DAY_S)
    assert embedded.collect().jobs == ()
    inbox.pull_closed("acme/kernels", 7, closed=False)
    later(local, LONG_S)
    assert embedded.collect().jobs == ()
    assert there(snapshot)
    inbox.pull_closed("acme/kernels", 7, closed=True)
    later(local, LONG_S)
    assert len(embedded.collect().jobs) == 1
    assert not there(snapshot)


def test_what_two_jobs_share_stays_while_one_of_them_needs_it(local: World) -> None:
    _, snapshot = finished(local)
    later(local, LONG_S)
    again = inbox.submit(request("comment/2", snapshot=snapshot)).job_id
    embedded.collect()
    assert there(snapshot)
    embedded.drive()
    assert local.job(again).state is JobState.waiting


def test_bytes_that_are_kept_again_while_a_pass_is_on_are_not_removed(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, snapshot = finished(local)
    later(local, LONG_S)
    really = local.runtime.blobs.entries

    def entries() -> object:
        found = list(really())
        # A command on the same commit comes after the pass has looked which artifacts are named.
        assert artifacts.put(b"the snapshot of comment/1") == snapshot
        return found

    monkeypatch.setattr(local.runtime.blobs, "entries", entries)
    embedded.collect()
    assert there(snapshot)


def test_bytes_of_which_no_row_was_written_yet_stay_and_halves_that_a_kill_left_go(local: World) -> None:
    finished(local)
    young = artifacts.put(b"its command is being handled")
    part = local.runtime.settings.data_dir / "artifacts" / "ab" / ("a" * 64 + ".0123.part")
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(b"half")
    embedded.collect()
    assert there(young) and part.exists()
    later(local, 2 * DAY_S)
    embedded.collect()
    assert not there(young) and not part.exists()


def test_a_database_that_knows_no_job_removes_nothing(local: World) -> None:
    digest = artifacts.put(b"somebody's")
    later(local, LONG_S)
    assert embedded.collect().artifacts == 0
    assert there(digest)


def test_a_job_whose_files_were_removed_goes_on_only_on_a_fresh_snapshot(local: World) -> None:
    job_id, _ = finished(local)
    later(local, LONG_S)
    embedded.collect()
    assert local.job(job_id).artifacts_removed
    assert inbox.retry(job_id, "mona") is False
    assert inbox.retry(job_id, "mona", artifacts.put(b"fresh"), "c" * 40) is True
    assert not local.job(job_id).artifacts_removed
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting


def test_a_retry_on_a_pull_request_that_is_closed_does_not_keep_its_files_for_ever(local: World) -> None:
    job_id, snapshot = finished(local, pull=7)
    inbox.pull_closed("acme/kernels", 7, closed=True)
    assert inbox.retry(job_id, "mona")
    assert inbox.cancel(job_id, "mona")
    local.publish()
    later(local, LONG_S)
    assert embedded.collect().jobs == (job_id,)
    assert not there(snapshot)


def test_a_retry_that_is_faster_than_the_pass_keeps_the_files(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id, snapshot = finished(local)
    later(local, LONG_S)
    from workers.store import retention

    really: Callable[..., tuple[str, ...]] = retention.expired

    def expired(*arguments: object) -> tuple[str, ...]:
        found = really(*arguments)
        assert inbox.retry(job_id, "mona")
        return found

    monkeypatch.setattr(retention, "expired", expired)
    assert embedded.collect().jobs == ()
    assert there(snapshot)


def test_other_file_systems_are_collected_by_url(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local.runtime.blobs.__init__("memory://kernelsmith-gc")  # type: ignore[misc]
    finished(local)
    assert embedded.collect().artifacts == 0
    later(local, LONG_S)
    monkeypatch.setattr(upkeep, "YOUNG_S", 0.0)
    assert embedded.collect().artifacts > 0
