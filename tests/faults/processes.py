"""Processes as the system tells of them, and waiting for what they do."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

WITHIN_S = 300.0  # on a machine with ten things to do on each core a service needs a minute to start
T = TypeVar("T")


def until(found: Callable[[], T | None], what: str, story: Callable[[], str] = str) -> T:
    """Wait until something is there, and give it."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {WITHIN_S:.0f} s in vain for {what}\n{story()}")


def descendants(pid: int) -> set[int]:
    """Give the processes that a process started, and theirs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: set[int] = set()
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.add(child)
            queue.append(child)
    return found


def parent_of(pid: int) -> int:
    """Give the process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def free_port() -> Iterator[int]:
    """Give a port of loopback that stays this test's own while nobody listens there."""
    with socket.socket() as held:
        # Bound and never listening: others cannot get it by chance, and the service may bind it as well.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
