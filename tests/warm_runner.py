"""Runners and fork servers that begin where their commands are after their imports: forked from one process that has torch loaded.

Of a request in Triton's interpreter the runner and its fork server import torch once each, which takes longer than most
requests do. ``warm`` has a test process fork both, and answer by itself where answers are recorded, ``warm_servers`` the servers of
its own sessions; ``cold`` and ``cold_servers`` are for tests of the commands themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
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
from typing import Any, NoReturn

from gpu_runner.forkserver import client
from gpu_runner.forkserver.client import ForkServer
from tests.recorded import runner as recorded

ROOT = Path(__file__).parents[1]
ARGUMENTS = "WARM_RUNNER_ARGUMENTS"
SERVER = "WARM_SERVER_ARGUMENTS"
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
    *_, handle = (int(word) for word in command if word.isdigit())
    if (pid := os.fork()) == 0:
        _serve_children(handle, command[command.index(str(handle)) + 1 :], env, cwd)
    return _Child(pid)


def _serve_children(handle: int, arguments: Sequence[str], env: dict[str, str], cwd: str | Path) -> NoReturn:
    """Be a fork server; its children end here, too."""
    from gpu_runner.forkserver import server

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    server._close_all_but({0, 1, 2, handle})
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    atexit._clear()
    # As its environment has an interpreter start.
    faulthandler.enable()
    _taken_out()
    sys.modules.update(_children)
    server.main([str(handle), *arguments])
    sys.exit(0)  # a child of it whose role is done


def _asked_server(command: Sequence[str], *, env: dict[str, str], cwd: Path, **rest: Any) -> Any:
    """Start a fork server of this process as a fork of the warm one, where triton has its interpreter in both."""
    if env.get("TRITON_INTERPRET") != "1":
        return subprocess.Popen(command, env=env, cwd=cwd, **rest)
    (handle,) = rest["pass_fds"]
    arguments = command[command.index(str(handle)) + 1 :]
    with Path(os.devnull).open("rb") as nothing:
        handles = (handle, nothing.fileno(), nothing.fileno())
        asked = _server().fork(env | {SERVER: json.dumps(arguments)}, cwd, handles)
    asked.kill = functools.partial(asked.send_signal, signal.SIGKILL)  # type: ignore[attr-defined]
    return asked


def _serve(handle: str) -> None:
    """Fork runners until the test process closes its end."""
    from gpu_runner.forkserver import server

    for name in RUNNER:
        importlib.import_module(name)
    modules = _taken_out()
    with socket.socket(fileno=int(handle)) as control:
        prepared = server._prepared(control)
        _children.update(_taken_out())
        sys.modules.update(modules)
        server._send(control, prepared)
        birth = server._serve(control)
    if (of_server := birth.environment.pop(SERVER, None)) is not None:
        server._forget(birth)
        _serve_children(birth.channel, json.loads(of_server), birth.environment, birth.folder)
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
    _start_by(_forked_server)
    sys.exit(sys.modules["gpu_runner.__main__"].main(arguments))


def _start_by(popen: Any) -> None:
    """Have fork servers started that way from here on."""
    client.subprocess = SimpleNamespace(**vars(subprocess) | {"Popen": popen})  # type: ignore[assignment]


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
                env=variables
                | {"PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "1", "LANG": "C.UTF-8"}
                | {"PYTHONUNBUFFERED": "1"},  # its children's streams are those that it begins with
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


def warm_servers() -> None:
    """Fork this process's fork servers from here on."""
    _start_by(_asked_server)


@contextmanager
def cold_servers() -> Iterator[None]:
    """Start each fork server by its command, as the product does."""
    before, client.subprocess = client.subprocess, subprocess  # type: ignore[assignment]
    try:
        yield
    finally:
        client.subprocess = before  # type: ignore[assignment]


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
