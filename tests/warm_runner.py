"""Runners that begin where ``python -m gpu_runner`` is after its imports: forked from one process that has torch loaded.

Of a request in Triton's interpreter the runner and its fork server import torch once each, which takes longer than most
requests do. ``warm`` has a test process fork both, and answer by itself where answers are recorded; ``cold`` is for tests of the
command itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from gpu_runner.forkserver.client import ForkServer
from tests.recorded import runner as recorded

ROOT = Path(__file__).parents[1]
ARGUMENTS = "WARM_RUNNER_ARGUMENTS"
COMMAND = (sys.executable, "-m", "gpu_runner")
RUNNER = ("gpu_runner.__main__", "gpu_runner.verify.judge", "gpu_runner.evaluate", "gpu_runner.capture")
PR_SET_PDEATHSIG = 1
_starting = threading.Lock()
_children: dict[str, ModuleType] = {}  # what children find loaded; no runner has used it


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class _Child:
    """A forked process, held as far as ``ForkServer`` holds its own."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a forked server", timeout)
            else:
                time.sleep(0.005)
        return self._code

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class _Ended:
    """A process that is over."""

    code: int

    def wait(self, _timeout: float) -> int:
        return self.code


def _taken_out() -> dict[str, ModuleType]:
    """The modules of the runner, which are imported anew where they are asked for next."""
    names = [name for name in sys.modules if name.partition(".")[0] == "gpu_runner"]
    return {name: sys.modules.pop(name) for name in names}


def _forked_server(command: Sequence[str], *, env: dict[str, str], cwd: Path, **_: Any) -> _Child:
    """Start a runner's fork server as a fork of the runner, which has done nothing with torch so far."""
    from gpu_runner.forkserver import server

    *_, handle = (int(word) for word in command if word.isdigit())
    if (pid := os.fork()) != 0:
        return _Child(pid)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    server._close_all_but({0, 1, 2, handle})
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    atexit._clear()
    _taken_out()
    sys.modules.update(_children)
    server.main([str(handle), *command[command.index(str(handle)) + 1 :]])
    sys.exit(0)  # a child of it whose role is done


def _serve(handle: str) -> None:
    """Fork runners until the test process closes its end."""
    from gpu_runner.forkserver import client, server

    for name in RUNNER:
        importlib.import_module(name)
    modules = _taken_out()
    with socket.socket(fileno=int(handle)) as control:
        prepared = server._prepared(control)
        _children.update(_taken_out())
        sys.modules.update(modules)
        server._send(control, prepared)
        birth = server._serve(control)
    os.setsid()
    _die_with_parent()
    for stream in (1, 2):
        os.dup2(birth.output, stream)
    server._close_all_but({0, 1, 2})
    os.environ.clear()
    os.environ.update(birth.environment)
    arguments = json.loads(os.environ.pop(ARGUMENTS))
    os.chdir(birth.folder)
    server._draw_anew()
    sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
    client.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": _forked_server})  # type: ignore[assignment]
    sys.exit(sys.modules["gpu_runner.__main__"].main(arguments))


class _Server(ForkServer):
    """The process that runners are forked from."""

    def __init__(self) -> None:
        self.owner, self.started_s = os.getpid(), None
        self._lock, self._folder = threading.Lock(), None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handed_on = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "OMP_NUM_THREADS")
        variables = {name: os.environ[name] for name in handed_on if name in os.environ}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "tests.warm_runner", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                env=variables | {"PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "1", "LANG": "C.UTF-8"},
                cwd=ROOT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )


@functools.cache
def _server_of(_process: int) -> ForkServer:
    """Start it with the first request; ``close`` waits for its end."""
    made = _Server()
    atexit.register(made.close)
    return made


def _server() -> ForkServer:
    """The server of this process, one also where several threads ask for it first."""
    with _starting:
        return _server_of(os.getpid())


@contextmanager
def _launched(host: Any, scratch: Path, arguments: Sequence[str], stdin: int = subprocess.DEVNULL) -> Iterator[Any]:
    from workers.gpu_host import runner as launching

    if host.command[:2] == recorded.command(scratch)[:2]:
        with (scratch / launching.LOG).open("w") as log, contextlib.redirect_stdout(log):
            ended = _Ended(recorded.main([*host.command[2:], *arguments]))
        yield ended
        return
    command, options = host.command[: len(COMMAND)], host.command[len(COMMAND) :]
    if command != COMMAND or not host.interpret or stdin != subprocess.DEVNULL:
        with launching.launched(host, scratch, arguments, stdin) as child:
            yield child
        return
    variables = launching.environment(host, scratch) | {ARGUMENTS: json.dumps([*options, *arguments])}
    with (scratch / launching.LOG).open("wb") as output, Path(os.devnull).open("rb") as nothing:
        handles = (nothing.fileno(), nothing.fileno(), output.fileno())
        runner = _server().fork(variables, scratch, handles)
    try:
        yield runner
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()


def warm() -> None:
    """Fork runners from here on."""
    from workers.gpu_host import execute

    execute.launched = _launched  # type: ignore[attr-defined]


@contextmanager
def cold() -> Iterator[None]:
    """Start each runner by its command, as the product does."""
    from workers.gpu_host import execute
    from workers.gpu_host import runner as launching

    before = execute.launched  # type: ignore[attr-defined]
    execute.launched = launching.launched  # type: ignore[attr-defined]
    try:
        yield
    finally:
        execute.launched = before  # type: ignore[attr-defined]


if __name__ == "__main__":
    _serve(sys.argv[1])
