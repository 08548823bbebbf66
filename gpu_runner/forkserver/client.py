"""The parent's side of a fork server: starting it, asking it for children, and a hold on each child."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_runner.contracts.envelope import RunnerError
from gpu_runner.forkserver.server import MOST_BYTES
from gpu_runner.importing import bytecode_folder
from gpu_runner.sandbox import environment
from gpu_runner.scratch import Scratch

READY_S = 120.0  # a cold disk takes long to read torch from
ANSWER_S = 20.0
END_S = 5.0


class ForkError(RunnerError):
    """The fork server gave no child."""


class ForkServer:
    """One server process; it ends when this object is closed, and when this process ends, however it does.

    ``gpu`` is whether its children have one. ``started_s`` is how long its imports took, None before they are done.
    """

    def __init__(self, gpu: bool) -> None:
        self.owner = os.getpid()
        self.started_s: float | None = None
        self._lock = threading.Lock()
        self._folder: Scratch | None = Scratch()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-s", "-m", "gpu_runner.forkserver.server", str(theirs.fileno())]
        bytecode = bytecode_folder()
        command += [] if bytecode is None else [str(bytecode)]
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Asked whether there is a GPU, torch must not start the driver: it does not survive a fork.
                env=environment(self._folder.path, gpu) | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
                cwd=self._folder.work,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, environment: Mapping[str, str], folder: Path, handles: Sequence[int]) -> Forked:
        """Start a child with this environment and folder; ``handles`` are its channel, its status pipe and its output.

        Raises:
            ForkError: there is none. The server is of no use any more.
        """
        order = {"do": "fork", "environment": dict(environment), "folder": str(folder)}
        with self._lock:
            self._wait_until_ready()
            answer, given = self._ask(order, handles)
        if "pid" not in answer or len(given) != 1:
            for handle in given:
                os.close(handle)
            raise ForkError(f"no child was forked: {answer.get('refused')}")
        return Forked(self, answer["pid"], given[0])

    def reap(self, pid: int) -> int:
        """Release an ended child's process id; returns its exit code as ``Popen`` does, 0 where the server is gone."""
        with self._lock:
            try:
                code = self._ask({"do": "reap", "pid": pid}, ())[0].get("code", 0)
            except ForkError:
                return 0
        return int(code)

    def close(self) -> None:
        """End the server; children that live go on."""
        with self._lock:
            self._control.close()
            if os.getpid() != self.owner:
                return  # a copy of this object in a process that was forked from its own
            try:
                self._process.wait(END_S if self.started_s is not None else 0.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._remove_folder()

    def _wait_until_ready(self) -> None:
        if self.started_s is not None:
            return
        answer = self._receive(READY_S)[0]
        if "refused" in answer:
            raise ForkError(answer["refused"])
        self.started_s = sum(answer["seconds"].values())
        self._remove_folder()  # it needed a home to import from, and nothing afterwards

    def _ask(self, order: dict[str, Any], handles: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
        try:
            socket.send_fds(self._control, [json.dumps(order).encode()], list(handles))
        except OSError as error:
            raise ForkError(f"the fork server cannot be asked: {error}") from error
        return self._receive(ANSWER_S)

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        try:
            self._control.settimeout(timeout_s)
            message, handles, _, _ = socket.recv_fds(self._control, MOST_BYTES, 1)
        except OSError as error:
            self._process.kill()  # an answer that comes late must not be taken for that to the next request
            raise ForkError(f"the fork server does not answer: {error}") from error
        if not message:
            raise ForkError("the fork server has ended")
        return json.loads(message), handles

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()
            self._folder = None


class Forked:
    """A child that a server forked, used as a ``Popen`` is. Its process id is not reused before its end was seen here."""

    def __init__(self, server: ForkServer, pid: int, handle: int) -> None:
        self.pid = pid
        self._server = server
        self._handle = handle
        self._lock = threading.Lock()
        self._code: int | None = None
        # Not closed earlier: another thread may be about to poll it.
        weakref.finalize(self, os.close, handle)

    def poll(self) -> int | None:
        """The exit code, None while it lives."""
        with self._lock:
            if self._code is None and self._has_ended(0.0):
                self._code = self._server.reap(self.pid)
            return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it lives.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            self._has_ended(left_s)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal; ignored where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def _has_ended(self, timeout_s: float | None) -> bool:
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        return bool(poller.poll(None if timeout_s is None else timeout_s * 1000))
