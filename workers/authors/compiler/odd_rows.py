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


def argmax_lines(name: str, elements: str) -> list[str]:
    """Write the statements that find the first of the largest elements of each row; NaN is larger than any number, as in torch."""
    return [
        f"{name}_odd = tl.where({elements} == {elements}, 0, 1)",
        f"{name} = tl.argmax({elements}, axis=1, keep_dims=True)",
        f"{name}_first_odd = tl.argmax({name}_odd, axis=1, keep_dims=True)",
        f"{name} = tl.where(tl.max({name}_odd, axis=1, keep_dims=True) == 1, {name}_first_odd, {name})",
    ]


def place_lines(name: str, elements: str) -> list[str]:
    """Write the statements by which each lane keeps its largest element so far, and the first column that has it."""
    odd = f"({name}_next != {name}_next) & ({name}_block == {name}_block)"
    return [
        f"{name}_next = {elements}",
        f"{name}_grows = ({name}_next > {name}_block) | ({odd})",
        f"{name}_place = tl.where({name}_grows, cols, {name}_place)",
        f"{name}_block = tl.where({name}_grows, {name}_next, {name}_block)",
    ]


def largest_lines(name: str) -> list[str]:
    """Write the statements that tell which lanes have the largest element of the row."""
    return [
        f"{name}_odd = {name}_block != {name}_block",
        f'{name}_top = tl.max(tl.where({name}_odd, -float("inf"), {name}_block))',
        f"{name}_any = tl.max(tl.where({name}_odd, 1, 0))",
        f"{name}_largest = tl.where({name}_any == 1, {name}_odd, {name}_block == {name}_top)",
    ]


def with_nan(name: str, elements: str, how: str) -> str:
    """Write the statement that puts NaN in its place; ``how`` are the other arguments of the reduction."""
    odd = f"tl.max(tl.where({elements} == {elements}, 0, 1){how})"
    return f'{name} = tl.where({odd} == 1, float("nan"), {name})'
