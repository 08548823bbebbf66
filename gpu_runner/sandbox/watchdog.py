"""Watches what a child takes of the host, where the kernel's own limits do not reach: memory, processes, room in its folder."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.contracts.envelope import Limits
from gpu_runner.sandbox import tree

MAX_DEPTH = 256  # of folders in each other
_LOOK_CLOSER_BYTES = 2**25  # of shared memory in a process, from where its mappings are read one by one
# How the kernel names files that are memory alone. What lies in /dev/shm under a name is counted with that file system.
_MEMORY_FILES = ("/memfd:", "/dev/zero", "/SYSV")


@dataclass(frozen=True)
class Footprint:
    """What a tree of processes takes."""

    processes: int
    memory_bytes: int


@dataclass(frozen=True)
class MemoryRoom:
    """What a folder takes."""

    bytes: int
    files: int
    too_deep: bool = False


def footprint(root: int, weightless: Container[int] = (), shared_folder: bool = False) -> Footprint:
    """Memory of the tree below ``root`` that no file on a disk backs; shared memory counts once.

    Memory that a fork shares with its parent counts for each process that is not ``weightless``. Files in the
    host's shared memory count where they are open or mapped, unless ``shared_folder``: then they are counted elsewhere.
    """
    below = tree.children_below(root)
    private, shared = 0, _Shared((*_MEMORY_FILES, *(() if shared_folder else ("/dev/shm/",))))  # noqa: S108
    for pid in below:
        if pid in weightless:
            continue
        anonymous, mapped = _resident(pid)
        private += anonymous
        shared.open_files(pid)
        if mapped > _LOOK_CLOSER_BYTES:
            shared.mappings(pid)
    return Footprint(len(below), private + shared.total())


class _Shared:
    """Memory files by their identity, each with what its open file and its mappings show of its size."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._opened: dict[int, int] = {}
        self._mapped: dict[int, int] = {}

    def total(self) -> int:
        """Bytes of all, each counted once."""
        known = set(self._opened) | set(self._mapped)
        return sum(max(self._opened.get(number, 0), self._mapped.get(number, 0)) for number in known)

    def open_files(self, pid: int) -> None:
        folder = f"/proc/{pid}/fd"
        try:
            handles = os.listdir(folder)  # noqa: PTH208 - numbers, not paths
        except OSError:
            return
        for handle in handles:
            try:
                if os.readlink(f"{folder}/{handle}").startswith(self._names):  # noqa: PTH115
                    facts = os.stat(f"{folder}/{handle}")  # noqa: PTH116
                    self._opened[facts.st_ino] = facts.st_blocks * 512
            except OSError:
                continue  # it was closed meanwhile

    def mappings(self, pid: int) -> None:
        try:
            lines = Path(f"/proc/{pid}/smaps").read_text(errors="replace").splitlines()
        except OSError:
            return
        number = 0
        for line in lines:
            fields = line.split(maxsplit=5)
            if len(fields) >= 5 and "-" in fields[0] and not fields[0].endswith(":"):
                number = int(fields[4]) if len(fields) == 6 and fields[5].startswith(self._names) else 0
            elif number and fields[0] == "Pss:":
                self._mapped[number] = self._mapped.get(number, 0) + int(fields[1]) * 1024


def room_of(folder: Path, most_files: int) -> MemoryRoom:
    """Room that a folder takes on its disk; looks at little more than ``most_files`` entries, and follows no link."""
    counted: set[tuple[int, int]] = set()
    total = files = 0
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    way: list[tuple[int, list[str]]] = []  # from the top: each open folder, and what is left to enter there
    name, above = str(folder), None
    try:
        while True:
            try:
                way.append((os.open(name, flags, dir_fd=above), []))
                with os.scandir(way[-1][0]) as entries:
                    for entry in entries:
                        files += 1
                        if files > most_files:
                            return MemoryRoom(total, files)
                        facts = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(facts.st_mode):
                            way[-1][1].append(entry.name)
                        if (facts.st_dev, facts.st_ino) not in counted:
                            total += facts.st_blocks * 512
                            counted.add((facts.st_dev, facts.st_ino))
            except OSError:
                pass  # it is gone, or closed to this process
            while way and not way[-1][1]:
                os.close(way.pop()[0])
            if not way or len(way) > MAX_DEPTH:
                return MemoryRoom(total, files, bool(way))
            above, name = way[-1][0], way[-1][1].pop()
    finally:
        for handle, _ in way:
            os.close(handle)


def _resident(pid: int) -> tuple[int, int]:
    """Bytes of a process that are its own, and that are shared memory."""
    regions = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in ("RssAnon", "RssShmem", "VmSwap"):
                regions[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return 0, 0
    return regions.get("RssAnon", 0) + regions.get("VmSwap", 0), regions.get("RssShmem", 0)


_INTERVAL_S = 0.25
_DISK_TURNS = 4  # a folder on a disk is walked through, so only at every fourth look


class Watchdog:
    """A thread that kills the tree below ``root`` when it exceeds the limits; ``reason`` is then set.

    It begins when the child is ready and no untrusted code ran: then there is one line of processes, the child its last.
    ``folder`` is the child's, on a disk; ``mounted`` is its descriptor where it is a tmpfs, which then counts
    as memory too.
    """

    def __init__(self, root: int, limits: Limits, folder: Path, mounted: int | None = None) -> None:
        self.reason: str | None = None
        self._root = root
        # The process of the sandbox between the two, where there is one. A forked one still has what its server imported.
        self._watchers = frozenset(tree.descendants(root)[:-1])
        self._limits = limits
        self._folder, self._mounted = folder, mounted
        self._looks = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="child-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watching."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            self.reason = self._beyond()
            if self.reason is not None:
                tree.kill_descendants(self._root)
                return

    def _beyond(self) -> str | None:
        taken = footprint(self._root, self._watchers, self._mounted is not None)
        room = self._room()
        memory_bytes = taken.memory_bytes + (room.bytes if self._mounted is not None else 0)
        if taken.processes > self._limits.processes:
            return f"more than {self._limits.processes} processes"
        if memory_bytes > self._limits.memory_bytes:
            return f"more than {self._limits.memory_bytes >> 20} MiB of memory"
        if room.bytes > self._limits.scratch_bytes:
            return f"more than {self._limits.scratch_bytes >> 20} MiB in its folder"
        if room.files > self._limits.scratch_files:
            return f"more than {self._limits.scratch_files} files in its folder"
        return f"folders nested deeper than {MAX_DEPTH}" if room.too_deep else None

    def _room(self) -> MemoryRoom:
        if self._mounted is not None:
            facts = os.fstatvfs(self._mounted)
            return MemoryRoom((facts.f_blocks - facts.f_bfree) * facts.f_frsize, facts.f_files - facts.f_ffree)
        self._looks += 1
        return room_of(self._folder, self._limits.scratch_files) if self._looks % _DISK_TURNS == 1 else MemoryRoom(0, 0)
