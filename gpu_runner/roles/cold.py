"""Makes the L2 cache cold: lines that were made to persist are released, and more than the cache holds is written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

from gpu_runner.roles import State

LEAST_BYTES = 2**27
LIBRARIES = (("libcuda.so.1", "cuCtxResetPersistingL2Cache"), ("libcudart.so", "cudaCtxResetPersistingL2Cache"))

# Taken before a contender is imported, so that it cannot keep the cache warm for itself.
_zero = torch.Tensor.zero_


class Cold:
    """Source: Triton's ``do_bench`` for writing over the cache; the CUDA driver API, chapter on L2 persistence."""

    def __init__(self) -> None:
        size = max(2 * l2_bytes(), LEAST_BYTES)
        self._over = torch.empty(size, dtype=torch.int8, device="cuda")
        self._release = persisting_reset()

    def chill(self) -> None:
        """Queue it on the current stream."""
        if self._release is not None and self._release() != 0:
            self._release = None  # this GPU or driver has no such lines
        _zero(self._over)


def l2_bytes() -> int:
    """Give the size of the L2 cache; zero where torch does not say."""
    return int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0))


def persisting_reset() -> Callable[[], int] | None:
    """Find the call that makes persisting lines normal ones again; None where no library has it."""
    for library, name in LIBRARIES:
        try:
            found = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        found.argtypes, found.restype = (), ctypes.c_int
        return lambda: int(found())
    return None


def cold(state: State) -> Cold:
    """Give the child's one."""
    found = state.values.get("cold")
    if not isinstance(found, Cold):
        found = state.values["cold"] = Cold()
    return found
