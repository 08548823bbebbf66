"""What the threads of this process have leased."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class UnderWay:
    """Keeps threads of one process from working on the same thing, whatever the clock says.

    A clock that is put forward ends a lease whose owner still works: another thread would make the same comment once more.
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._claiming = threading.Lock()

    @contextmanager
    def claim(self, take: Callable[[Collection[str]], T | None], id_of: Callable[[T], str]) -> Iterator[T | None]:
        """What ``take`` leases, given the ids that are under way here; its own is among them until the block ends."""
        with self._claiming:
            claimed = take(self._ids)
            if claimed is not None:
                self._ids.add(id_of(claimed))
        try:
            yield claimed
        finally:
            if claimed is not None:
                self._ids.discard(id_of(claimed))
