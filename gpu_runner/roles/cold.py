"""Makes the L2 cache cold: lines that were made to persist are released, and more than the cache holds is written."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import torch

from gpu_runner.roles import State

LEAST_BYTES = 2**27
QUICK_S = 5e-4
LIBRARIES = (("libcuda.so.1", "cuCtxResetPersistingL2Cache"), ("libcudart.so", "cudaCtxResetPersistingL2Cache"))

# Taken before a contender is imported, so that it cannot keep the cache warm for itself.
_zero = torch.Tensor.zero_
_clock = time.perf_counter


class Cold:
    """Source: Triton's ``do_bench`` for writing over the cache; the CUDA driver API, chapter on L2 persistence."""

    def __init__(self) -> None:
        size = max(2 * l2_bytes(), LEAST_BYTES)
        self._over = torch.empty(size, dtype=torch.int8, device="cuda")
        self._reset = persisting_reset()
        self._often = self._is_quick()

    def begin(self) -> None:
        """Release persisting lines; once for a block where a driver takes long over it."""
        if self._reset is not None:
            self._reset()

    def chill(self) -> None:
        """Make the cache cold, queued on the current stream."""
        if self._reset is not None and self._often:
            self._reset()
        _zero(self._over)

    def _is_quick(self) -> bool:
        if self._reset is None or self._reset() != 0:
            self._reset = None  # this GPU or driver has no such lines
            return False
        begin = _clock()
        self._reset()
        return _clock() - begin < QUICK_S


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
