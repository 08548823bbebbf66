"""Starting a child's process, forked or fresh, with the three ways that lead to it: channel, status and output."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpu_runner.forkserver import keeper
from gpu_runner.forkserver.server import OF_TRITON
from gpu_runner.sandbox import environment
from gpu_runner.scratch import Scratch


class Process(Protocol):
    """What a session needs of ``Popen``."""

    @property
    def pid(self) -> int:
        """The process id; it is not reused before ``poll`` or ``wait`` returned the end."""
        ...

    def poll(self) -> int | None:
        """The exit code, None while it lives."""
        ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


@dataclass(frozen=True)
class Spawned:
    """A child that was started, and the parent's ends of what leads to it."""

    process: Process
    forked: bool
    channel: socket.socket
    status: int
    output: int


@dataclass(frozen=True)
class _Ends:
    ours: socket.socket
    theirs: socket.socket
    status: tuple[int, int]
    output: tuple[int, int]

    def of_child(self) -> tuple[int, int, int]:
        return self.theirs.fileno(), self.status[1], self.output[1]

    def given_to(self, process: Process, forked: bool) -> Spawned:
        return Spawned(process, forked, self.ours, self.status[0], self.output[0])


def spawn(scratch: Scratch, gpu: bool, variables: dict[str, str], fork: bool) -> Spawned:
    """Start a child in its folder; ``fork`` takes it from the fork server where there is one."""
    whole = environment(scratch.path, gpu) | variables
    # What packages but triton read of their environment at import is there already in a forked child.
    forked = _forked(whole, scratch.work, gpu) if fork and variables.keys() <= {OF_TRITON} else None
    return forked or _fresh(whole, scratch.work)


def _forked(variables: dict[str, str], folder: Path, gpu: bool) -> Spawned | None:
    if keeper.why_not() is not None:
        return None
    with _ends() as ends:
        process = keeper.fork(gpu, variables, folder, ends.of_child())
        if process is not None:
            return ends.given_to(process, forked=True)
    # These ends are not used again: who knows what became of the other side.
    ends.ours.close()
    os.close(ends.status[0])
    os.close(ends.output[0])
    return None


def _fresh(variables: dict[str, str], folder: Path) -> Spawned:
    with _ends() as ends:
        channel, status, output = ends.of_child()
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "gpu_runner.child", str(channel), str(status)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=variables,
            cwd=folder,
            pass_fds=(channel, status),
            start_new_session=True,
        )
        return ends.given_to(process, forked=False)


@contextmanager
def _ends() -> Iterator[_Ends]:
    """Both ends; the child's are closed here afterwards, as only the child may keep them."""
    ends = _Ends(*socket.socketpair(), os.pipe(), os.pipe())
    try:
        yield ends
    finally:
        ends.theirs.close()
        os.close(ends.status[1])
        os.close(ends.output[1])
