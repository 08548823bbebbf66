"""Serves a GPU queue: leases a request, runs it, and gives the answer; also in a thread, for a process that has no other host."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace

import structlog
from sqlalchemy.exc import SQLAlchemyError

from gpu_runner.contracts import GpuResult
from workers.contracts import NOTIFIED_LOSSES
from workers.engine.lease import heartbeat
from workers.gpu_host.execute import AbandonedError, RunnerKilledError, execute
from workers.gpu_host.runner import INTERPRETER, ROOM_BYTES, Host, detect, has_room
from workers.gpu_host.standby import Standby
from workers.redaction import redact, redacted_json
from workers.runtime import Runtime
from workers.store import gpu_work
from workers.store.gpu_work import GpuLease
from workers.store.trouble import FULL, StoreTrouble, trouble_of

LOSSES_FIX = "find what killed them (dmesg: memory, Xid); if it was this work, `/kernel cancel` ends its job"
UNUSABLE_FIX = (
    f"free space on the disk of the temporary directory, {ROOM_BYTES >> 30} GiB at least, or set TMPDIR to a larger one; "
    "waiting work resumes by itself"
)
KILLED = "its process was killed {} times, as the kernel does where memory is short (dmesg says so); the last time {}"
MARGIN_S = 60.0  # between the deadline of a runner and the time limit of the task around it

log = structlog.get_logger(__name__)


def serve(
    runtime: Runtime, request_id: str, standby: Standby | None = None, unwanted: threading.Event | None = None
) -> bool:
    """Answer a request; False where another host has it, it is answered already, or the lease was lost or released.

    A runner on ``standby`` is used for it. The next one is started at the same time where there are cores to spare, else after the
    answer: its imports would disturb what is measured. Without a GPU nothing is measured, and its memory is not worth the seconds.
    Once ``unwanted`` is set the runner is ended, and the request is released for another time.
    """
    if _gave_up(runtime, request_id):
        return True
    if not has_room(ROOM_BYTES):
        _decline(runtime, request_id, FULL)
        return False
    token = uuid.uuid4().hex
    try:
        return _serve(runtime, request_id, token, standby, unwanted or threading.Event())
    except (KeyboardInterrupt, SystemExit):
        _leave(runtime, request_id, token)
        raise


def _serve(runtime: Runtime, request_id: str, token: str, standby: Standby | None, unwanted: threading.Event) -> bool:
    lease = _claim(runtime, request_id, token)
    if lease is None:
        return False
    runtime.at_boundary("gpu_claimed")
    request = lease.request
    with structlog.contextvars.bound_contextvars(gpu_request=request_id, action=request.action.value):
        try:
            if lease.losses >= NOTIFIED_LOSSES:
                log.error("gpu_hosts_lost", times=lease.losses, fix=LOSSES_FIX)
            result = _run(runtime, lease, standby, unwanted)
        except RunnerKilledError as killed:
            kills = lease.runner_kills + 1
            if kills < gpu_work.MAX_RUNNER_KILLS:
                log.warning("runner_killed", error=str(killed), times=kills)
                _offer_again(runtime, lease)
                return False
            result = replace(killed.result, error=KILLED.format(kills, killed))
        except OSError as error:
            trouble = trouble_of(error)
            if trouble is None:
                raise
            _leave(runtime, request_id, token)
            _decline(runtime, request_id, trouble)
            return False
        if result is None:
            if not unwanted.is_set():
                log.warning("gpu_request_abandoned", reason="the lease was lost or the job was cancelled")
            return False
        runtime.at_boundary("gpu_ran")
        job_id = _answer(runtime, lease, result)
        if result.error:
            log.error("gpu_request_failed", error=result.error)
    runtime.at_boundary("gpu_answered")
    if job_id is not None:
        runtime.notifier.advance(job_id)
    host = host_of(runtime)
    if standby is not None and not host.interpret:
        standby.prepare(host)
    return job_id is not None


def host_of(runtime: Runtime) -> Host:
    """How this host runs the runner."""
    architecture = runtime.settings.architecture or detect()
    longest_s = runtime.settings.gpu_time_limit_s - MARGIN_S
    return Host(host_name(), runtime.runner_command, interpret=architecture == INTERPRETER, longest_s=longest_s)


def host_name() -> str:
    """The name of this process on its leases."""
    return f"{socket.gethostname()}/{os.getpid()}"


def _gave_up(runtime: Runtime, request_id: str) -> bool:
    with runtime.database.write() as session:
        job_id = gpu_work.give_up(session, request_id, runtime.clock())
    if job_id is None:
        return False
    log.error("gpu_request_given_up", gpu_request=request_id, job=job_id, reason="its hosts were lost too often")
    runtime.notifier.advance(job_id)
    return True


def _claim(runtime: Runtime, request_id: str, token: str) -> GpuLease | None:
    name = host_name()
    with runtime.database.write() as session:
        return gpu_work.claim(session, request_id, token, name, runtime.clock(), runtime.settings.lease_s)


def _run(runtime: Runtime, lease: GpuLease, standby: Standby | None, unwanted: threading.Event) -> GpuResult | None:
    def renew() -> bool:
        with runtime.database.write() as session:
            now = runtime.clock()
            return gpu_work.renew(session, lease.request.request_id, lease.token, now, runtime.settings.lease_s)

    # How a child is kept in is for the host to say on which it runs, not for whoever asked.
    request = replace(lease.request, require=runtime.settings.require_isolation)
    before = runtime.before.answer(request)
    if before is not None:
        return before
    with heartbeat(renew, runtime.settings.lease_s, f"gpu/{lease.request.request_id}") as lost:
        try:
            return execute(
                host_of(runtime),
                request,
                lease.files,
                runtime.blobs,
                lambda: lost.is_set() or unwanted.is_set(),
                standby,
            )
        except AbandonedError:
            if unwanted.is_set():
                _leave(runtime, lease.request.request_id, lease.token)
            return None


def _leave(runtime: Runtime, request_id: str, token: str) -> None:
    """Release a lease, where there is one, since the process is being ended; nobody needs to wait for it to expire."""
    # Without a database it runs out by itself, and the process ends all the same.
    with contextlib.suppress(SQLAlchemyError), runtime.database.write() as session:
        gpu_work.leave(session, request_id, token)


def _decline(runtime: Runtime, request_id: str, trouble: StoreTrouble) -> None:
    """Leave a request to another host, or for later, since this host cannot carry anything out at present."""
    log.error("gpu_host_unusable", gpu_request=request_id, error=trouble.detail, fix=UNUSABLE_FIX)
    with runtime.database.write() as session:
        gpu_work.decline(session, request_id, host_name(), trouble.detail, runtime.clock())


def _offer_again(runtime: Runtime, lease: GpuLease) -> None:
    request_id = lease.request.request_id
    with runtime.database.write() as session:
        architecture = gpu_work.offer_again(session, request_id, lease.token, runtime.clock())
    if architecture is not None:
        runtime.notifier.gpu(request_id, architecture)


def _answer(runtime: Runtime, lease: GpuLease, result: GpuResult) -> str | None:
    error = None if result.error is None else redact(result.error)
    clean = replace(result, payload=redacted_json(result.payload), error=error)
    with runtime.database.write() as session:
        return gpu_work.answer(session, lease.request.request_id, lease.token, clean, runtime.clock())


POLL_S = 0.1


class EmbeddedHost:
    """At most one request at a time. Its thread stays: a runner that waits ends with the thread that started it."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby
        self._pool = ThreadPoolExecutor(1, "gpu host")

    @contextmanager
    def working(self, runtime: Runtime, job_id: str) -> Iterator[None]:
        """Answer a job's requests during the block. At its end the one at work is answered first, so that no two run at once.

        Where the block ends with an exception, as by Ctrl-C, that one is released at once, to be served another time.
        """
        end, unwanted = threading.Event(), threading.Event()
        work = self._pool.submit(self._work, runtime, job_id, end, unwanted)
        try:
            yield
            end.set()
            work.result()
        except BaseException:
            unwanted.set()
            end.set()
            wait((work,))
            raise

    def _work(self, runtime: Runtime, job_id: str, end: threading.Event, unwanted: threading.Event) -> None:
        while not end.is_set():
            with runtime.database.read() as session:
                request_id = gpu_work.next_gpu_request(session, runtime.clock(), only=job_id)
            if request_id is None or not serve(runtime, request_id, self._standby, unwanted):
                end.wait(POLL_S)
