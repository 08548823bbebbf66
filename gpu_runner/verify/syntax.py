"""Questions about a candidate's syntax tree that need no table but one. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu_runner.verify import allowed

_CHANGES_CONTAINER = ("append", "extend", "update", "setdefault", "pop", "insert")
_CHANGES = (*_CHANGES_CONTAINER, "copy_", "fill_", "zero_")
MAX_DEPTH = 200  # of statements and expressions in each other; a chain of `elif` is one in the other as well
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_too_deep(source: str) -> bool:
    """Say whether statements or expressions stand in each other beyond what can be read; False for what cannot be parsed."""
    try:
        layer: list[ast.AST] = [ast.parse(source)]
    except (RecursionError, MemoryError):
        return True
    except (SyntaxError, ValueError):
        return False
    for _ in range(MAX_DEPTH):
        layer = [inner for node in layer for inner in ast.iter_child_nodes(node)]
    return bool(layer)


def changed_by(node: ast.AST) -> ast.expr | None:
    """Give what a statement such as ``x[0] = 1`` or ``x.append(1)`` changes."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        value = node.func.value
        if node.func.attr in (_CHANGES if isinstance(value, ast.Name) else _CHANGES_CONTAINER):
            return value
    return None


def names_from_outside(tree: ast.Module) -> set[int]:
    """Give the ids of the names in nested functions that stand for something of the function around them."""
    found: set[int] = set()
    for outer in ast.walk(tree):
        if not isinstance(outer, FUNCTIONS):
            continue
        for inner in ast.walk(outer):
            if inner is not outer and isinstance(inner, (*FUNCTIONS, ast.Lambda)):
                found |= _free_names(inner)
    return found


def _free_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[int]:
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    arguments = [node.arg for node in ast.walk(function) if isinstance(node, ast.arg)]
    bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)} | set(arguments)
    return {id(name) for name in names if name.id not in bound}


def targets_of(item: ast.stmt) -> Iterator[str]:
    """Give the names that a statement binds."""
    targets = item.targets if isinstance(item, ast.Assign) else []
    targets = [item.target] if isinstance(item, ast.AnnAssign | ast.AugAssign) else targets
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def root_of(node: ast.expr) -> str | None:
    """Give the name with which an expression such as ``x.y[0].z`` begins; None where it begins with no name."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    """Give a function's decorators, without the brackets of those that are called."""
    return [item.func if isinstance(item, ast.Call) else item for item in node.decorator_list]


def bodies(node: ast.Try | ast.TryStar) -> list[ast.stmt]:
    """Give every statement of a `try` and of its handlers."""
    return [*node.body, *node.orelse, *node.finalbody, *(item for handler in node.handlers for item in handler.body)]


def is_import_only(item: ast.stmt) -> bool:
    """Say whether a statement only imports, or names what could not be imported."""
    plain = isinstance(item, ast.Assign) and not any(isinstance(node, ast.Call) for node in ast.walk(item))
    return isinstance(item, ast.Import | ast.ImportFrom | ast.Pass) or plain


def is_plain_name(node: ast.expr) -> bool:
    """Say whether this is a written-out attribute that a candidate may use."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in allowed.ATTRIBUTES


def sums_first_dimension(node: ast.Call, is_function: bool) -> bool:
    """Say whether a call of `sum` adds up the first dimension and nothing else."""
    places = [*node.args[1 if is_function else 0 :], *(k.value for k in node.keywords if k.arg in ("dim", "axis"))]
    known = all(keyword.arg in ("dim", "axis", "dtype") for keyword in node.keywords)
    return known and all(isinstance(place, ast.Constant) and place.value == 0 for place in places)
