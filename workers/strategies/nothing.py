"""Tells which values of a function are None for a call whose constants are known, as far as that is simple. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from workers.strategies.syntax import KernelFile, parameters_of

DEPTH = 6
UNKNOWN = object()


@dataclass(frozen=True)
class Frame:
    """A function, and what is known of its parameters."""

    function: ast.FunctionDef
    known: dict[str, Any]


def returned_elements(function: ast.FunctionDef) -> list[ast.expr] | None:
    """Give the elements of the tuple that a function ends in; None where it ends in anything else."""
    last = function.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    return list(value.elts) if isinstance(value, ast.Tuple) else None


def is_none(file: KernelFile, node: ast.expr, frame: Frame, depth: int = DEPTH) -> bool:
    """Tell whether an expression is surely None."""
    if isinstance(node, ast.Constant):
        return node.value is None
    if isinstance(node, ast.IfExp):
        test = _value(node.test, frame.known)
        return test is not UNKNOWN and is_none(file, node.body if test else node.orelse, frame, depth)
    if not isinstance(node, ast.Name) or depth == 0:
        return False
    if node.id in frame.known:
        return frame.known[node.id] is None
    sources = sources_of(node.id, frame.function)
    return bool(sources) and all(_source_is_none(file, value, index, frame, depth - 1) for value, index in sources)


def _source_is_none(file: KernelFile, value: ast.expr, index: int | None, frame: Frame, depth: int) -> bool:
    if index is None:
        return is_none(file, value, frame, depth)
    if isinstance(value, ast.Tuple) and index < len(value.elts):
        return is_none(file, value.elts[index], frame, depth)
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in file.functions):
        return False
    called = file.functions[value.func.id]
    elements = returned_elements(called)
    if elements is None or index >= len(elements) or returns_of(called) != 1:
        return False
    return is_none(file, elements[index], Frame(called, _handed(called, value, frame)), depth)


def _handed(function: ast.FunctionDef, call: ast.Call, frame: Frame) -> dict[str, Any]:
    given = dict(zip(parameters_of(function), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    values = {name: _value(node, frame.known) for name, node in given.items() if name not in stored}
    return {name: value for name, value in values.items() if value is not UNKNOWN}


def sources_of(name: str, function: ast.FunctionDef) -> list[tuple[ast.expr, int | None]]:
    """Everything that a name is given in a function, with its place where a tuple is taken apart."""
    found: list[tuple[ast.expr, int | None]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    found.append((node.value, None))
                elif isinstance(target, ast.Tuple):
                    places = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Name) and e.id == name]
                    found += [(node.value, place) for place in places]
    stores = [
        n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
    ]
    # A loop, a `with` or an augmented assignment gives the name something that is not followed here.
    return found if len(stores) == len(found) else []


def returns_of(function: ast.FunctionDef) -> int:
    """Give the number of places where a function returns."""
    return sum(1 for node in ast.walk(function) if isinstance(node, ast.Return))


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id, UNKNOWN)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _value(node.operand, known)
        return UNKNOWN if value is UNKNOWN else not value
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = _value(node.left, known), _value(node.comparators[0], known)
        if left is not UNKNOWN and right is not UNKNOWN:
            return _compared(node.ops[0], left, right)
    return UNKNOWN


def _compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Eq | ast.NotEq):
        return (left == right) is isinstance(op, ast.Eq)
    if isinstance(op, ast.Is | ast.IsNot):
        return (left is right) is isinstance(op, ast.Is)
    return UNKNOWN
