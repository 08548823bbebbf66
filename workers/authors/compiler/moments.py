"""Sums of squares about a mean, taken in the pass that takes the mean. Pure.

Each lane shifts its elements by its first one. What cancels is then at most as many times the lane's own sum of squares as the
lane has elements, whatever their offset: the first element's distance from the lane's mean is part of that sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workers.authors.compiler.naming import Names
from workers.authors.compiler.statements import Statements
from workers.authors.compiler.values import Value, ordered


@dataclass(frozen=True)
class Moments:
    """The sum over a row of ``column``, and that of its squares about ``mean``, which is computed from the sum."""

    column: Value
    total: Value
    mean: Value
    squares: Value


def moments_of(values: Sequence[Value], others: Sequence[Value]) -> dict[Value, Moments]:
    """Give the sums of squares that need no pass of their own, by their value; ``others`` are taken in another way."""
    found: dict[Value, Moments] = {}
    for squares in values:
        if squares.op != "over_cols" or squares.datum != "sum" or squares in others:
            continue
        product = squares.args[0]
        if product.op != "mul" or product.args[0] is not product.args[1] or product.args[0].op != "sub":
            continue
        column, mean = product.args[0].args
        below = [value for value in ordered([mean]) if value.op == "over_cols"]
        single = len(below) == 1 and below[0].datum == "sum" and below[0].args == (column,)
        taken = [moments.total for moments in found.values()]
        if single and not mean.space.cols and below[0] not in others and below[0] not in taken:
            found[squares] = Moments(column, below[0], mean, squares)
    return found


def opening_lines(total: str, squares: str, block: str) -> list[str]:
    """Begin the sums of every lane."""
    names = (f"{total}_shift", f"{total}_block", f"{squares}_block", f"{total}_count")
    return [f"{name} = tl.zeros({block}, dtype=tl.float32)" for name in names]


def block_lines(total: str, squares: str, column: str, first: str) -> list[str]:
    """Take a block in; ``first`` says that it is the row's first, of which every lane that has elements has one."""
    return [
        f"{total}_shift = tl.where(mask & ({first}), {column}, {total}_shift)",
        f"{total}_shifted = tl.where(mask, {column} - {total}_shift, 0.0)",
        f"{total}_block += {total}_shifted",
        f"{squares}_block += {total}_shifted * {total}_shifted",
        f"{total}_count += tl.where(mask, 1.0, 0.0)",
    ]


def bring_together(body: Statements, names: Names, found: Moments) -> None:
    """Add up what the lanes hold: each sum of squares moves from its lane's own mean to the row's."""
    total, squares = names.of(found.total), names.of(found.squares)
    body.line(f"{total} = tl.sum({total}_block + {total}_count * {total}_shift)")
    body.env[found.total] = total
    mean = body.env.get(found.mean) or body.assign(found.mean)
    body.line(f"{total}_offset = {total}_block / tl.maximum({total}_count, 1.0)")
    body.line(f"{squares}_block -= {total}_block * {total}_offset")
    body.line(f"{total}_offset += {total}_shift - {mean}")
    body.line(f"{squares} = tl.sum({squares}_block + {total}_count * {total}_offset * {total}_offset)")
    body.env[found.squares] = squares
