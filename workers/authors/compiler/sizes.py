"""Sizes and numbers that depend on the workload: compared and read without knowing the workload. Pure."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpu_runner.contracts import Problem, Workload
from gpu_runner.contracts.graph import Dim, Expr, Graph, Multiple
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
    """Names of dimensions, and of scalars that divide them, with a number standing in for each: a prime, or a multiple of one."""

    stand_ins: dict[str, int]
    scalars: frozenset[str] = frozenset()

    @staticmethod
    def of(dimensions: tuple[str, ...], rules: tuple[Multiple, ...] = ()) -> Sizes:
        """Choose the stand-ins; the rules hold for them."""
        scalars = tuple(dict.fromkeys(name for rule in rules for name in names_in(rule.of)))
        table: dict[str, int] = {}
        prime = FIRST_STAND_IN
        for name in (*dimensions, *scalars):
            table[name] = prime
            prime = _next_prime(prime)
        given = {name: table[name] for name in scalars}
        for rule in rules:
            table[rule.dimension] *= int(evaluate(Expr(rule.of), given))
        return Sizes(table, frozenset(scalars))

    @staticmethod
    def divisible(dimensions: tuple[str, ...], graph: Graph) -> Sizes:
        """Choose stand-ins that every number divides by which the sizes of a graph divide."""
        dims: Iterable[Dim] = (dim for node in graph.nodes for dim in node.meta.shape)
        whole = {int(n) for dim in dims if isinstance(dim, Expr) for n in re.findall(r"// (\d{1,4})\b", dim.text)}
        return Sizes.of(dimensions, graph.multiples).times(math.lcm(*(n for n in whole if n > 0)))

    def times(self, step: int) -> Sizes:
        """Give stand-ins for dimensions that are multiples of a number."""
        table = {name: size if name in self.scalars else size * step for name, size in self.stand_ins.items()}
        return Sizes(table, self.scalars)

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


def numbers_of(problem: Problem, workload: Workload) -> dict[str, int]:
    """Give the sizes and the whole scalars of a workload by name."""
    scalars = {spec.name: spec.default for spec in problem.scalars} | dict(workload.scalars)
    return {name: value for name, value in scalars.items() if type(value) is int} | dict(workload.sizes)


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
