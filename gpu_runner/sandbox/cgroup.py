"""A control group for one child, where this process may make one: then the kernel itself holds the child to its memory.

It is made beside the group of this process, in a group that was delegated to this user and has no process of its own, as
systemd does with ``Delegate=memory pids`` and ``DelegateSubgroup=``. Elsewhere the watchdog counts.
Source: Documentation/admin-guide/cgroup-v2.rst of the Linux kernel, "Delegation" and "No Internal Process Constraint".
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

from gpu_runner.contracts.envelope import Limits

CONTROLLERS = ("memory", "pids")
_EMPTY_S = 2.0
_numbers = itertools.count()


class ControlGroup:
    """A group of one child and of all that it starts."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def create(
        cls, limits: Limits, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
    ) -> ControlGroup | None:
        """Create a group with these limits; None where this process may not."""
        parent = _delegated(root, own)
        if parent is None:
            return None
        path = parent / f"kernelsmith-{os.getpid()}-{next(_numbers)}"
        try:
            path.mkdir()
        except OSError:
            return None
        group = cls(path)
        try:
            (path / "memory.max").write_text(str(limits.memory_bytes))
            (path / "pids.max").write_text(str(limits.processes))
            (path / "memory.oom.group").write_text("1")
            with contextlib.suppress(OSError):  # a kernel without swap has no such file
                (path / "memory.swap.max").write_text("0")
        except OSError:
            group.remove()
            return None
        return group

    def add(self, pid: int) -> bool:
        """Move a process into the group; returns whether it is there."""
        try:
            (self._path / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the group for lack of memory."""
        try:
            lines = (self._path / "memory.events").read_text().splitlines()
        except OSError:
            return False
        return any(line.split()[:1] == ["oom_kill"] and line.split()[1:] != ["0"] for line in lines)

    def remove(self) -> None:
        """End what is left in the group, and the group."""
        deadline = time.monotonic() + _EMPTY_S
        with contextlib.suppress(OSError):
            (self._path / "cgroup.kill").write_text("1")
        while True:
            try:
                self._path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.005)  # a killed process is in its group until it is gone
            else:
                return


def _delegated(root: Path, own: Path) -> Path | None:
    """The group around the one of this process, with the controllers for its groups on; None where it is not this user's."""
    try:
        line = next(line for line in own.read_text().splitlines() if line.startswith("0::/"))
        group = root / line.removeprefix("0::/").strip()
        if group == root or group.parent == root:
            return None  # the group around it is not one that anybody delegated
        parent = group.parent
        on = parent / "cgroup.subtree_control"
        if not os.access(parent, os.W_OK) or (parent / "cgroup.procs").read_text().strip():
            return None
        if set(CONTROLLERS) - set(on.read_text().split()):
            on.write_text(" ".join(f"+{name}" for name in CONTROLLERS))
    except (OSError, StopIteration):
        return None
    return parent
