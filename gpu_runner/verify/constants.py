"""What a candidate's syntax tree asks of the cases: whole numbers, around which sizes are tried, and alignment. Pure."""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Iterable, Iterator

from gpu_runner.contracts.syntax import UNPARSABLE
from gpu_runner.contracts.verify import SourceFile

LARGEST = 2**24  # a larger number is a mask, a hash or a limit of a dtype, and no size that a kernel branches on
MOST_SHIFT = 24
MOST_OPERAND = 2**40

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}

_DESCRIPTORS = ("make_tensor_descriptor", "TensorDescriptor")


def constants_of(files: Iterable[SourceFile]) -> frozenset[int]:
    """Every whole number from 2 to ``LARGEST`` in Python files, those included that constants add up or multiply to."""
    found: set[int] = set()
    for tree in _trees(files):
        found |= set(_values(tree).values())
    return frozenset(abs(value) for value in found if 2 <= abs(value) <= LARGEST)


def _values(tree: ast.AST) -> dict[ast.AST, int]:
    values: dict[ast.AST, int] = {}
    for node in reversed(list(ast.walk(tree))):  # operands before what is computed of them, however deep
        value = _plain(node.value) if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.BinOp) and node.left in values and node.right in values:
            value = _applied(type(node.op), values[node.left], values[node.right])
        if value is not None:
            values[node] = value
    return values


def _plain(value: object) -> int | None:
    if isinstance(value, float) and abs(value) <= LARGEST and value.is_integer():
        return int(value)  # as in ``x.shape[1] > 4096.0``
    return value if type(value) is int else None


def _applied(operation: type[ast.operator], left: int, right: int) -> int | None:
    if operation not in _OPERATORS or max(abs(left), abs(right)) > MOST_OPERAND:
        return None
    if operation in (ast.LShift, ast.Pow) and not 0 <= right <= MOST_SHIFT:
        return None
    if operation is ast.FloorDiv and right == 0:
        return None
    return _OPERATORS[operation](left, right)


def needs_alignment(files: Iterable[SourceFile]) -> bool:
    """Whether Python files make tensor descriptors, which the hardware takes of memory from a multiple of 16 bytes on alone."""
    return any(_named(node) in _DESCRIPTORS for tree in _trees(files) for node in ast.walk(tree))


def _named(node: ast.AST) -> str | None:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None


def _trees(files: Iterable[SourceFile]) -> Iterator[ast.Module]:
    for file in files:
        if file.path.endswith(".py"):
            with contextlib.suppress(*UNPARSABLE):
                yield ast.parse(file.text)
