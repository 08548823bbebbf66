"""Bounds for the kernels that Triton's interpreter runs: what they read and write lies in the memory that they were given.

The interpreter reads and writes wherever a kernel's pointers lead, as a GPU does, but in this process's own memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gpu_runner.contracts.status import Status
from gpu_runner.program.kernels import tensors_in
from gpu_runner.program.objects import Violation


class _Guarded:
    """The interpreter's reads and writes, each held against the ranges of the running launch."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ranges: list[tuple[int, int]] = []
        self._writers: list[Any] = []  # by range, the program that wrote each byte; zero: none
        self._synchronizes = False
        self.builder: Any = None

    def begin(self, ranges: list[tuple[int, int]]) -> None:
        """Begin a launch."""
        self.ranges, self._synchronizes = ranges, False
        self._writers = [None] * len(ranges)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load(self, ptr: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._check(ptr, mask, dtype.itemsize, "reads")
        self._look_for_a_race(ptr, mask, dtype.itemsize)
        return self._inner.load(ptr, mask, other, dtype)

    def store(self, ptr: Any, value: Any, mask: Any) -> Any:
        self._check(ptr, mask, value.dtype.itemsize, "writes")
        self._look_for_a_race(ptr, mask, value.dtype.itemsize, value)
        return self._inner.store(ptr, value, mask)

    def atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any) -> Any:
        self._check(ptr, None, val.dtype.itemsize, "writes")
        self._synchronizes = True  # programs that wait for one another may read what others wrote
        return self._inner.atomic_cas(ptr, cmp, val, sem)

    def atomic_rmw(self, operation: Any, ptr: Any, val: Any, mask: Any, sem: Any) -> Any:
        self._check(ptr, mask, val.dtype.itemsize, "writes")
        self._synchronizes |= "XCHG" in str(operation)
        return self._inner.atomic_rmw(operation, ptr, val, mask, sem)

    def _look_for_a_race(self, ptr: Any, mask: Any, width: int, value: Any = None) -> None:
        """Refuse what depends on the order of programs: reading what another one wrote, or writing something else over it."""
        if self._synchronizes:
            return
        addresses = ptr if mask is None else ptr[mask.astype(bool)]
        if addresses.size == 0:
            return
        place = self._range_of(int(addresses.min()), int(addresses.max()) + width)
        if place is None:
            return
        begin, end = self.ranges[place]
        at = (addresses.ravel() - begin).astype("int64")
        if self._writers[place] is None:
            if value is None:
                return
            self._writers[place] = np.zeros(end - begin, dtype="int32")
        writers = self._writers[place]
        own = self._program()
        others = (writers[at] != 0) & (writers[at] != own)
        if value is not None:
            others &= self._differs(addresses.ravel(), value, mask, width)
        if others.any():
            does = (
                "reads what another program of the launch wrote"
                if value is None
                else "writes over another program's result"
            )
            raise Violation("race", f"A kernel {does}: on a GPU its programs run at once.", Status.nondeterministic)
        if value is not None:
            writers[at] = own

    def _differs(self, addresses: Any, value: Any, mask: Any, width: int) -> Any:
        """Where memory holds something else than what is written."""
        given = value if mask is None else value[mask.astype(bool)]
        there = self._inner.load(addresses, np.ones(addresses.shape, dtype=bool), given.ravel(), value.dtype)
        return there.view(f"V{width}") != given.ravel().astype(value.dtype).view(f"V{width}")

    def _program(self) -> int:
        x, y, z = self.builder.grid_idx
        columns, rows, _ = self.builder.grid_dim
        return 1 + int(x) + int(columns) * (int(y) + int(rows) * int(z))

    def _range_of(self, low: int, high: int) -> int | None:
        return next((n for n, (begin, end) in enumerate(self.ranges) if begin <= low and high <= end), None)

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
    guarded.builder = interpreter.interpreter_builder
    _fill_undefined_lanes(interpreter)
    original = interpreter.GridExecutor._init_args_hst  # noqa: SLF001 - as above

    def init_args(self: Any, args: Any, kwargs: Any) -> Any:
        on_host = original(self, args, kwargs)
        guarded.begin(_ranges(tensors_in(on_host)))
        return on_host

    interpreter.GridExecutor._init_args_hst = init_args  # noqa: SLF001 - as above


def _fill_undefined_lanes(interpreter: Any) -> None:
    """Let a masked load without ``other`` give any number where nothing is loaded, as Triton's documentation has it."""
    original = interpreter.InterpreterBuilder.create_masked_load
    drawn = np.random.default_rng()

    def create(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        if other is None and not mask.data.all():
            kind = ptrs.get_element_ty()
            data = drawn.integers(1, 100, ptrs.data.shape).astype(interpreter._get_np_dtype(kind))  # noqa: SLF001 - as above
            other = interpreter.TensorHandle(data, kind)
        return original(self, ptrs, mask, other, *rest, **named)

    interpreter.InterpreterBuilder.create_masked_load = create


def _ranges(tensors: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """The addresses of the storages of tensors."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return list(dict.fromkeys((storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages))
