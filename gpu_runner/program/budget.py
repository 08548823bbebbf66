"""How much native code may do for one call of a program: builtins and methods that loop in C have no steps of their own to count.

What they go through is charged before they do: each item of a container, and what is nested in it as often as it stands there.
An iterator is not charged, since each source of one is: a container or a range when it is made, a generator at each item.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from gpu_runner.program.language import words
from gpu_runner.program.objects import Violation, unproved

MOST_WORK = 2**22  # items of one call that native code goes through: a fraction of a second
A_STEP = 8  # items, for the time of one that passes through the runner's own code
MOST_STEPS = 1_000_000  # of one call: some seconds
MOST_BITS = 4096
MOST_ITEMS = 1_000_000
MOST_DIGITS = 4  # of widths in a format, and of a decimal place
MOST_FACTORIAL = 1024
_VIEWS: tuple[Any, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_WIDE = re.compile(r"%[^a-zA-Z%]*(\*|\d{5})")  # a conversion of `%`
_FLAT = (str, bytes, range)
SIZED = (list, tuple, dict, set, frozenset, *_VIEWS, *_FLAT)
# Builtins that look at no item of what they are given.
LOOKS_AT_NONE = frozenset({"len", "isinstance", "callable", "getattr", "hasattr", "setattr", "next", "bool", "range"})
# Methods that look at few items of what they are methods of.
_AT_ONE = words("append add discard get items keys values setdefault extend update startswith endswith")


class CallBudget:
    """What one call has used."""

    def __init__(self) -> None:
        self.steps = 0
        self.work = 0

    def reset(self) -> None:
        """Begin a call."""
        self.steps = self.work = 0

    def step(self) -> None:
        """Count a step of the evaluator.

        Raises:
            Violation: there were too many, as everywhere here.
        """
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Violation("endless", f"The host code takes more than {MOST_STEPS:,} steps for one call.")

    def spend(self, items: int) -> None:
        """Count items that native code goes through."""
        self.work += items
        if self.work > MOST_WORK:
            raise Violation("endless", f"Builtins go through more than {MOST_WORK:,} items for one call.")

    def charge(self, *values: Any) -> None:
        """Count every item of containers, nested ones too."""
        waiting = [value for value in values if isinstance(value, SIZED)]
        while waiting:
            value = waiting.pop()
            self.spend(_length(value) + A_STEP)
            if isinstance(value, _FLAT):
                continue
            for items in (value, value.values()) if isinstance(value, dict) else (value,):
                if any(issubclass(kind, SIZED) for kind in set(map(type, items))):
                    waiting += [item for item in items if isinstance(item, SIZED)]

    def charge_method(self, owner: Any, name: str, args: tuple[Any, ...]) -> None:
        """Count what a method of a plain value goes through, and refuse text that it would make too long."""
        if isinstance(owner, str) and name in ("ljust", "rjust", "zfill") and args and isinstance(args[0], int):
            _bound_length(args[0])
        if isinstance(owner, str) and name == "replace" and len(args) > 1 and isinstance(args[1], str):
            _bound_length(owner.count(args[0]) * len(args[1]))
        if name == "pop" and not args and isinstance(owner, list):
            return
        if isinstance(owner, range):
            self.charge(*([owner] if args and not isinstance(args[0], int) else []))
        elif isinstance(owner, SIZED) and name not in _AT_ONE and not isinstance(owner, dict):
            self.charge(owner)

    def charge_operands(self, left: Any, right: Any, *, in_place: bool) -> None:
        """Count what an operator copies."""
        if isinstance(right, SIZED):
            self.spend(_length(right))
        if isinstance(left, SIZED) and not (in_place and isinstance(left, list | dict | set)):
            self.spend(_length(left))

    def charge_compared(self, name: str, left: Any, right: Any) -> None:
        """Count what a comparison looks at."""
        if name in ("In", "NotIn"):
            is_looked_up = isinstance(right, dict | set | frozenset) or (
                isinstance(right, range) and isinstance(left, int)
            )
            self.charge(left, *([] if is_looked_up else [right]))
        elif name not in ("Is", "IsNot") and isinstance(left, SIZED):
            self.charge(left, right)

    # -- what some functions do, an item at a time

    def models(self, operate: Callable[[str, Any, Any], Any]) -> dict[str, Callable[..., Any]]:
        """Functions whose results grow beyond what they are given, by name; ``operate`` is the evaluator's own arithmetic."""
        return {
            "itertools.repeat": self._repeat,
            "itertools.product": self._product,
            "itertools.accumulate": lambda *args, **named: self._accumulate(operate, *args, **named),
            "math.factorial": _factorial,
            "math.comb": _comb,
            "math.lcm": lambda *args: self._lcm(args),
            "math.prod": lambda items, *, start=1: self._fold(lambda a, b: operate("Mult", a, b), items, start),
            **{f"operator.{name}": _bound_operator(operate, node) for name, node in _OPERATORS.items()},
        }

    def _repeat(self, value: Any, times: int | None = None) -> Iterator[Any]:
        source = itertools.repeat(value) if times is None else itertools.repeat(value, times)
        return self._counted(source)

    def _product(self, *given: Any, repeat: int = 1) -> Iterator[Any]:
        if isinstance(repeat, int):
            self.spend(
                max(repeat, 0) * sum(_length(each) for each in given if isinstance(each, SIZED)) + max(repeat, 0)
            )
        return self._counted(itertools.product(*given, repeat=repeat))

    def _counted(self, source: Iterator[Any]) -> Iterator[Any]:
        for item in source:
            self.spend(A_STEP)
            self.charge(item)
            yield item

    def _accumulate(
        self, operate: Callable[..., Any], items: Any, func: Any = None, *, initial: Any = None
    ) -> Iterator[Any]:
        added = func if func is not None else lambda left, right: operate("Add", left, right)
        return self._counted(itertools.accumulate(items, added, initial=initial))

    def _fold(self, function: Callable[[Any, Any], Any], items: Any, start: Any) -> Any:
        for item in items:
            self.spend(A_STEP)
            start = function(start, item)
        return start

    def _lcm(self, numbers: tuple[int, ...]) -> int:
        return self._fold(lambda a, b: bounded(math.lcm(a, b)), numbers, 1)  # type: ignore[no-any-return]

    def sum(self, operate: Callable[[str, Any, Any], Any], items: Any, start: Any = 0) -> Any:
        """What ``sum`` gives. Python's own adds up numbers: from 3.12 on it rounds a sum of floats once."""
        values = list(items)
        self.spend(len(values))
        if all(isinstance(value, int | float) for value in values) and isinstance(start, int | float):
            return sum(values, start)
        return self._fold(lambda left, right: operate("Add", left, right), values, start)


_OPERATORS = {
    "add": "Add", "sub": "Sub", "mul": "Mult", "truediv": "Div", "floordiv": "FloorDiv", "mod": "Mod", "and_": "BitAnd",
    "or_": "BitOr", "xor": "BitXor",
}  # fmt: skip


def _bound_operator(operate: Callable[[str, Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    return lambda left, right: operate(name, left, right)


def _length(value: Any) -> int:
    try:
        return len(value)
    except OverflowError:  # of a range
        return MOST_WORK + 1


def bounded(value: Any) -> Any:
    """The value itself, which is no number or sequence that is too large to be meant.

    Raises:
        Violation: it is.
    """
    if isinstance(value, int) and value.bit_length() > 2 * MOST_BITS:
        raise Violation("too large", f"It makes a number of more than {2 * MOST_BITS} bits.")
    if isinstance(value, str | bytes | list | tuple) and len(value) > MOST_ITEMS:
        raise Violation("too large", "It makes a sequence of more than a million items.")
    return value


def bound_operands(name: str, left: Any, right: Any) -> None:
    """Refuse an operator whose result would be too large, before it is made."""
    if name == "Mod" and isinstance(left, bytes):
        raise unproved("The evaluator formats text alone.")
    if name == "Mod" and isinstance(left, str) and _WIDE.search(left):
        raise Violation("too large", "A format asks for a width of more than four digits, or one from its values.")
    if not isinstance(right, int) and not isinstance(left, int):
        if name == "Add" and isinstance(left, str | bytes | list | tuple) and isinstance(right, type(left)):
            _bound_length(len(left) + len(right))
        return
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        if name == "Mult" and bits + right.bit_length() > 2 * MOST_BITS:
            raise Violation("too large", f"It multiplies numbers of more than {2 * MOST_BITS} bits.")
        if name == "LShift" and right > MOST_BITS:
            raise Violation("too large", f"It shifts by {right} bits.")
        if name == "Pow" and bits * abs(right) > MOST_BITS:
            raise Violation("too large", f"It raises a number to a power of more than {MOST_BITS} bits.")
    elif name == "Mult":
        count, sequence = (left, right) if isinstance(left, int) else (right, left)
        if isinstance(sequence, str | bytes | list | tuple):
            _bound_length(count * len(sequence))


def bounded_format(spec: str) -> str:
    """A format, which asks for a width of at most four digits.

    Raises:
        Violation: it asks for more.
    """
    if sum(letter.isdigit() for letter in spec) > MOST_DIGITS:
        raise Violation("too large", "A format asks for a width of more than four digits.")
    return spec


def bound_rounding(args: tuple[Any, ...]) -> None:
    """Refuse to round at a decimal place that takes a power of ten of thousands of digits."""
    if len(args) > 1 and isinstance(args[1], int) and abs(args[1]) >= 10**MOST_DIGITS:
        raise Violation("too large", f"It rounds at {args[1]} decimal places.")


def _bound_length(items: int) -> None:
    if items > MOST_ITEMS:
        raise Violation("too large", "It makes a sequence of more than a million items.")


def _factorial(number: int) -> int:
    if isinstance(number, int) and number > MOST_FACTORIAL:
        raise Violation("too large", f"It takes the factorial of a number beyond {MOST_FACTORIAL}.")
    return math.factorial(number)


def _comb(total: int, some: int) -> int:
    if isinstance(total, int) and isinstance(some, int) and 0 <= some <= total:
        bits = min(some, total - some) * total.bit_length()
        if bits > 4 * MOST_BITS:
            raise Violation("too large", "It counts combinations beyond any size of a kernel.")
    return math.comb(total, some)
