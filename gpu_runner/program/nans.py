"""Which lanes of Triton's interpreter hang on NaN, in a case that holds some.

What a comparison with NaN gives says nothing of numbers, and what comes of it is not judged as one: a decision that such lanes
alone show was not seen. What asks for NaN itself (``x != x``) is seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

_PLACES: list[Any] = []  # addresses at which a kernel of this case stored what hangs on NaN, in pieces
_ON = [False]


def begin(*, has_some: bool) -> None:
    """Begin a case."""
    _ON[0] = has_some
    _PLACES.clear()


def marked(handle: Any) -> Any:
    """The lanes of a block that hang on NaN, as an array of truth values; None where none does."""
    return getattr(handle, "by_nan", None) if _ON[0] else None


def mark(result: Any, *operands: Any, is_asked: bool = False, is_choice: bool = False) -> Any:
    """Mark the lanes of a result that hang on NaN in an operand, and are none; gives the result.

    ``is_asked``: the operation asks for NaN. ``is_choice``: the first operand chooses between the others.
    """
    if not _ON[0]:
        return result
    from triton.runtime.interpreter import np as numpy

    result.by_nan = None
    data = result.data
    lanes = [marked(each) if is_asked else _of(each, numpy) for each in operands]
    if all(each is None for each in lanes):
        return result
    if is_choice:
        condition, first, second = operands[0].data, *(_shaped(each, data, numpy) for each in lanes[1:])
        lanes = [lanes[0], numpy.where(condition, first, second)]
    hangs = numpy.zeros(data.shape, bool)
    for each in lanes:
        if each is not None:
            hangs = hangs | _shaped(each, data, numpy)
    if data.dtype.kind == "f":
        hangs &= ~numpy.isnan(data)
    if hangs.any():
        result.by_nan = hangs
    return result


def _of(handle: Any, numpy: Any) -> Any:
    """The lanes of an operand that are NaN or hang on it; None where it has none."""
    known = marked(handle)
    if handle.data.dtype.kind != "f":
        return known
    nan = numpy.isnan(handle.data)
    if not nan.any():
        return known
    return nan if known is None else nan | known


def _shaped(lanes: Any, data: Any, numpy: Any) -> Any:
    """The lanes in the shape of a result; all of them, or none, where it has another one."""
    if lanes is None:
        return numpy.zeros(data.shape, bool)
    return lanes if lanes.shape == data.shape else numpy.full(data.shape, bool(lanes.any()))


def watch(interpreter: Any) -> None:
    """Have the interpreter of this process mark lanes in whatever it does; of use in a case that holds some alone."""
    builder = interpreter.InterpreterBuilder
    builder.create_masked_load = _loading(builder.create_masked_load, interpreter.np)
    for name in ("create_masked_store", "create_atomic_rmw", "create_atomic_cas"):
        setattr(builder, name, _storing(getattr(builder, name), interpreter))
    others = [
        name for name in dir(builder) if name.startswith("create_") and "load" not in name and "store" not in name
    ]
    for name in others:
        setattr(builder, name, _marking(getattr(builder, name), interpreter.TensorHandle))
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply = _reducing(kind.apply, interpreter.np)


def _marking(method: Callable[..., Any], handle: type) -> Callable[..., Any]:
    @functools.wraps(method)
    def marking(self: Any, *given: Any, **named: Any) -> Any:
        results = method(self, *given, **named)
        operands = [each for each in _flat((given, *named.values())) if isinstance(each, handle)]
        for result in _flat(results):
            if isinstance(result, handle) and "by_nan" not in vars(result):
                mark(result, *operands)
        return results

    return marking


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list | tuple):
        for each in values:
            yield from _flat(each)
    else:
        yield values


def _loading(method: Callable[..., Any], numpy: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def loading(self: Any, pointers: Any, *rest: Any, **named: Any) -> Any:
        result = method(self, pointers, *rest, **named)
        lanes = marked(pointers)
        stored = _stored_at(pointers.data, numpy)
        if stored is not None:
            lanes = stored if lanes is None else lanes | stored
        result.by_nan = None if lanes is None or not lanes.any() else _shaped(lanes, result.data, numpy)
        return result

    return loading


def _remember(addresses: Any, numpy: Any) -> None:
    """Keep addresses in sorted pieces, each of at least twice the size of the next: each address is sorted again few times."""
    _PLACES.append(numpy.unique(addresses))
    while len(_PLACES) > 1 and _PLACES[-2].size < 2 * _PLACES[-1].size:
        last = _PLACES.pop()
        _PLACES[-1] = numpy.unique(numpy.concatenate([_PLACES[-1], last]))


def _stored_at(addresses: Any, numpy: Any) -> Any:
    """The lanes whose address holds what hangs on NaN; None where no lane's does."""
    if not _PLACES or not addresses.size:
        return None
    stored, low, high = None, addresses.min(), addresses.max()
    for known in _PLACES:
        if known.size and high >= known[0] and low <= known[-1]:
            here = known[numpy.minimum(numpy.searchsorted(known, addresses), known.size - 1)] == addresses
            if here.any():
                stored = here if stored is None else stored | here
    return stored


def _storing(method: Callable[..., Any], interpreter: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def storing(self: Any, *given: Any, **named: Any) -> Any:
        handles = [each for each in (*given, *named.values()) if isinstance(each, interpreter.TensorHandle)]
        marks = [marked(each) for each in handles]
        if any(each is not None for each in marks):
            pointers = next(each.data for each in handles if each.dtype.is_ptr())
            lanes = [_shaped(each, pointers, interpreter.np) for each in marks if each is not None]
            _remember(pointers[functools.reduce(interpreter.np.bitwise_or, lanes)], interpreter.np)
        return method(self, *given, **named)

    return storing


def _reducing(method: Callable[..., Any], numpy: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def reducing(self: Any, given: Any) -> Any:
        results = method(self, given)
        lanes = [_of(each.handle, numpy) for each in _flat(given)]
        along = [
            each.any(axis=self.axis, keepdims=getattr(self, "keep_dims", True)) for each in lanes if each is not None
        ]
        for result in _flat(results) if along else ():
            data = result.handle.data
            hangs = numpy.broadcast_to(functools.reduce(numpy.bitwise_or, along), data.shape)
            hangs = hangs & ~numpy.isnan(data) if data.dtype.kind == "f" else hangs
            result.handle.by_nan = hangs if hangs.any() else None
        return results

    return reducing
