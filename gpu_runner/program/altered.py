"""What kernels meet in the interpreter where something is made otherwise on purpose, to see what they do on their other side.

A correction is judged where what it corrects is off, and a loop over further blocks where a row has more than one. Where no case
has that, floats are cut to the whole number beside theirs, or a block has half or twice its elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

ABOVE, BELOW = "a whole number too large", "a whole number too small"
HALF, TWICE = "half of ", "twice "  # with the name of a kernel's constant behind it
LEAST_HALVED = 32  # elements of a block
LEAST_DOUBLED = 16

_now: list[str] = [""]


@contextmanager
def altering(what: str) -> Iterator[None]:
    """Have what kernels do meanwhile be so: ABOVE, BELOW, HALF or TWICE a constant; empty for nothing."""
    _now[0] = what
    try:
        yield
    finally:
        _now[0] = ""


def cut(whole: Any) -> Any:
    """Whole numbers to which floats were cut, as an array, or those beside them."""
    return whole + whole.dtype.type(1 if _now[0] == ABOVE else -1) if _now[0] in (ABOVE, BELOW) else whole


def arguments(
    names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a launch, by position and by name; of a constant that is a power of two perhaps another."""
    how = next((how for how in (HALF, TWICE) if _now[0].startswith(how)), None)
    if how is None:
        return tuple(given), dict(named)
    altered = _now[0].removeprefix(how)
    by_place = tuple(_other(one, how) if name == altered else one for name, one in zip(names, given, strict=False))
    return by_place, {name: _other(one, how) if name == altered else one for name, one in named.items()}


def _other(value: Any, how: str) -> Any:
    if type(value) is not int or value & value - 1 or value < (LEAST_HALVED if how == HALF else LEAST_DOUBLED):
        return value
    return value // 2 if how == HALF else value * 2
