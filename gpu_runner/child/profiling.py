"""The role that has Nsight Compute watch a candidate: both run in the sandbox, below this process, which imports no candidate.

The profiler talks to what it watches over sockets and shared files; outside of the sandbox it would not reach it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gpu_runner.child import counted_launch
from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.messages import OpenDevice, ProfileCall, ProfilerOutput, Request
from gpu_runner.profiler import command

MOST_TEXT_BYTES = 4 * 2**20
MOST_ATTEMPTS = 6  # each leaves out one counter that this GPU does not have
_OUTPUT_CHARS = 4000


def start(state: ChildState, request: OpenDevice, tensors: list[torch.Tensor]) -> Answer[None]:
    """Begin; the device is opened by the process that is watched, and by no other."""
    return None, []


def count(state: ChildState, request: ProfileCall, tensors: list[torch.Tensor]) -> Answer[ProfilerOutput]:
    """Profile one call within its limit; returns what the profiler printed, and which kernels ran."""
    folder = Path(tempfile.mkdtemp(prefix="profile-", dir=_temporary(state)))
    try:
        roots = tuple(str((state.work / root).resolve()) for root in request.import_roots)
        counted_launch.write(folder, replace(request, import_roots=roots), state, tensors)
        return _attempts(folder, request), []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _attempts(folder: Path, request: ProfileCall) -> ProfilerOutput:
    deadline = time.monotonic() + request.limit_s
    names = list(request.metrics)
    for number in range(MOST_ATTEMPTS):
        log = folder / f"{number}.csv"
        target = [sys.executable, "-P", "-s", "-m", "gpu_runner.child.counted_launch", str(folder)]
        line = command.command(request.profiler, str(log), names, target)
        exit_code, output = _run(line, folder, deadline - time.monotonic())
        text = _text(log)
        unknown = command.unknown_metric(text + output)
        shorter = names if unknown is None else command.without(names, unknown)
        if len(shorter) == len(names) or exit_code is None:
            break
        names = shorter
    return ProfilerOutput(exit_code, output[-_OUTPUT_CHARS:], text, _launched(folder))


def _run(line: list[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Run to the end or to the limit; then the whole group ends and the exit code is None."""
    with (folder / "output").open("w+b") as output:
        process = subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, start_new_session=True
        )
        try:
            exit_code: int | None = process.wait(max(limit_s, 0.1))
        except subprocess.TimeoutExpired:
            exit_code = None
        finally:
            _end(process)
        output.seek(0)
        return exit_code, output.read(MOST_TEXT_BYTES).decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # the group may be gone already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MOST_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _launched(folder: Path) -> tuple[str, ...]:
    try:
        names = json.loads(_text(folder / counted_launch.LAUNCHED) or "[]")
    except ValueError:
        return ()
    return tuple(str(name)[:200] for name in names[:200]) if isinstance(names, list) else ()


def _temporary(state: ChildState) -> Path:
    folder = state.scratch / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


HANDLERS: dict[type[Request[Any]], Handler] = {OpenDevice: start, ProfileCall: count}
