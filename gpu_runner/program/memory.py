"""Bounds for the kernels that Triton's interpreter runs: what they read and write lies in the memory that they were given.

The interpreter reads and writes wherever a kernel's pointers lead, as a GPU does, but in this process's own memory.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gpu_runner.contracts.status import Status
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.objects import Violation

MOST_OPERATIONS = 2_000_000  # of one interpreted launch; about ten microseconds each


class _Guarded:
    """The interpreter's reads and writes, each held against the ranges of the running launch."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ranges: list[tuple[int, int]] = []
        self.operations = 0

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

    def count(self, operations: int = 1) -> None:
        """Count an operation on blocks, or as many as there are programs at least.

        Raises:
            Violation: one launch takes too many to be meant.
        """
        self.operations += operations
        if self.operations > MOST_OPERATIONS:
            raise Violation(
                "endless", f"A kernel takes more than {MOST_OPERATIONS:,} operations on blocks for one launch."
            )

    def _check(self, ptr: Any, mask: Any, width: int, does: str) -> None:
        from triton.runtime.interpreter import np  # which Triton itself needs there

        addresses = ptr if mask is None else np.asarray(ptr)[np.asarray(mask).astype(bool)]
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
        guarded.operations = 0
        return on_host

    interpreter.GridExecutor._init_args_hst = init_args  # noqa: SLF001 - as above
    for name, method in vars(interpreter.InterpreterBuilder).items():
        if name.startswith(("create_", "get_", "binary_", "unary_")) and inspect.isfunction(method):
            setattr(interpreter.InterpreterBuilder, name, _counted(method, guarded))
    set_grid = interpreter.InterpreterBuilder.set_grid_dim

    def set_grid_dim(self: Any, *grid: int) -> None:
        guarded.count(math.prod(grid))
        guarded.operations = 0
        set_grid(self, *grid)

    interpreter.InterpreterBuilder.set_grid_dim = set_grid_dim


def _counted(method: Callable[..., Any], guarded: _Guarded) -> Callable[..., Any]:
    @functools.wraps(method)
    def counted(*args: Any, **named: Any) -> Any:
        guarded.count()
        return method(*args, **named)

    return counted


def _ranges(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The addresses of the storages of tensors."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return list(dict.fromkeys((storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages))
