"""Watches a child's process tree for memory and number of processes, where the kernel's own limits do not reach."""

from __future__ import annotations

import threading

from gpu_runner.contracts.envelope import Limits
from gpu_runner.sandbox import tree

_INTERVAL_S = 0.25


class Watchdog:
    """A thread that ends the tree below ``root`` when it goes beyond the limits; ``reason`` then says why.

    It begins when the child is ready, and nothing untrusted ran in it: then there is one line of processes, the child its last.
    """

    def __init__(self, root: int, limits: Limits) -> None:
        self.reason: str | None = None
        self._root = root
        # The process of the sandbox between the two, where there is one. A forked one still has what its server imported.
        self._watchers = frozenset(tree.descendants(root)[:-1])
        self._limits = limits
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="child-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the watching."""
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            processes, resident = tree.weight(self._root, self._watchers)
            if processes > self._limits.processes:
                self.reason = f"more than {self._limits.processes} processes"
            elif resident > self._limits.memory_bytes:
                self.reason = f"more than {self._limits.memory_bytes >> 20} MiB of memory"
            else:
                continue
            tree.kill_descendants(self._root)
            return
