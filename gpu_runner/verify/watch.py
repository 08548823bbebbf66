"""Watches a candidate from inside its process: which kernels it launches, what torch computes for it, what it leaves unwritten."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from gpu_runner.verify.mode import Mode
from gpu_runner.verify.poison import GUARD_ELEMENTS, fill_unwritten, unwritten
from gpu_runner.verify.remembered import Births

_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
# Operators that move, shape or initialise data, and the sum of partial buffers: they compute no answer.
_MOVE_NAMES = """
    _conj _has_compatible_shallow_copy_type _local_scalar_dense _neg_view _reshape_alias _to_copy _unsafe_view
    alias arange as_strided cat chunk clone constant_pad_nd copy_ detach diagonal expand fill_ full full_like
    is_pinned is_same_size lift lift_fresh lift_fresh_copy narrow new_full new_ones new_zeros ones ones_like
    permute record_stream resize_ scalar_tensor select set_ slice split split_with_sizes squeeze stack t
    transpose unbind unfold unsqueeze view view_as zero_ zeros zeros_like
"""
_MOVES = frozenset(_MOVE_NAMES.split())
_ZEROED = frozenset({"zeros", "zeros_like", "new_zeros"})
_SUMS = frozenset({"sum"})
# What takes one number out of a tensor, or puts one in: harmless once, an answer computed by Python when done for every element.
_ONE_BY_ONE = frozenset({"_local_scalar_dense", "fill_"})
# What autograd does by itself where an input is used twice, or in part.
_BY_AUTOGRAD = frozenset({"add", "add_", "slice_backward", "select_backward"})


class Watch(Mode):
    """Sees every operator that torch runs, and every kernel launch, while it is entered.

    ``root`` is the folder of the candidate's files, by which its additions are told from those that autograd makes by itself.
    ``births`` carries on from one case to the next.
    """

    def __init__(self, root: str, poison: bool = True, births: Births | None = None) -> None:
        super().__init__()
        self._root = root
        self._births = births or Births()
        self.launched: dict[str, int] = {}
        self.launches: dict[str, int] = {}  # run -> how many kernels it launched
        self.run = ""
        self.remembered = 0  # elements of the largest tensor that was used again after the run that made it
        self.computed: dict[str, dict[str, int]] = {}  # forward or backward of a run -> operator -> elements worked on
        self._step: dict[str, int] = {}
        self._poison = poison
        self._paused = 0
        self._launching = 0
        self._touched: set[int] = set()  # storages that a kernel was given, and what was moved from them
        self._zeroed: set[int] = set()  # storages of buffers that start as zeros
        self._guards: list[tuple[torch.Tensor, torch.Tensor]] = []

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, and note what it is told by."""
        given = func(*args, **kwargs)
        if self._paused:
            return given
        name = func.overloadpacket.__name__
        operands, results = _tensors((args, kwargs)), _tensors(given)
        self.remembered = max(self.remembered, self._births.old(operands))
        known = {_storage(tensor) for tensor in operands}  # a view is nothing new
        self._births.note(tensor for tensor in results if _storage(tensor) not in known)
        if name in _EMPTY and self._poison:
            given = self._guarded(given)
            self._births.note([given])
        if name in _EMPTY:
            return given
        if name in _ZEROED:
            self._zeroed.update(_storage(tensor) for tensor in results)
        if any(_storage(tensor) in self._touched for tensor in operands):
            self._touched.update(_storage(tensor) for tensor in results)
        self._count(name, args, operands, results)
        return given

    def begin(self, run: str) -> None:
        """Begin one of the runs, in which nothing of an earlier one may be used."""
        self.run = run
        self._births.begin()

    def begin_step(self, label: str) -> None:
        """Begin a forward or a backward; what torch computes is added up within each."""
        self._step = self.computed.setdefault(label, {})

    def launch(self, name: str, arguments: list[Any], run: Callable[[], Any]) -> Any:
        """Note that a kernel runs on these arguments, and run it.

        The interpreter itself only moves data, so that what else is computed meanwhile, in the grid's function or in one that
        the kernel calls, is the candidate's.
        """
        self.launched[name] = self.launched.get(name, 0) + 1
        self.launches[self.run] = self.launches.get(self.run, 0) + 1
        given = _tensors(arguments)
        self.remembered = max(self.remembered, self._births.old(given))
        self._touched.update(_storage(tensor) for tensor in given)
        self._launching += 1
        try:
            return run()
        finally:
            self._launching -= 1

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Look away: what is done inside is the runner's own work."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def was_touched(self, tensor: torch.Tensor) -> bool:
        """Say whether a kernel was given this tensor's memory, or the memory that it was moved from."""
        return _storage(tensor) in self._touched

    def broken_guards(self) -> int:
        """Count the buffers beyond whose ends something was written."""
        return sum(
            not all(
                bool(unwritten(raw[part]).all()) for part in (slice(0, GUARD_ELEMENTS), slice(-GUARD_ELEMENTS, None))
            )
            for raw, _ in self._guards
        )

    def _is_partial_sum(self, name: str, args: tuple[Any, ...], operands: list[torch.Tensor]) -> bool:
        """Say whether this sums the first dimension of a buffer that a kernel has filled."""
        if name not in _SUMS or len(args) < 2 or list(args[1] or ()) != [0]:
            return False
        return all(self._is_buffer(tensor) for tensor in operands)

    def _is_buffer(self, tensor: torch.Tensor) -> bool:
        storage = _storage(tensor)
        own = storage in self._zeroed or any(storage == _storage(raw) for raw, _ in self._guards) or not self._poison
        return own and self.was_touched(tensor)

    def _count(
        self, name: str, args: tuple[Any, ...], operands: list[torch.Tensor], results: list[torch.Tensor]
    ) -> None:
        if name in _ONE_BY_ONE:
            elements = 1
        elif name in _MOVES or self._is_partial_sum(name, args, operands):
            return
        else:
            elements = max((tensor.numel() for tensor in [*operands, *results]), default=0)
        if name in _BY_AUTOGRAD and not self._launching and not self._called_by_candidate():
            return
        self._step[name] = self._step.get(name, 0) + elements

    def _called_by_candidate(self) -> bool:
        frame: Any = sys._getframe(3)  # noqa: SLF001 - the only way to the caller's frame
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._root):
                return True
            frame = frame.f_back
        return False

    def _guarded(self, plain: torch.Tensor) -> torch.Tensor:
        self._touched.discard(_storage(plain))
        self._zeroed.discard(_storage(plain))
        if plain.numel() == 0 or plain.layout != torch.strided or plain.dtype == torch.bool:
            return plain
        span = 1 + sum((size - 1) * step for size, step in zip(plain.shape, plain.stride(), strict=True))
        with torch._C._AutoDispatchBelowAutograd():  # noqa: SLF001 - or autograd would see every buffer as a view
            raw = torch.empty(span + 2 * GUARD_ELEMENTS, dtype=plain.dtype, device=plain.device)
            fill_unwritten(raw)
            view = raw.as_strided(plain.shape, plain.stride(), GUARD_ELEMENTS)
        self._touched.discard(_storage(raw))
        self._guards.append((raw, view))
        return view


def watch_launches(current: Callable[[], Watch | None]) -> None:
    """Report every kernel launch of this process from now on, compiled or interpreted, to the watch that ``current`` gives."""
    for kind in (JITFunction, InterpretedFunction):
        _wrap_run(kind, current)


def _wrap_run(kind: Any, current: Callable[[], Watch | None]) -> None:
    original = kind.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch = current()
        if watch is None or kwargs.get("warmup"):
            return original(self, *args, **kwargs)
        name = getattr(self.fn, "__name__", "kernel")
        return watch.launch(name, [*args, *kwargs.values()], lambda: original(self, *args, **kwargs))

    kind.run = run


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [tensor for item in value.values() for tensor in _tensors(item)]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
