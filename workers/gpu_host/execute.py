"""Runs one GPU request in a child process with a clean environment and a deadline, and reads what it wrote."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpu_runner.contracts import PRINTED, GpuRequest, GpuResult, from_json, to_json
from workers.errors import WorkersError
from workers.gpu_host.runner import LEAST_BYTES, LOCK, LOG, Host, has_room, launched, scratch_folder
from workers.gpu_host.standby import Standby, WaitingRunner, has_cores_to_spare
from workers.redaction import redact
from workers.store.blobs import BlobError, BlobStore

MAX_RESULT_BYTES = 64 << 20
MAX_LOG_BYTES = 2000
GRACE_S = 60.0
ENDED = "ended with exit code {} and wrote no result"
# Who ends all processes of a host at once, as some service managers do, says nothing about the request; this process is told to
# end as well, in a moment.
TERMINATED = ENDED.format(-signal.SIGTERM)
TOLD_TOO_S = 1.0
FULL = "was ended before the disk of the temporary directory was full"
KILLED = (ENDED.format(-signal.SIGKILL), TERMINATED, FULL)
POLL_S = 0.02
RESERVED = frozenset({"", ".", "..", "request.json", "result", LOG, LOCK})


class AbandonedError(WorkersError):
    """The lease was lost while the request ran, or nobody waits for it any more; its result must not be kept."""


class RunnerKilledError(Exception):
    """The runner was killed from outside, such as by the kernel for lack of memory; ``result`` says so."""

    def __init__(self, result: GpuResult) -> None:
        super().__init__(result.error)
        self.result = result


def execute(
    host: Host,
    request: GpuRequest,
    files: dict[str, str],
    blobs: BlobStore,
    given_up: Callable[[], bool],
    standby: Standby | None = None,
) -> GpuResult:
    """The result of a request; a failure around the runner is a result with an ``error``.

    Raises:
        AbandonedError: it was ``given_up`` while it ran.
        RunnerKilledError: the runner was killed before it wrote a result; another try may do better.
        OSError: this host cannot carry anything out, such as with a full disk; ``trouble_of`` says why.
    """
    started = time.monotonic()
    waiting = standby.take(host) if standby is not None else None
    if standby is not None and not host.interpret and has_cores_to_spare():
        standby.prepare(host)
    with _room(waiting) as scratch:
        try:
            _lay_out(scratch, request, files, blobs)
            ended = _run(host, scratch, waiting, min(request.limits.time_s + GRACE_S, host.longest_s), given_up)
            result = _read(scratch / "result" / "result.json", request)
        except (BlobError, OSError, ValueError) as error:
            from workers.store.trouble import trouble_of

            if trouble_of(error) is not None:
                raise
            return _failed(request, f"{type(error).__name__}: {error}{_log_tail(scratch)}", started)
        if result is not None:
            return result
        failed = _failed(request, f"the runner {ended}{_log_tail(scratch)}", started)
        if ended in KILLED:
            if ended == TERMINATED:
                time.sleep(TOLD_TOO_S)
            raise RunnerKilledError(failed)
        return failed


def _lay_out(scratch: Path, request: GpuRequest, files: dict[str, str], blobs: BlobStore) -> None:
    for name, digest in files.items():
        if name != Path(name).name or name in RESERVED:
            raise ValueError(f"{name!r} is no name for a file beside a request")
        (scratch / name).write_bytes(blobs.get(digest))
    (scratch / "result").mkdir()
    (scratch / "request.json").write_text(json.dumps(to_json(request)), encoding="utf-8")


@contextlib.contextmanager
def _room(waiting: WaitingRunner | None) -> Iterator[Path]:
    """The folder of the request: that of the runner that waits, or a fresh one."""
    if waiting is not None:
        with waiting.folder, waiting.runner:
            yield waiting.scratch
    else:
        with scratch_folder() as scratch:
            yield scratch


def _run(host: Host, scratch: Path, waiting: WaitingRunner | None, time_s: float, given_up: Callable[[], bool]) -> str:
    """Run the runner to its end, or kill it with all of its processes; give how it ended."""
    request, result = scratch / "request.json", scratch / "result"
    if waiting is not None:
        with waiting.runner:
            waiting.tell(request, result)
            return _watch(waiting.child, time_s, given_up)
    with launched(host, scratch, ["--request", str(request), "--result", str(result)]) as child:
        return _watch(child, time_s, given_up)


def _watch(child: subprocess.Popen[bytes], time_s: float, given_up: Callable[[], bool]) -> str:
    deadline = time.monotonic() + time_s
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return ENDED.format(child.wait(POLL_S))
        if given_up():
            raise AbandonedError
        if not has_room(LEAST_BYTES):
            return FULL
        if time.monotonic() > deadline:
            return f"was killed after {time_s:.0f} s and wrote no result"


def _read(path: Path, request: GpuRequest) -> GpuResult | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as handle:
        facts = os.fstat(handle.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_RESULT_BYTES:
            raise ValueError(f"the result is no file of at most {MAX_RESULT_BYTES >> 20} MiB")
        content = handle.read(MAX_RESULT_BYTES + 1)
    result = from_json(GpuResult, json.loads(content))
    if result.request_id != request.request_id or result.action is not request.action:
        raise ValueError("the result answers another request")
    return result


def _failed(request: GpuRequest, error: str, started: float) -> GpuResult:
    return GpuResult(
        request.request_id, request.action, None, error=redact(error), duration_s=time.monotonic() - started
    )


def _log_tail(scratch: Path) -> str:
    with contextlib.suppress(OSError), (scratch / LOG).open("rb") as handle:
        handle.seek(max(0, (scratch / LOG).stat().st_size - MAX_LOG_BYTES))
        printed = handle.read().decode("utf-8", "replace").strip()
        return f"{PRINTED}{printed}" if printed else ""
    return ""
