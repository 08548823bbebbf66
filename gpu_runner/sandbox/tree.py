"""Process trees: finding and ending all that a process started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_PATIENCE_S = 5.0


def descendants(root: int) -> list[int]:
    """Ids of all processes below ``root``."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - numbers, not paths
        if name.isdigit() and (parent := _parent(name)) is not None:
            children.setdefault(parent, []).append(int(name))
    ids, left = [], [root]
    while left:
        below = children.get(left.pop(), [])
        ids += below
        left += below
    return ids


def children_below(root: int) -> list[int]:
    """The same by the kernel's lists of children, where it has them: each look takes a fraction of what reading all of /proc does.

    A process may be missed while others end (``proc_pid_children`` of Linux' manual pages): it shows at the next look.
    """
    if not Path(f"/proc/{root}/task/{root}/children").exists():
        return descendants(root)
    ids, left = [], [root]
    while left:
        below = _children(left.pop())
        ids += below
        left += below
    return ids


def waited_s(root: int) -> float:
    """The seconds for which the processes from ``root`` on were ready to run and no processor was free, added up.

    By ``/proc/PID/schedstat``; 0 where the kernel does not count it.
    """
    return sum(_waited_s(pid) for pid in (root, *children_below(root)))


def _waited_s(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123 - paths of many looks
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - numbers, not paths
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123 - paths of many looks
                found += map(int, file.read().split())
    except OSError:
        pass  # it has ended
    return found


def kill_descendants(root: int) -> None:
    """Kill all below ``root`` until none is left; processes that end are reaped where ``root`` is this process."""
    deadline = time.monotonic() + _PATIENCE_S
    look = children_below
    while time.monotonic() < deadline:
        alive = [pid for pid in look(root) if not _is_zombie(pid)]
        for pid in alive:
            _kill(pid)
        if root == os.getpid():
            _reap()
        if alive:
            time.sleep(0.005)
        elif look is descendants:
            return
        else:
            look = descendants  # which misses none


def _fields(pid: int | str) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - of every process, in each look
            # The name in parentheses may hold anything, so what follows its last parenthesis is read.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _parent(pid: str) -> int | None:
    fields = _fields(pid)
    return int(fields[1]) if len(fields) > 1 else None


def _is_zombie(pid: int) -> bool:
    return _fields(pid)[:1] in ([], [b"Z"], [b"X"])


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
