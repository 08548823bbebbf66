"""Which decisions of a candidate were seen with both outcomes: what is done on the other side of one was never judged.

A decision is a condition, a comparison, a choice by ``min`` or ``max``, a look-up, a number that may be zero, or whatever else is
computed of values that change and might change itself, in host code or, where Triton's interpreter runs it, in a kernel. One
counts where it depends on what a call was given: a mode that the file itself fixes is no decision.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

import torch

from gpu_runner.messages import MOST_DECISIONS, MOST_SIGNED, MOST_TOLD, KernelOutcomes, Outcomes, Place, Ranges
from gpu_runner.program.objects import Violation, unproved
from gpu_runner.program.scopes import names_in

MOST_LETTERS = 100
_LEFT_OUT = "…"
MOST_ITEMS = 64  # of a tuple that is looked at
MOST_DEPTH = 3  # of containers in each other
ALIKE = 1e-6  # of a number: as far apart are two that a sum in another order gives
_CUT = "cut at its"
UNCHANGED = "anything but its first value"  # of a remainder, or of what a mask leaves
_ROOTS = frozenset(["sqrt", "rsqrt", "float", "pow", "abs", "fabs", "prod"])
HELD, FAILED, BOTH = 1, 2, 3  # outcomes, which are added up
UNSEEN, VARIES, OPAQUE = object(), object(), object()  # of a value: none yet, more than one, none that is compared
_PLAIN = (bool, int, float, complex, str)  # a tuple, which is looked through faster than a union
_IMMUTABLE = (*_PLAIN, bytes, type(None), torch.dtype, torch.device, Enum)
_CONTAINERS = (tuple, list, dict, set, frozenset)


@dataclass
class Lanes:
    """An operation at one place, of a kernel or of what native code calls: its first result and operands, each VARIES once it had
    another value."""

    operation: str
    result: Any = None
    operands: list[Any] = field(default_factory=list)


@dataclass
class Decisions:
    """What was decided how so far, by place, and what was computed."""

    outcomes: dict[Place, int] = field(default_factory=dict)
    # By kernel, the parameters whose values no call has anything to do with.
    fixed: dict[str, frozenset[str]] = field(default_factory=dict)
    # Outcomes of lanes that do not count, for places at which none ever does.
    aside: dict[Place, int] = field(default_factory=dict)
    # By expression of host code, its value, or VARIES.
    values: dict[ast.expr, Any] = field(default_factory=dict)
    # Those that compute with what the call was given, by the path of their file.
    computed: dict[ast.expr, str] = field(default_factory=dict)
    # By expression of host code, the least and the largest number with a fraction that it gave.
    fractions: dict[ast.expr, tuple[float, float]] = field(default_factory=dict)
    lanes: dict[tuple[Place, str], Lanes] = field(default_factory=dict)
    # By cached function and place in its arguments, the type of the numbers there, on whatever device a case tells of.
    cached: dict[object, type] = field(default_factory=dict)
    is_paused: bool = False  # of kernels nothing is noted

    def add(self, path: str, node: ast.expr | ast.pattern, outcome: int, what: str = "") -> None:
        """Add an outcome of host code: that an expression is true, or is ``what``."""
        self.add_at(place_of(path, node, what), outcome)

    def add_at(self, place: Place, outcome: int) -> None:
        """Add an outcome at a place."""
        if place not in self.outcomes and len(self.outcomes) >= MOST_DECISIONS:
            raise _too_many()
        self.outcomes[place] = self.outcomes.get(place, 0) | outcome

    def see(self, node: ast.expr, value: Any) -> None:
        """Note the value of an expression of host code."""
        self.values[node] = join_value(self.values.get(node, UNSEEN), value)
        if isinstance(value, float) and value == value:
            least, most = self.fractions.get(node, (value, value))
            self.fractions[node] = min(least, value), max(most, value)

    def operate(self, place: Place, operation: str, operands: Sequence[Any], result: Any) -> None:
        """Note what an operation of host code that is no expression made of its operands."""
        lanes = self.lanes.setdefault((place, operation), Lanes(operation, UNSEEN, [UNSEEN] * len(operands)))
        lanes.result = join_value(lanes.result, result)
        lanes.operands = [join_value(known, each) for known, each in zip(lanes.operands, operands, strict=False)]

    def cut(self, place: Place, end: str, bound: int, size: int) -> None:
        """Note whether an end of a slice is moved to that of its sequence, beyond which its bound lies."""
        self.operate(place, f"{_CUT} {end}", (bound, size), (bound if bound >= 0 else -bound) > size)

    def launches(self, kernel: str, parameters: set[str]) -> None:
        """Note which parameters of a launch are fixed; one that ever is not stays so."""
        self.fixed[kernel] = frozenset(self.fixed.get(kernel, parameters) & parameters)

    def constants(self) -> Iterator[Place]:
        """Where something was computed of values that changed, and never changed itself."""
        for node, path in self.computed.items():
            value = self.values[node]
            never_zero = place_of(path, node, "not zero")  # a decision of its own
            if value is not VARIES and not (not value and never_zero in self.outcomes):
                operands = [self._operand(part) for part in _operands(node)]
                operation = type(node.op).__name__ if isinstance(node, ast.BinOp) else ""
                if VARIES in operands and not _is_absorbed(operation, operands):
                    yield place_of(path, node, f"anything but {value!r}")
        yield from self._unchanged().values()

    def _unchanged(self) -> dict[tuple[Place, str], Place]:
        """The operations among these, each with what is said of it."""
        unchanged: dict[tuple[Place, str], Place] = {}
        for key, lanes in self.lanes.items():
            (*where, text), operation = key
            is_computed = lanes.result is not VARIES and VARIES in lanes.operands
            if not is_computed or _is_absorbed(operation, lanes.operands):
                continue
            if operation.startswith(_CUT):  # one that never is may be so by its bound, as half of a row
                if lanes.result or lanes.operands[1] is not VARIES:
                    unchanged[key] = (*where, f"{text} is {'not ' * bool(lanes.result)}{operation}")  # type: ignore[assignment]
            else:
                unchanged[key] = (*where, f"{text} is anything but {lanes.result}")  # type: ignore[assignment]
        return unchanged

    def of_kernels(self) -> KernelOutcomes:
        """What outcomes of kernels are joined by with those of other processes: of the values of operations as many as are told."""
        given = ((*key, lanes.result) for key, lanes in self.lanes.items() if key[0][3] and lanes.result is not UNSEEN)
        return KernelOutcomes(
            tuple(place for place in self.aside.keys() - self.outcomes.keys() if place[3]),
            tuple((*place, operation, said[-1]) for (place, operation), said in self._unchanged().items() if place[3]),
            tuple((*place, operation, _told(value)) for place, operation, value in itertools.islice(given, MOST_TOLD)),
        )

    def signature(self) -> tuple[tuple[int, int], ...]:
        """What host code decided, and the numbers and texts that it computed of what it was given, as digests of this process."""
        numbers = ((path, node, self.values.get(node, UNSEEN)) for node, path in self.computed.items())
        values = [(place_of(path, node), value) for path, node, value in numbers if is_plain(value)]
        told = itertools.islice((*self.outcomes.items(), *values), MOST_SIGNED)
        return tuple((hash(key), hash(value)) for key, value in told)

    def ranges(self) -> Ranges:
        """Between which numbers those with a fraction lay that host code computed of what it was given, by place."""
        given = ((place_of(path, node), self.fractions.get(node)) for node, path in self.computed.items())
        return tuple((*place, *ends) for place, ends in itertools.islice(given, MOST_SIGNED) if ends is not None)

    def beyond(self, ranges: Iterable[Sequence[Any]]) -> Iterator[tuple[str, int, str, float, float, float]]:
        """Numbers that host code computes at other sizes, in any process, not seen here, and that go with sizes as no product does.

        A product, quotient or power of sizes is at all sizes what it is at few, unless it comes closer to one: then it had little
        effect in all cases, and has more. A sum, or a function, may be anything elsewhere. By path, line and text, with the number
        and those between which it was seen.
        """
        known = {place_of(path, node): node for node, path in self.computed.items()}
        for path, line, column, in_kernel, text, *numbers in ranges:
            node = known.get((path, line, column, in_kernel, text))
            if node is None:
                continue
            least, most = self.fractions.get(node, (math.nan, math.nan))
            for number in numbers:
                is_new = number < least - ALIKE * abs(least) or number > most + ALIKE * abs(most)
                if is_new and not (_is_product(node) and _goes_away_from_one(number, least, most)):
                    yield path, line, text, number, least, most
                    break

    def _operand(self, node: ast.AST, items: frozenset[str] = frozenset()) -> Any:
        """The value of an operand where it never had another, else VARIES; ``items``: names that a comprehension goes through."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.GeneratorExp):
            items |= frozenset().union(*(names_in(each.target) for each in node.generators))
        value = self.values.get(node, UNSEEN) if isinstance(node, ast.expr) else UNSEEN
        if value is not UNSEEN and value is not OPAQUE and not (items and items & names_in(node)):
            return value
        parts = ast.iter_child_nodes(node)
        return VARIES if any(self._operand(part, items) is VARIES for part in parts) else OPAQUE

    @contextmanager
    def aside_in(self, other: Decisions) -> Iterator[None]:
        """Note what is decided meanwhile in another one."""
        names = [each.name for each in fields(self) if each.name != "is_paused"]
        known = {name: getattr(self, name) for name in names}
        vars(self).update({name: getattr(other, name) for name in names})
        try:
            yield
        finally:
            vars(self).update(known)

    @contextmanager
    def undone_by_errors(self) -> Iterator[None]:
        """Forget what is noted meanwhile where it ends with an exception: what was decided there was never judged."""
        names = [each.name for each in fields(self) if each.name != "is_paused"]
        known = {name: dict(getattr(self, name)) for name in names}
        lanes = {key: replace(each, operands=[*each.operands]) for key, each in self.lanes.items()}
        try:
            yield
        except BaseException:
            for name, value in (known | {"lanes": lanes}).items():
                setattr(self, name, value)
            raise

    def rows(self, besides: Decisions | None = None) -> Outcomes:
        """Each place with its outcome, but for what was decided or computed ``besides`` too."""
        other = besides or Decisions()
        alone = replace(
            self,
            computed={node: path for node, path in self.computed.items() if node not in other.computed},
            lanes={key: lanes for key, lanes in self.lanes.items() if key not in other.lanes},
        )
        rows = [*(self.aside | self.outcomes).items(), *((place, FAILED) for place in alone.constants())]
        rows = [row for row in rows if row[0] not in other.outcomes]
        if len(rows) > MOST_DECISIONS:  # none may be left out: it could be the one that matters
            raise _too_many()
        return tuple((*place, outcome) for place, outcome in rows)


def _too_many() -> Violation:
    return unproved(f"It decides in more than {MOST_DECISIONS:,} places.")


def place_of(path: str, node: ast.expr | ast.pattern, what: str = "", via: str | None = None) -> Place:
    """The place of a decision: that an expression is true, or is ``what``; in a kernel with how it is reached (``via``)."""
    role = f" is {what}" if what else ""
    return path, node.lineno, node.col_offset, via is not None, f"{text_of(node)}{via or ''}{role}"


def is_plain(value: Any) -> bool:
    """Whether a value is a number or text."""
    return isinstance(value, _PLAIN)


def is_known(value: Any) -> bool:
    """Whether a value is a number or text, or a container of such alone, so that it is seen whether it changes."""
    if isinstance(value, tuple | list | set | frozenset | dict):
        return not _has_opaque(_comparable(value))
    return is_plain(value)


def _has_opaque(known: Any) -> bool:
    return known is OPAQUE or (isinstance(known, tuple) and any(map(_has_opaque, known)))


def join_value(known: Any, value: Any) -> Any:
    """What is known of an expression once it had a value too: that it never had another one, or VARIES."""
    if known is VARIES:
        return known
    now = _comparable(value)
    return now if known is UNSEEN or known == now else VARIES


def _comparable(value: Any, depth: int = MOST_DEPTH) -> Any:
    """What two values of one expression are compared by, of many items how many they are; OPAQUE for tensors and other objects."""
    if isinstance(value, tuple | list | dict) and len(value) <= MOST_ITEMS and depth:
        return tuple(_comparable(item, depth - 1) for item in (value.items() if isinstance(value, dict) else value))
    if isinstance(value, set | frozenset) and len(value) <= MOST_ITEMS:
        return frozenset(item for item in value if isinstance(item, _IMMUTABLE))
    if isinstance(value, slice | range):  # two empty ranges are equal
        return type(value), value.start, value.stop, value.step
    if isinstance(value, _CONTAINERS):
        return type(value), len(value)
    if not isinstance(value, _IMMUTABLE):
        return OPAQUE
    return value if value == value else "nan"


def _is_product(node: ast.expr) -> bool:
    """Whether an expression is a product, quotient, power or root, or a conversion of one."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mult | ast.Div | ast.Pow)
    name = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, ast.UnaryOp) or getattr(name, "attr", getattr(name, "id", "")) in _ROOTS


def _goes_away_from_one(number: float, least: float, most: float) -> bool:
    """Whether a number lies beyond others on the side of one on which they lie too."""
    low, high = sorted((abs(least), abs(most)))
    size = abs(number)
    return math.isfinite(size) and (size > high >= 1.0 or 0.0 < size < low <= 1.0)


def _operands(node: ast.expr) -> Iterable[ast.AST]:
    """What an expression computes with; of a look-up, the key."""
    if isinstance(node, ast.Subscript):
        return (node.slice,)
    return (part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.operator))


def _is_absorbed(operation: str, operands: Sequence[Any]) -> bool:
    """Whether an operand that never changed makes the result, whatever the other is: a factor zero, a remainder of one."""
    if operation in ("Mult", "BitAnd", "multiply", "bitwise_and"):
        return any(_is_number(operand, 0) for operand in operands)
    first, last = operands[0], operands[-1]
    if operation in ("Mod", "fmod"):
        return _is_number(first, 0) or _is_number(last, 1)
    divisions = ("Div", "FloorDiv", "LShift", "RShift", "divide", "floor_divide", "left_shift", "right_shift")
    return operation in divisions and _is_number(first, 0)


def _told(value: Any) -> str:
    """A value in the words of all processes."""
    return "varies" if value is VARIES else "an object" if value is OPAQUE else repr(value)


def _is_number(value: Any, number: int) -> bool:
    return value is not VARIES and not isinstance(value, str) and bool(value == number)


@functools.cache
def text_of(node: ast.expr | ast.pattern) -> str:
    """An expression or pattern as decisions quote it: no two that begin at the same place are quoted alike."""
    text = ast.unparse(node)
    left = len(text) - MOST_LETTERS
    return f"`{text}`" if left <= 0 else f"`{text[:MOST_LETTERS]}{_LEFT_OUT} {left} more`"


def quoted_in(message: str) -> str:
    """The text that a message quotes first, as far as ``text_of`` quotes it."""
    return message.partition("`")[2].partition("`")[0].partition(_LEFT_OUT)[0]
