"""The sizes that launchers of a port compute at a workload, read from their text: nothing of it runs. Pure."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from gpu_runner.contracts import Problem, Workload

Shape = tuple[int, ...]
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class _Unknown(Exception):  # noqa: N818 - an expression of something else than sizes
    pass


def shapes_at(problem: Problem, workload: Workload) -> dict[str, Shape]:
    """The shapes of a problem's inputs at a workload."""
    sizes = dict(workload.sizes)
    return {
        spec.name: tuple(int(dim) if dim.isdigit() else sizes.get(dim, 1) for dim in spec.dims)
        for spec in problem.inputs
    }


def launch_sizes(source: str, shapes: Mapping[str, Shape]) -> dict[str, dict[str, int]]:
    """By function of a module the whole numbers that it assigns, where they follow from the shapes of the tensors it is given.

    Functions are read in their order: what one makes, a later one may be given. An upstream gradient has its output's shape.
    """
    known, found = dict(shapes), dict[str, dict[str, int]]()
    for function in (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)):
        reading = _Reading(known)
        for node in function.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                reading.assign(node.targets[0].id, node.value)
        found[function.name] = reading.sizes
    return found


class _Reading:
    def __init__(self, shapes: dict[str, Shape]) -> None:
        self.shapes, self.sizes = shapes, dict[str, int]()

    def assign(self, name: str, value: ast.expr) -> None:
        try:
            if isinstance(value, ast.Call) and ast.unparse(value.func) in ("torch.empty", "torch.empty_like"):
                self.shapes[name] = self._shape(value.args[0])
            else:
                self.sizes[name] = self._number(value)
        except _Unknown:
            return

    def _number(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and node.id in self.sizes:
            return self.sizes[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._number(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](self._number(node.left), self._number(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numel":
            return math.prod(self._shape(node.func.value))
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            return self._shape(node.value)[self._number(node.slice)]
        raise _Unknown

    def _shape(self, node: ast.expr) -> Shape:
        if isinstance(node, ast.Name):
            shape = self.shapes.get(node.id) or self.shapes.get(node.id.removeprefix("d"))
            if shape is not None:
                return shape
            return (self._number(node),)
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return self._shape(node.value)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper)
            first, last = (None if bound is None else self._number(bound) for bound in bounds)
            return self._shape(node.value)[first:last]
        if isinstance(node, ast.Tuple):
            parts = [
                self._shape(one.value) if isinstance(one, ast.Starred) else (self._number(one),) for one in node.elts
            ]
            return tuple(size for part in parts for size in part)
        raise _Unknown
