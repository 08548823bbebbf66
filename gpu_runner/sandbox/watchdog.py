"""Watches what a child takes of the host, where the kernel's own limits do not reach: memory, processes, room in its folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from gpu_runner.contracts.envelope import Limits
from gpu_runner.sandbox import tree
from gpu_runner.sandbox.footprint import MAX_DEPTH, Room, footprint, room_of

_INTERVAL_S = 0.25
_DISK_TURNS = 4  # a folder on a disk is walked through, so only at every fourth look


class Watchdog:
    """A thread that ends the tree below ``root`` when it goes beyond the limits; ``reason`` then says why.

    It begins when the child is ready, and nothing untrusted ran in it: then there is one line of processes, the child its last.
    ``folder`` is the child's, on a disk; ``mounted`` a descriptor of it where it is a file system in memory, which then counts
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

    def _room(self) -> Room:
        if self._mounted is not None:
            facts = os.fstatvfs(self._mounted)
            return Room((facts.f_blocks - facts.f_bfree) * facts.f_frsize, facts.f_files - facts.f_ffree)
        self._looks += 1
        return room_of(self._folder, self._limits.scratch_files) if self._looks % _DISK_TURNS == 1 else Room(0, 0)
