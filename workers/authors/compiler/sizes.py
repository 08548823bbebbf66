"""Sizes and numbers that depend on the workload: compared and read without knowing the workload. Pure."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_runner.contracts.graph import Dim, Expr
from gpu_runner.contracts.syntax import UNPARSABLE
from workers.authors.compiler.refusals import CannotCompileError

# Products of powers of distinct primes of this size meet only where the sizes are the same in letters.
FIRST_STAND_IN = 10_007


def names_in(text: str) -> tuple[str, ...]:
    """Give the names of an expression in the order in which they are written.

    Raises:
        CannotCompileError: it is not arithmetic.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except UNPARSABLE as error:
        raise CannotCompileError(f"the size `{text}` is not arithmetic") from error
    names: list[str] = []
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Constant, ast.Load)
    for node in ast.walk(tree):
        if not isinstance(node, allowed):
            raise CannotCompileError(f"the size `{text}` is not arithmetic")
        if isinstance(node, ast.Name) and node.id not in names:
            names.append(node.id)
    return tuple(sorted(names, key=text.find))


def renamed(text: str, table: dict[str, str]) -> str:
    """Write arithmetic with other names."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: table.get(match.group(), match.group()), text)


def _next_prime(number: int) -> int:
    number += 1
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


@dataclass(frozen=True)
class Sizes:
    """Dimension names with a prime standing in for the size of each."""

    stand_ins: dict[str, int]

    @staticmethod
    def of(dimensions: tuple[str, ...]) -> Sizes:
        """Choose the stand-ins."""
        table: dict[str, int] = {}
        prime = FIRST_STAND_IN
        for name in dimensions:
            table[name] = prime
            prime = _next_prime(prime)
        return Sizes(table)

    @staticmethod
    def divisible(dimensions: tuple[str, ...], dims: Iterable[Dim]) -> Sizes:
        """Choose stand-ins that every number divides by which the sizes of a graph divide."""
        whole = {int(n) for dim in dims if isinstance(dim, Expr) for n in re.findall(r"// (\d{1,4})\b", dim.text)}
        step = math.lcm(*(n for n in whole if n > 0))
        return Sizes({name: size * step for name, size in Sizes.of(dimensions).stand_ins.items()})

    def value(self, dim: Dim) -> int:
        """Give the size that stands in for a dimension.

        Raises:
            CannotCompileError: it is not whole, or names something that is no dimension.
        """
        if isinstance(dim, int):
            return dim
        value = evaluate(dim, self.stand_ins)
        if isinstance(value, float) and value != int(value):
            raise CannotCompileError(f"the size `{dim.text}` is not a whole number")
        return int(value)


def evaluate(expression: Expr, values: dict[str, int]) -> float | int:
    """Compute arithmetic over known names.

    Raises:
        CannotCompileError: a name is unknown, or it is not arithmetic.
    """
    names_in(expression.text)
    return _evaluate(ast.parse(expression.text, mode="eval").body, expression.text, values)


def _evaluate(node: ast.expr, text: str, values: dict[str, int]) -> float | int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, text, values)
    if isinstance(node, ast.BinOp):
        left, right = _evaluate(node.left, text, values), _evaluate(node.right, text, values)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv) and right:
            return left // right
        if isinstance(node.op, ast.Div) and right:
            return left / right
    raise CannotCompileError(f"the size `{text}` cannot be read")
