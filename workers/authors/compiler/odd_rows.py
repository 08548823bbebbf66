"""Largest and smallest elements of rows that hold NaN, which a reduction on a GPU passes over and torch does not. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from workers.authors.compiler.values import Value


def loses_nan(value: Value, values: Sequence[Value]) -> bool:
    """Tell whether the NaN of a row would be lost with its largest or smallest element.

    Where exponentials are taken about it, as in a softmax, it is in their sum.
    """
    if value.op != "over_cols" or value.datum not in {"max", "min"}:
        return False
    shifted = {user for user in values if user.op == "sub" and user.args[1] is value}
    return not any(user.op == "exp" and user.args[0] in shifted for user in values)


def with_nan(name: str, elements: str, how: str) -> str:
    """Write the statement that puts NaN in its place; ``how`` are the other arguments of the reduction."""
    odd = f"tl.max(tl.where({elements} == {elements}, 0, 1){how})"
    return f'{name} = tl.where({odd} == 1, float("nan"), {name})'
