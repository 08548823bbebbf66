"""Bounds for the kernels that Triton's interpreter runs: what they read and write lies in the memory that they were given.

The interpreter reads and writes wherever a kernel's pointers lead, as a GPU does, but in this process's own memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpu_runner.contracts.status import Status
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.objects import Violation


class _Guarded:
    """The interpreter's reads and writes, each held against the ranges of the running launch."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ranges: list[tuple[int, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load(self, ptr: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._check(ptr, mask, dtype.itemsize, "reads")
        return self._inner.load(ptr, mask, other, dtype)

    def store(self, ptr: Any, value: Any, mask: Any) -> Any:
        self._check(ptr, mask, value.dtype.itemsize, "writes")
        return self._inner.store(ptr, value, mask)

    def atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any) -> Any:
        self._check(ptr, None, val.dtype.itemsize, "writes")
        return self._inner.atomic_cas(ptr, cmp, val, sem)

    def atomic_rmw(self, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any) -> Any:
        self._check(ptr, mask, val.dtype.itemsize, "writes")
        return self._inner.atomic_rmw(operation, ptr, val, mask, sem)

    def _check(self, ptr: Any, mask: Any, width: int, does: str) -> None:
        addresses = ptr if mask is None else ptr[mask.astype(bool)]
        if addresses.size == 0:
            return
        low, high = int(addresses.min()), int(addresses.max()) + width
        if any(begin <= low and high <= end for begin, end in self.ranges):
            return
        for address in addresses.ravel().tolist():
            if not any(begin <= address and address + width <= end for begin, end in self.ranges):
                raise Violation(None, f"A kernel {does} memory that it was not given.", Status.out_of_bounds)


def guard_memory() -> None:
    """Bound the interpreter of this process, once."""
    from triton.runtime import interpreter

    if isinstance(interpreter._interpreter, _Guarded):  # noqa: SLF001 - there is no public place for it
        return
    guarded = _Guarded(interpreter._interpreter)  # noqa: SLF001 - as above
    interpreter._interpreter = guarded  # noqa: SLF001 - as above
    original = interpreter.GridExecutor._init_args_hst  # noqa: SLF001 - as above

    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        on_host = original(self, args, kwargs)
        guarded.ranges = _ranges(tensors_in(on_host))
        return on_host

    interpreter.GridExecutor._init_args_hst = init_args  # noqa: SLF001 - as above


def _ranges(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The addresses of the storages of tensors."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return list(dict.fromkeys((storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages))
