from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.faults.processes import until
from tests.workers.engine.fakes import request
from tests.workers.store.servers import Postgres, redis_over_tcp
from workers import embedded, inbox, outbox, processes
from workers.broker import socket_path
from workers.contracts import CheckpointUpdate, ClaimedUpdate, CommitUpdate, Decision, Effect, JobState, StatusUpdate
from workers.processes import DataFolderInUseError, ManagedProcess, Supervisor, _sole_owner, commands
from workers.settings import Settings

APP = "tests.workers.engine.worker_app"
PUBLISHED = [CommitUpdate, CommitUpdate, CheckpointUpdate]


@contextmanager
def serving(folder: Path, **urls: str) -> Iterator[Supervisor]:
    settings = Settings(
        data_dir=folder,
        lease_s=2,
        renotify_after_s=1,
        reconcile_every_s=1,
        stage_processes=1,
        architecture="interpreter",
        log_level="WARNING",
    ).model_copy(update={"database_url": None, "redis_url": None} | {k: SecretStr(v) for k, v in urls.items()})
    with embedded.serve_workers(settings, app=APP) as supervisor:
        yield supervisor
    embedded.close()


def publish_until(state: JobState, job_id: str, within_s: float = 60) -> list[ClaimedUpdate]:
    published: list[ClaimedUpdate] = []
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        job = inbox.get_job(job_id)
        claimed = outbox.claim("publisher", 30)
        if claimed is not None:
            sha = f"{claimed.sequence:07d}{'0' * 33}" if isinstance(claimed.update, CommitUpdate) else None
            assert outbox.complete(claimed.update_id, "publisher", Effect(sha=sha))
            published.append(claimed)
        elif job is not None and job.state is state:
            return published
        time.sleep(0.05)
    raise AssertionError(f"the job is {inbox.get_job(job_id)}")


def approve(job_id: str) -> None:
    job = inbox.get_job(job_id)
    assert job is not None
    assert job.checkpoint is not None
    inbox.decide(job_id, None, job.checkpoint.sha or "", Decision.approve, "", (), "mona", f"{job.checkpoint.stage}")


def kinds(updates: list[ClaimedUpdate]) -> list[type]:
    return [type(u.update) for u in updates if not isinstance(u.update, StatusUpdate)]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.slow
def test_job_runs_on_postgresql_and_a_redis_reached_by_url(tmp_path: Path, postgres_server: Postgres) -> None:
    urls = {"database_url": postgres_server.empty_database()}
    with redis_over_tcp(tmp_path) as redis_url, serving(tmp_path, redis_url=redis_url, **urls):
        assert inbox.rehearse_delivery() == "postgresql"
        assert inbox.broker_ready()[0]
        job_id = inbox.submit(request()).job_id
        assert kinds(publish_until(JobState.waiting, job_id)) == PUBLISHED
        approve(job_id)
        assert kinds(publish_until(JobState.waiting, job_id)) == PUBLISHED


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("victim", ("redis", "stages", "gpu"))
@pytest.mark.long  # in `make test` workers are killed in tests/faults
def test_a_job_goes_on_when_redis_or_a_worker_is_killed(tmp_path: Path, victim: str) -> None:
    with serving(tmp_path) as supervisor:
        job_id = inbox.submit(request()).job_id
        os.kill(_redis_pid(tmp_path) if victim == "redis" else supervisor.pids[victim], signal.SIGKILL)
        assert kinds(publish_until(JobState.waiting, job_id)) == PUBLISHED


def test_data_folder_is_served_by_one_process(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with (
        _sole_owner(settings),
        pytest.raises(DataFolderInUseError, match="KERNELSMITH_DATA_DIR"),
        _sole_owner(settings),
    ):
        raise AssertionError("a second owner")


def test_data_folder_with_a_long_path_has_its_socket_elsewhere(tmp_path: Path) -> None:
    assert socket_path(tmp_path / "short") == tmp_path / "short" / "redis.sock" or len(str(tmp_path)) > 80
    far = socket_path(tmp_path / ("long" * 40))
    assert len(os.fsencode(far)) < 100
    assert far != socket_path(tmp_path / ("lang" * 40))


def test_gpu_host_serves_its_own_architecture_and_any(tmp_path: Path) -> None:
    arguments = {c.name: c.arguments for c in commands(Settings(data_dir=tmp_path, architecture="sm_90"))}
    assert "gpu.sm_90,gpu.any" in arguments["gpu"]
    assert "stages,maintenance" in arguments["stages"]


def test_redis_that_does_not_answer_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    embedded.configure(tmp_path, redis_url=f"redis+socket://{tmp_path / 'nobody.sock'}")
    try:
        assert not inbox.broker_ready()[0]
        started = time.monotonic()
        submission = inbox.submit(request())
        assert time.monotonic() - started < 2
        assert inbox.get_job(submission.job_id) is not None
    finally:
        embedded.close()


def _redis_pid(folder: Path) -> int:
    from redis import Redis

    with Redis(unix_socket_path=str(socket_path(folder))) as client:
        return int(client.info("server")["process_id"])


def test_a_process_that_ends_is_named_until_it_runs_steadily_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STEADY_S", 1.0)
    there = tmp_path / "there"
    script = f"import os, time; os.path.exists({str(there)!r}) or os._exit(7); time.sleep(60)"
    supervisor = Supervisor((ManagedProcess("stages", (sys.executable, "-c", script)),))
    assert supervisor.check() == (True, "all run")
    supervisor.start()
    try:
        until(lambda: not supervisor.check()[0], "the process to end")
        assert supervisor.check() == (False, "stages ended (exit code 7)")
        there.touch()
        until(lambda: supervisor.check()[0], "it to run")
    finally:
        supervisor.stop()
