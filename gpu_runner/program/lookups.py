"""What kernels look up in memory: a table that an earlier launch, or host code, has written decides by what is read of it.

A table is memory of the candidate's own in which nothing lies that was computed of loaded numbers. Who reads it at places that hang
on loaded numbers looks values up in it; an entry that no case reads was never judged. A place is what its expression says, and an
entry as wide as what is read of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from gpu_runner.program.coverage import BOTH, FAILED, Decisions, Place

_tables: dict[int, int] = {}  # of the launch that runs: where memory that may be one begins, and ends
_holding: set[int] = set()  # memory of that launch in which computed numbers lie by now
_read: dict[tuple[Place, int], torch.Tensor] = {}  # by place and table, which entries were read


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
    for (place, _), entries in _read.items():
        decisions.add_at(place, BOTH if bool(entries.all()) else FAILED)
    _read.clear()


def forget() -> None:
    """Note nothing of a case that ended with an error."""
    _read.clear()


def watch(interpreter: Any, place_of_load: Callable[[], Place | None]) -> None:
    """Follow through the interpreter of this process what was computed of loaded numbers, and note what it looks up; once."""
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    handle.is_loaded = False
    for name in [each for each in dir(builder) if each.startswith("create_")]:
        setattr(builder, name, _following(getattr(builder, name), handle))
    builder.create_masked_load = _loading(builder.create_masked_load, interpreter.np, place_of_load)
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
