"""What kernels look up in memory: a table that an earlier launch, or host code, has written decides by what is read of it.

A table is memory of the candidate's own in which nothing lies that was computed of loaded numbers. Who reads it at places that hang
on loaded numbers looks values up in it; an entry that no case reads was never judged. A place is what its expression says, and an
entry as wide as what is read of it. So it is of a block that ``tl.gather`` reads and of the bits of a word, where neither hangs on
loaded numbers and the index, shift or single bit of a mask does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from gpu_runner.messages import Place
from gpu_runner.program.coverage import BOTH, FAILED, Decisions

_tables: dict[int, int] = {}  # of the launch that runs: where memory that may be one begins, and ends
_holding: set[int] = set()  # memory of that launch in which computed numbers lie by now
_read: dict[tuple[Place, int], torch.Tensor] = {}  # by place and table, which entries were read
_BLOCK, _WORD = 0, -1  # in place of where a table begins
_masks: set[Place] = set()  # where words met masks of other than one bit: they look nothing up


def begin(tables: Iterable[torch.Tensor]) -> None:
    """Begin a launch."""
    _tables.clear()
    _holding.clear()
    for tensor in tables:
        storage = tensor.untyped_storage()
        _tables[storage.data_ptr()] = storage.data_ptr() + storage.nbytes()


def holds_numbers(tensor: torch.Tensor) -> bool:
    """Whether the last launch wrote numbers to a tensor's memory that were computed of loaded ones."""
    return tensor.untyped_storage().data_ptr() in _holding


def settle(decisions: Decisions) -> None:
    """Note of each look-up of a case whether every entry was read."""
    for (place, table), entries in _read.items():
        # Of a word that holds several numbers they begin some bits apart.
        step = math.gcd(*entries.nonzero().flatten().tolist()) if table == _WORD else 1
        if place not in _masks:
            decisions.add_at(place, BOTH if bool(entries[:: step or len(entries)].all()) else FAILED)
    _read.clear()


def forget() -> None:
    """Note nothing of a case that ended with an error."""
    _read.clear()


def watch(interpreter: Any, place_of: Callable[[str], Place | None]) -> None:
    """Follow through the interpreter of this process what was computed of loaded numbers, and note what it looks up; once."""
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    handle.is_loaded = False
    for name in [each for each in dir(builder) if each.startswith("create_")]:
        setattr(builder, name, _following(getattr(builder, name), handle))
    place_of_load = functools.partial(place_of, "each entry of the memory that it reads")
    builder.create_masked_load = _loading(builder.create_masked_load, interpreter.np, place_of_load)
    builder.create_gather = _gathering(builder.create_gather, functools.partial(place_of, "each entry of its block"))
    place_of_bits = functools.partial(place_of, "each bit of its word")
    for name in ("create_lshr", "create_ashr"):
        setattr(builder, name, _shifting(getattr(builder, name), place_of_bits))
    builder.create_and = _masking(builder.create_and, interpreter.np, place_of_bits)
    builder.create_masked_store = _storing(builder.create_masked_store)
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply = _following_blocks(kind.apply)


def _following(method: Callable[..., Any], handle: Any) -> Callable[..., Any]:
    is_atomic = method.__name__.startswith("create_atomic_")

    @functools.wraps(method)
    def following(self: Any, *given: Any, **named: Any) -> Any:
        result: Any = method(self, *given, **named)
        if is_atomic:
            result.is_loaded = True
            return result
        each: Any
        for each in given:
            if type(each) is handle and each.is_loaded:
                for one in result if type(result) is tuple else (result,):
                    if type(one) is handle:
                        one.is_loaded = True
                break
        return result

    return following


def _following_blocks(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def following(self: Any, given: Any) -> Any:
        results = method(self, given)
        if any(each.handle.is_loaded for each in (given if isinstance(given, tuple | list) else (given,))):
            for each in results if isinstance(results, tuple | list) else (results,):
                each.handle.is_loaded = True
        return results

    return following


def _loading(method: Callable[..., Any], numpy: Any, place_of_load: Callable[[], Place | None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def loading(self: Any, pointers: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        result = method(self, pointers, mask, *rest, **named)
        if pointers.is_loaded and _tables:
            addresses = pointers.data[numpy.asarray(mask.data).astype(bool)]
            _look_up(addresses, result.data.itemsize, place_of_load)
        result.is_loaded = True
        return result

    return loading


def _gathering(method: Callable[..., Any], place_of: Callable[[], Place | None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def gathering(self: Any, source: Any, indices: Any, axis: int) -> Any:
        if indices.is_loaded and not source.is_loaded:
            _take(_BLOCK, source.data.shape[axis], indices.data, place_of)
        return method(self, source, indices, axis)

    return gathering


def _shifting(method: Callable[..., Any], place_of: Callable[[], Place | None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def shifting(self: Any, word: Any, shift: Any) -> Any:
        if shift.is_loaded and not word.is_loaded:
            _take(_WORD, _bits_of(word.data), shift.data, place_of)
        return method(self, word, shift)

    return shifting


def _masking(method: Callable[..., Any], numpy: Any, place_of: Callable[[], Place | None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def masking(self: Any, lhs: Any, rhs: Any) -> Any:
        if lhs.is_loaded is not rhs.is_loaded and lhs.data.dtype.kind in "iu":
            word, mask = (lhs.data, rhs.data) if rhs.is_loaded else (rhs.data, lhs.data)
            if (mask & (mask - 1)).any() or not mask.all():
                place = place_of()
                _masks.update([] if place is None else [place])
            else:
                _take(_WORD, _bits_of(word), numpy.frexp(numpy.abs(mask.astype(float)))[1] - 1, place_of)
        return method(self, lhs, rhs)

    return masking


def _bits_of(word: Any) -> int:
    """How many bits of the numbers of a word differ from its sign."""
    ends = [int(word.min()), int(word.max())] if word.size else []
    return max(((one if one >= 0 else ~one).bit_length() for one in ends), default=0)


def _take(table: int, count: int, at: Any, place_of: Callable[[], Place | None]) -> None:
    """Note which of so many entries of a block or word are taken."""
    place = place_of() if count else None
    if place is not None:
        known = _read.get((place, table))
        if known is None or len(known) < count:
            grown = torch.zeros(count, dtype=torch.bool)
            if known is not None:
                grown[: len(known)] = known
            _read[place, table] = known = grown
        known.numpy()[at[(at >= 0) & (at < count)].astype("int64")] = True


def _look_up(addresses: Any, width: int, place_of_load: Callable[[], Place | None]) -> None:
    for start, end in _tables.items():
        at = addresses[(addresses >= start) & (addresses < end)]
        place = place_of_load() if at.size else None
        if place is not None:
            key = place, start
            if key not in _read or len(_read[key]) != (end - start) // width:
                _read[key] = torch.zeros((end - start) // width, dtype=torch.bool)
            _read[key].numpy()[((at - start) // width).astype("int64")] = True


def _storing(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def storing(self: Any, pointers: Any, value: Any, *rest: Any, **named: Any) -> Any:
        if value.is_loaded and pointers.data.size:
            first = int(pointers.data.flat[0])
            for start in [start for start, end in _tables.items() if start <= first < end]:
                del _tables[start]
                _holding.add(start)
        return method(self, pointers, value, *rest, **named)

    return storing
