"""Sums that follow a running maximum, so that a row is read once for both (Milakov and Gimelshein, 2018). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workers.authors.compiler.values import Value, ordered


def online_maxima(values: Sequence[Value]) -> dict[Value, Value]:
    """Give the sums that can be kept up while the maximum in them is still growing, each with its maximum.

    Every term of such a sum is a product with ``exp(x - maximum)`` and nothing else in it needs a reduction that comes as late.
    """
    levels = levels_of(values)
    found: dict[Value, Value] = {}
    for value in values:
        if value.op != "over_cols" or value.datum != "sum":
            continue
        below = [v for v in ordered(value.args) if v.op == "over_cols" and levels[v] == levels[value] - 1]
        if len(below) == 1 and below[0].datum == "max" and _scales(value.args[0], below[0]):
            found[value] = below[0]
    return found


def levels_of(values: Sequence[Value], online: dict[Value, Value] | None = None) -> dict[Value, int]:
    """Give how many passes over a row each value comes after; a sum that is kept up with another shares its pass."""
    levels: dict[Value, int] = {}
    for value in values:
        below = max((levels[arg] for arg in value.args), default=0)
        shared = (online or {}).get(value)
        levels[value] = levels[shared] if shared is not None else below + (value.op == "over_cols")
    return levels


def _scales(value: Value, top: Value) -> bool:
    """Tell whether a value is multiplied by ``exp(a - b)`` where the maximum goes from b to a lower one, a."""
    if value.op == "exp":
        return _shifts(value.args[0], top)
    if value.op in {"neg", "add", "sub", "rounded"}:
        return all(_scales(arg, top) for arg in value.args)
    if value.op == "mul":
        return any(_scales(one, top) and not _holds(two, top) for one, two in (value.args, value.args[::-1]))
    if value.op == "div":
        return _scales(value.args[0], top) and not _holds(value.args[1], top)
    if value.op == "where":
        condition, yes, no = value.args
        return not _holds(condition, top) and all(arm.number == 0 or _scales(arm, top) for arm in (yes, no))
    return False


def _shifts(value: Value, top: Value) -> bool:
    if value.op == "rounded":
        return _shifts(value.args[0], top)  # rounded about the maximum so far, which is as near as about the last one
    if value.op == "sub":
        left, right = value.args
        if right is top:
            return not _holds(left, top)
        return _shifts(left, top) and not _holds(right, top)
    if value.op == "add":
        return any(_shifts(one, top) and not _holds(two, top) for one, two in (value.args, value.args[::-1]))
    return False


def _holds(value: Value, wanted: Value) -> bool:
    return wanted in ordered([value])
