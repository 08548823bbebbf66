"""A KernelBench problem at smaller sizes, by the numbers of its module that its inputs alone take. Pure."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpu_runner.contracts import Problem
from gpu_runner.contracts.expressions import ExpressionError, evaluate_expression
from gpu_runner.contracts.reading import parse

INPUTS = "get_inputs"
LEAST_FIRST, LEAST = 16, 2  # of a first dimension, before others are made smaller too; of any


@dataclass(frozen=True)
class _Number:
    """A whole number that a statement of the module binds, and where it stands in the text."""

    name: str
    value: int
    node: ast.expr


def smaller(source: str, problem: Problem, elements: Callable[[Mapping[str, int]], int], most: int) -> str | None:
    """The problem with at most ``most`` elements, or as few as there can be; None where none of its sizes can be another one.

    ``problem`` is the same in the reference form: a size that has no name in its workload is one that a kernel may be written for.
    ``elements`` counts those at other sizes. First dimensions are halved first: rows stay as long as they are where few will do.
    """
    module = parse(source)
    bound = _bound(module)
    free, shapes = _free(module, set(bound)), [shape for node in _inputs(module) for shape in _shapes(node, bound)]
    own = dict(problem.workloads[0].sizes) if problem.workloads else {}
    inputs = [spec.dims for spec in problem.inputs if not spec.parameter]
    numbers: dict[str, list[_Number]] = {name: [] for name in own}
    for dims in inputs:
        values = [own.get(dim) or int(dim) for dim in dims]
        shape = next((one for one in shapes if [number.value for number in one] == values), None)
        for place, dim in enumerate(dims):
            if dim in numbers and (shape is None or shape[place].name not in free):
                del numbers[dim]  # nothing of the module says how large it is, or something else depends on it too
            elif dim in numbers and shape is not None:
                numbers[dim].append(shape[place])
    sizes, firsts = dict(own), {dims[0] for dims in inputs if dims}
    while elements(sizes) > most:
        can = [name for name in numbers if sizes[name] >= 2 * LEAST]
        halved = [name for name in can if name in firsts and sizes[name] >= 2 * LEAST_FIRST] or can
        if not halved:
            break
        largest = max(halved, key=lambda one: sizes[one])
        half = sizes[largest] // 2
        for name in _together(largest, numbers):
            sizes[name] = half
    changed = {id(n): (n.node, sizes[name]) for name, each in numbers.items() for n in each if sizes[name] != own[name]}
    return _replaced(source, list(changed.values())) if changed else None


def _together(name: str, numbers: Mapping[str, list[_Number]]) -> list[str]:
    """The names of sizes that some number of the module says too which says this one."""
    own = {id(number) for number in numbers[name]}
    return [other for other, each in numbers.items() if other == name or own & {id(number) for number in each}]


def _bound(module: ast.Module) -> dict[str, list[_Number] | None]:
    """The numbers of each name that is bound to one, or to a row of them; None where it is bound to something else too."""
    found: dict[str, list[_Number] | None] = {}
    for name, value in _assigned(module):
        items = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        rows = [_numbers(item, found, name) for item in items]
        row = [number for numbers in rows for number in numbers or ()]
        found[name] = None if name in found or None in rows else row
    return found


def _assigned(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _value(node: ast.expr) -> int | None:
    try:
        value = evaluate_expression(ast.unparse(node), {})
    except ExpressionError:
        return None
    return value if isinstance(value, int) else None


def _inputs(module: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == INPUTS]


def _free(module: ast.Module, names: set[str]) -> set[str]:
    """Which of the names ``get_inputs`` takes, itself or by other names of the module, and nothing else does."""
    made: dict[str, set[str]] = {}
    for name, value in _assigned(module):
        made.setdefault(name, set()).update(_read(value))
    inside, outside = set[str](), set[str]()
    for node in module.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            (inside if node in _inputs(module) else outside).update(_read(node))
    return names & (_with_what_makes(inside, made) - _with_what_makes(outside, made))


def _with_what_makes(names: set[str], made: Mapping[str, set[str]]) -> set[str]:
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += made.get(name, ())
    return found


def _read(node: ast.AST) -> set[str]:
    """The names that a statement reads and no function in it binds."""
    read = set[str]().union(*map(_read, ast.iter_child_nodes(node)))
    if isinstance(node, ast.FunctionDef):
        names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name | ast.arg))
        bound = {n.arg if isinstance(n, ast.arg) else n.id for n in names if not _is_load(n)}
        return read - bound
    return read | {node.id} if isinstance(node, ast.Name) and _is_load(node) else read


def _is_load(node: ast.Name | ast.arg) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _shapes(function: ast.FunctionDef, bound: Mapping[str, list[_Number] | None]) -> Iterator[list[_Number]]:
    """The shapes that calls in a function are given by place or as one row: numbers and names of numbers alone."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args:
            for arguments in (node.args, *(n.elts for n in node.args if isinstance(n, ast.Tuple | ast.List))):
                shape = [numbers for argument in arguments if (numbers := _numbers(argument, bound)) is not None]
                if len(shape) == len(arguments) and (row := [number for numbers in shape for number in numbers]):
                    yield row


def _numbers(node: ast.expr, bound: Mapping[str, list[_Number] | None], name: str = "") -> list[_Number] | None:
    """The numbers that an expression is, those that it writes itself as numbers of ``name``; None where it is something else."""
    inner = node.value if isinstance(node, ast.Starred) else node
    if isinstance(inner, ast.Name):
        return bound.get(inner.id)
    value = _value(inner)
    return None if value is None else [_Number(name, value, inner)]


def _replaced(source: str, numbers: list[tuple[ast.expr, int]]) -> str:
    lines = [line.encode() for line in source.splitlines(keepends=True)]  # columns of the tree are bytes
    for node, value in sorted(numbers, key=lambda pair: (pair[0].lineno, pair[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        begin, end = lines[first][: node.col_offset], lines[last][node.end_col_offset or 0 :]
        lines[first : last + 1] = [begin + str(value).encode() + end]
    return b"".join(lines).decode()
