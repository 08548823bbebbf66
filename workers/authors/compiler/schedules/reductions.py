"""Reductions over a row: NaN, running maxima, moments in one pass. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.statements import ScopeStatements
from workers.authors.compiler.values import TileValue, topological


def loses_nan(value: TileValue, values: Sequence[TileValue]) -> bool:
    """Whether the NaN of a row would be lost with its largest or smallest element.

    Where exponentials are taken about it, as in a softmax, it is in their sum.
    """
    if value.op != "over_cols" or value.datum not in {"max", "min"}:
        return False
    shifted = {user for user in values if user.op == "sub" and user.args[1] is value}
    return not any(user.op == "exp" and user.args[0] in shifted for user in values)


def argmax_lines(name: str, elements: str) -> list[str]:
    """Write the statements that find the first of the largest elements of each row; NaN is larger than any number, as in torch."""
    return [
        f"{name}_odd = tl.where({elements} == {elements}, 0, 1)",
        f"{name} = tl.argmax({elements}, axis=1, keep_dims=True)",
        f"{name}_first_odd = tl.argmax({name}_odd, axis=1, keep_dims=True)",
        f"{name} = tl.where(tl.max({name}_odd, axis=1, keep_dims=True) == 1, {name}_first_odd, {name})",
    ]


def place_lines(name: str, elements: str) -> list[str]:
    """Statements by which each lane keeps its largest element so far, and the first column that has it."""
    is_nan = f"({name}_next != {name}_next) & ({name}_block == {name}_block)"
    return [
        f"{name}_next = {elements}",
        f"{name}_grows = ({name}_next > {name}_block) | ({is_nan})",
        f"{name}_place = tl.where({name}_grows, cols, {name}_place)",
        f"{name}_block = tl.where({name}_grows, {name}_next, {name}_block)",
    ]


def largest_lines(name: str, across: str) -> list[str]:
    """Write the statements that tell which lanes have the largest element of the row; ``across`` ends a reduction's arguments."""
    return [
        f"{name}_odd = {name}_block != {name}_block",
        f'{name}_top = tl.max(tl.where({name}_odd, -float("inf"), {name}_block){across})',
        f"{name}_any = tl.max(tl.where({name}_odd, 1, 0){across})",
        f"{name}_largest = tl.where({name}_any == 1, {name}_odd, {name}_block == {name}_top)",
    ]


def with_nan(name: str, elements: str, how: str) -> str:
    """Write the statement that puts NaN in its place; ``how`` are the other arguments of the reduction."""
    has_nan = f"tl.max(tl.where({elements} == {elements}, 0, 1){how})"
    return f'{name} = tl.where({has_nan} == 1, float("nan"), {name})'


def online_maxima(values: Sequence[TileValue]) -> dict[TileValue, TileValue]:
    """The sums that can be rescaled while the maximum in them still grows, each with its maximum.

    Every term of such a sum is a product with ``exp(x - maximum)``, and nothing else in it needs a reduction that comes as late.
    """
    levels = levels_of(values)
    maxima: dict[TileValue, TileValue] = {}
    for value in values:
        if value.op != "over_cols" or value.datum != "sum":
            continue
        below = [v for v in topological(value.args) if v.op == "over_cols" and levels[v] == levels[value] - 1]
        if len(below) == 1 and below[0].datum == "max" and _scales(value.args[0], below[0]):
            maxima[value] = below[0]
    return maxima


def levels_of(values: Sequence[TileValue], online: dict[TileValue, TileValue] | None = None) -> dict[TileValue, int]:
    """How many passes over a row each value comes after; a sum that is kept up with another shares its pass."""
    levels: dict[TileValue, int] = {}
    for value in values:
        below = max((levels[arg] for arg in value.args), default=0)
        shared = (online or {}).get(value)
        levels[value] = levels[shared] if shared is not None else below + (value.op == "over_cols")
    return levels


def _scales(value: TileValue, top: TileValue) -> bool:
    """Whether a value is multiplied by ``exp(a - b)`` where the maximum goes from b to a lower one, a."""
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


def _shifts(value: TileValue, top: TileValue) -> bool:
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


def _holds(value: TileValue, wanted: TileValue) -> bool:
    return wanted in topological([value])


@dataclass(frozen=True)
class Moments:
    """The sum over a row of ``column``, and that of its squares about ``mean``, which is computed from the sum."""

    column: TileValue
    total: TileValue
    mean: TileValue
    squares: TileValue


def moments_of(values: Sequence[TileValue], others: Sequence[TileValue]) -> dict[TileValue, Moments]:
    """The sums of squares that need no pass of their own, by their value; ``others`` are taken in another way."""
    by_squares: dict[TileValue, Moments] = {}
    for squares in values:
        if squares.op != "over_cols" or squares.datum != "sum" or squares in others:
            continue
        product = squares.args[0]
        if product.op != "mul" or product.args[0] is not product.args[1] or product.args[0].op != "sub":
            continue
        column, mean = product.args[0].args
        below = [value for value in topological([mean]) if value.op == "over_cols"]
        single = len(below) == 1 and below[0].datum == "sum" and below[0].args == (column,)
        taken = [moments.total for moments in by_squares.values()]
        if single and not mean.space.cols and below[0] not in others and below[0] not in taken:
            by_squares[squares] = Moments(column, below[0], mean, squares)
    return by_squares


def opening_lines(total: str, squares: str, block: str) -> list[str]:
    """Begin the mean, the squares about it and the number of elements of every lane."""
    names = (f"{total}_mean", f"{squares}_block", f"{total}_count")
    return [f"{name} = tl.zeros({block}, dtype=tl.float32)" for name in names]


def block_lines(total: str, squares: str, column: str, share: str) -> list[str]:
    """Accumulate a block; ``share`` is one over the number of elements that a lane has with this one.

    Each lane's mean moves with it: about a fixed one, such as the lane's first element, the squares of many blocks cancel.
    Source: B. P. Welford, Note on a method for calculating corrected sums of squares and products, Technometrics 4 (1962).
    """
    return [
        f"{total}_count += tl.where(mask, 1.0, 0.0)",
        f"{total}_ahead = tl.where(mask, {column} - {total}_mean, 0.0)",
        f"{total}_step = {total}_ahead * ({share})",
        f"{total}_mean += {total}_step",
        f"{squares}_block += {total}_ahead * ({total}_ahead - {total}_step)",
    ]


def bring_together(body: ScopeStatements, names: TensorNames, moments: Moments, across: str) -> None:
    """Add up what the lanes hold, ``across`` them: each sum of squares moves from its lane's own mean to the row's."""
    total, squares = names.of(moments.total), names.of(moments.squares)
    body.line(f"{total} = tl.sum({total}_count * {total}_mean{across})")
    body.env[moments.total] = total
    mean = body.env.get(moments.mean) or body.assign(moments.mean)
    body.line(f"{total}_offset = {total}_mean - {mean}")
    body.line(f"{squares} = tl.sum({squares}_block + {total}_count * {total}_offset * {total}_offset{across})")
    body.env[moments.squares] = squares
