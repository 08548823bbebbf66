"""Arithmetic over dimension and scalar names: the text of an `Expr`, evaluated without running anything. Pure."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping

from gpu_runner.contracts.reading import UNPARSABLE

Number = int | float

_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
MAX_CHARS = 400


class ExpressionError(ValueError):
    """A text that is no arithmetic over the names that are known."""


def evaluate_expression(text: str, values: Mapping[str, Number]) -> Number:
    """The value of an expression.

    Raises:
        ExpressionError: it is no such arithmetic, or a name has no value.
    """
    try:
        return _value(_parsed(text), values)
    except ZeroDivisionError as error:
        raise ExpressionError(f"{text} divides by zero") from error


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    if len(text) > MAX_CHARS:
        raise ExpressionError("the expression is too long")
    try:
        return ast.parse(text, mode="eval").body
    except UNPARSABLE as error:
        raise ExpressionError(f"{text!r} is no expression") from error


def _value(node: ast.expr, values: Mapping[str, Number]) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]  # narrowed by its exact type
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    raise ExpressionError(f"{ast.unparse(node)} is not known here")
