"""Knows in which run a tensor's memory came to be, so that memory which outlives its run is noticed when it is used again."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Births:
    """The memory that a candidate's runs have made, by weak references: nothing is kept alive by it."""

    def __init__(self) -> None:
        self._run = 0
        self._born: dict[int, tuple[StorageWeakRef, int]] = {}

    def begin(self) -> None:
        """Begin another run, and forget the memory that is gone."""
        self._run += 1
        self._born = {key: entry for key, entry in self._born.items() if not entry[0].expired()}

    def note(self, tensors: Iterable[torch.Tensor]) -> None:
        """Take these tensors' memory for this run's, where no earlier run has made it."""
        for tensor in tensors:
            # A weak reference keeps the address from being given to other memory, so an old entry is never another's.
            reference = StorageWeakRef(tensor.untyped_storage())
            self._born.setdefault(reference.cdata, (reference, self._run))

    def old(self, tensors: Iterable[torch.Tensor]) -> int:
        """Give the elements of the largest of these tensors whose memory an earlier run has made; zero where there is none."""
        return max((tensor.numel() for tensor in tensors if self._is_old(tensor)), default=0)

    def _is_old(self, tensor: torch.Tensor) -> bool:
        entry = self._born.get(StorageWeakRef(tensor.untyped_storage()).cdata)
        return entry is not None and entry[1] < self._run
