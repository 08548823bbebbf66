"""What the lanes outside of the mask hold, so that a reduction is masked only where it must be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from workers.authors.compiler.values import Value


class Lane(Enum):
    """What is known of a value outside of the mask."""

    zero = "zero"
    finite = "finite"
    negative_infinity = "negative infinity"
    unknown = "unknown"


# Functions that are zero at zero, and finite where their operand is.
_MILD = frozenset(
    ["neg", "abs", "relu", "sign", "floor", "ceil", "round", "trunc", "sin", "erf", "tanh", "libdevice_tanh"]
)
_BOUNDED = _MILD | {"cos", "sigmoid", "add", "sub", "mul", "maximum", "minimum", "where"}
_KEEP_ZERO = _MILD | {"sqrt", "expm1", "log1p"}


def outside(value: Value, others: Mapping[str, Lane], whole_rows: bool, known: dict[Value, Lane] | None = None) -> Lane:
    """Give what a value holds outside of the mask.

    ``others`` says what loads give there where it is not zero. ``whole_rows`` looks at lanes of rows past the last one, else at
    lanes past the last column of a row that is there.
    """
    known = {} if known is None else known
    if value not in known:
        known[value] = _outside(value, others, whole_rows, known)
    return known[value]


def _outside(value: Value, others: Mapping[str, Lane], whole_rows: bool, known: dict[Value, Lane]) -> Lane:
    inside = not value.space.rows if whole_rows else not value.space.cols
    if value.op == "load" and not inside:
        return others.get(str(value.datum), Lane.zero)
    if value.number is not None:
        return Lane.zero if value.number == 0 else Lane.finite if abs(value.number) != float("inf") else Lane.unknown
    if inside or value.boolean:
        return Lane.finite
    lanes = [outside(arg, others, whole_rows, known) for arg in value.args]
    if value.op == "over_cols":
        return lanes[0] if value.datum == "sum" and lanes[0] in {Lane.zero, Lane.finite} else Lane.unknown
    if value.op == "where" and lanes[1] == lanes[2]:
        return lanes[1]
    return _pointwise(value.op, lanes)


def _pointwise(op: str, lanes: list[Lane]) -> Lane:
    if op == "rounded":
        return lanes[0]
    calm = all(lane in {Lane.zero, Lane.finite} for lane in lanes)
    if op == "mul" and calm and Lane.zero in lanes:
        return Lane.zero
    if op == "exp":
        return {Lane.negative_infinity: Lane.zero}.get(lanes[0], Lane.finite if calm else Lane.unknown)
    if op in {"add", "sub"} and lanes[0] is Lane.negative_infinity and lanes[1] in {Lane.zero, Lane.finite}:
        return Lane.negative_infinity
    if op in {"add", "sub", "maximum", "minimum"} and all(lane is Lane.zero for lane in lanes):
        return Lane.zero
    if op in _KEEP_ZERO and lanes[0] is Lane.zero:
        return Lane.zero
    return Lane.finite if op in _BOUNDED and calm else Lane.unknown
