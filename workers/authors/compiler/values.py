"""Values: what a kernel computes, value-numbered so that equal computations are one object. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from workers.authors.compiler.domain import COL, ROW, SCALAR, Space
from workers.authors.compiler.graph import BOOLEAN, WHOLE

_POSITIVE = frozenset({"abs", "exp", "exp2", "sigmoid"})
_KEEP_SIGN = frozenset({"add", "mul", "div", "log1p"})
OFFSET = "cols: "  # begins the arithmetic of a scalar that moves columns
Datum = float | int | bool | str | None


@dataclass(frozen=True, eq=False)
class TileValue:
    """One number, row, column or tile.

    ``op`` is a pointwise operator, or ``load`` (``datum`` names the tensor), ``const`` (``datum`` is the number), ``scalar``
    (``datum`` is arithmetic over scalars and dimensions), ``over_cols`` or ``over_rows`` (``datum`` is sum, prod, max, min or
    argmax), ``scan`` (``datum`` is sum or prod, and whether it is the reverse one),
    ``pick`` (the element of the tensor ``datum`` at the column that the operand names), ``column`` (each column's own number),
    ``row`` (each row's own number, within its matrix where there is a batch of them), ``dot`` (the product whose node is
    ``datum``; its operand is what a chained one multiplies), ``logsumexp`` (of each row, in bits).
    """

    op: str
    args: tuple[TileValue, ...]
    datum: Datum
    space: Space
    boolean: bool = False
    integer: bool = False
    positive: bool = False  # of a load: what was stored is never negative

    @property
    def number(self) -> float | int | None:
        """A constant's number, None where the value is no constant."""
        return self.datum if self.op == "const" and isinstance(self.datum, int | float) else None


class ValueNumbering:
    """Value numbering: one object for each distinct value, so that equal computations are the same.

    ``in_order``: operations are to be carried out as they are, in the order in which they stand.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self.in_order = in_order
        self._known: dict[tuple[object, ...], TileValue] = {}

    def value(
        self,
        op: str,
        args: tuple[TileValue, ...],
        datum: Datum,
        space: Space,
        boolean: bool = False,
        integer: bool = False,
        positive: bool = False,
    ) -> TileValue:
        """The one object of a value."""
        key = (op, tuple(id(arg) for arg in args), type(datum).__name__, repr(datum), space)
        if key not in self._known:
            self._known[key] = TileValue(
                op, args, datum, space, boolean or op in BOOLEAN, integer or _stays_whole(op, args), positive
            )
        return self._known[key]

    def const(self, number: float | bool) -> TileValue:
        """A constant."""
        return self.value("const", (), number, SCALAR, isinstance(number, bool))

    def scalar(self, text: str) -> TileValue:
        """Arithmetic over scalars and dimensions."""
        return self.value("scalar", (), text, SCALAR)

    def load(
        self, name: str, space: Space, boolean: bool = False, integer: bool = False, positive: bool = False
    ) -> TileValue:
        """The elements of a tensor."""
        return self.value("load", (), name, space, boolean, integer, positive)

    def offset(self, text: str) -> TileValue:
        """Whole-number arithmetic over the number of columns."""
        return self.value("scalar", (), f"{OFFSET}{text}", SCALAR, integer=True)

    def column(self) -> TileValue:
        """The number of each column."""
        return self.value("column", (), None, COL, integer=True)

    def row(self) -> TileValue:
        """The number of each row within its matrix."""
        return self.value("row", (), None, ROW, integer=True)

    def pick(self, load: TileValue, index: TileValue) -> TileValue:
        """The element of each row of a tensor at a column of its own, or its elements at other columns."""
        space = Space(load.space.rows or index.space.rows, index.space.cols)
        return self.value("pick", (index,), load.datum, space, load.boolean, load.integer)

    def pointwise(self, op: str, *args: TileValue) -> TileValue:
        """An operation, not simplified."""
        space = SCALAR
        for arg in args:
            space = space.joined(arg.space)
        return self.value(op, args, None, space, op == "where" and all(arg.boolean for arg in args[1:]))

    def over_cols(self, kind: str, arg: TileValue) -> TileValue:
        """Reduce each row to a number."""
        return self.value("over_cols", (arg,), kind, Space(arg.space.rows, False), integer=kind == "argmax")

    def scan(self, kind: str, arg: TileValue, reverse: bool) -> TileValue:
        """Combine each element of a row with all before it, or all after it."""
        return self.value("scan", (arg,), f"{kind} reverse" if reverse else kind, arg.space)

    def over_rows(self, kind: str, arg: TileValue) -> TileValue:
        """Reduce each column, or the numbers of all rows, to one."""
        return self.value("over_rows", (arg,), kind, Space(False, arg.space.cols))


def _stays_whole(op: str, args: tuple[TileValue, ...]) -> bool:
    if op not in WHOLE:
        return False
    counted = args[1:] if op == "where" else args
    whole = all(arg.integer or isinstance(arg.number, int) for arg in counted)
    return whole and any(arg.integer for arg in counted)


def never_negative(value: TileValue) -> bool:
    """Whether a value is NaN or a number without a minus sign, whatever is computed from: no -0.0 either."""
    if value.number is not None:
        return math.copysign(1.0, value.number) > 0
    if value.op == "where":
        condition, yes, no = value.args
        limit = condition.args[1].number if condition.op == "gt" and condition.args[0] is yes else None
        return never_negative(no) and (never_negative(yes) or (limit is not None and limit >= 0))
    if value.op == "mul" and value.args[0] is value.args[1]:
        return True
    if value.op == "sub":  # a probability from one
        whole, part = value.args
        return (whole.number or 0) >= 1 and part.op == "exp" and never_positive(part.args[0])
    if value.op == "log":
        return _is_sum_of_powers(value.args[0])
    return value.positive or value.op in _POSITIVE or (value.op in _KEEP_SIGN and all(map(never_negative, value.args)))


def never_positive(value: TileValue) -> bool:
    """Whether a value is NaN or at most zero, whatever is computed from, as the logarithm of a softmax is."""
    if value.op != "sub":
        return False
    left, right = value.args
    row = _row_of_largest(right)
    if row is not None:
        return left is row or (left.op == "pick" and row.op == "load" and left.datum == row.datum)
    return never_positive(left) and never_negative(right)


def _is_sum_of_powers(value: TileValue) -> bool:
    """Whether a value is a sum over a row in which the largest element adds one, and no other less than zero."""
    if value.op != "over_cols" or value.datum != "sum" or value.args[0].op != "exp":
        return False
    (below,) = value.args[0].args
    return below.op == "sub" and _row_of_largest(below.args[1]) is below.args[0]


def _row_of_largest(value: TileValue) -> TileValue | None:
    return value.args[0] if value.op == "over_cols" and value.datum == "max" else None


def topological(roots: Iterable[TileValue]) -> list[TileValue]:
    """Every value that the roots need in topological order, operands first."""
    done: dict[TileValue, None] = {}
    waiting: list[tuple[TileValue, bool]] = [(root, False) for root in reversed(list(roots))]
    while waiting:
        value, expanded = waiting.pop()
        if value in done:
            continue
        if expanded:
            done[value] = None
            continue
        waiting.append((value, True))
        waiting.extend((arg, False) for arg in reversed(value.args))
    return list(done)


def use_counts(roots: Iterable[TileValue]) -> dict[TileValue, int]:
    """Count how often each value is an operand or a root."""
    roots = list(roots)
    counts: dict[TileValue, int] = dict.fromkeys(topological(roots), 0)
    for value in list(counts):
        for arg in value.args:
            counts[arg] += 1
    for root in roots:
        counts[root] += 1
    return counts


def rewritten(
    numbering: ValueNumbering, roots: list[TileValue], replacement: Callable[[TileValue], TileValue | None]
) -> list[TileValue]:
    """The roots, rebuilt with values in them replaced."""
    done: dict[TileValue, TileValue] = {}
    for value in _descending(roots, replacement):
        new = replacement(value)
        if new is None and value.args:
            new = numbering.value(
                value.op, tuple(done[arg] for arg in value.args), value.datum, value.space, value.boolean, value.integer
            )
        done[value] = new or value
    return [done[root] for root in roots]


def _descending(roots: list[TileValue], replacement: Callable[[TileValue], TileValue | None]) -> list[TileValue]:
    """The values to rebuild in topological order, without what is below a replaced one."""
    done: dict[TileValue, None] = {}
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        value, expanded = waiting.pop()
        if expanded or value in done:
            done.setdefault(value)
            continue
        waiting.append((value, True))
        if replacement(value) is None:
            waiting.extend((arg, False) for arg in reversed(value.args))
    return list(done)
