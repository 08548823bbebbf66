"""Tells whose element type a result has, as far as a function's text shows it. Pure; nothing is executed."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from workers.strategies.nothing import returns_of, sources_of
from workers.strategies.syntax import KernelFile, called, parameters_of

# Methods of a tensor that keep its element type, and functions that take that of their first argument.
KEEPING = frozenset(
    ("view", "view_as", "reshape", "contiguous", "detach", "clone", "full_tensor", "transpose", "permute", "flatten")
)
LIKE = frozenset(("torch.empty_like", "torch.zeros_like", "torch.ones_like"))
MADE = frozenset(("torch.empty", "torch.zeros", "torch.ones"))
DTYPE_PREFIX = "torch."

Types = frozenset[str]


@dataclass(frozen=True)
class Scope:
    """A function, and the element types of what it is given: names of the outermost arguments, or such as "torch.float32"."""

    function: ast.FunctionDef
    given: dict[str, Types | None]
    busy: frozenset[str] = field(default_factory=frozenset)


def outermost(function: ast.FunctionDef) -> Scope:
    """Give the scope in which every argument has an element type of its own."""
    return Scope(function, {name: frozenset({name}) for name in parameters_of(function)})


def returned_types(file: KernelFile, scope: Scope) -> tuple[Types | None, ...]:
    """Give the element types of what a function returns, element by element; empty where it returns in several places."""
    last = scope.function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None or returns_of(scope.function) != 1:
        return ()
    elements = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    return tuple(types_of(file, element, scope) for element in elements)


def types_of(file: KernelFile, node: ast.expr, scope: Scope) -> Types | None:
    """Give the element types that an expression may have; None where it cannot be told."""
    if isinstance(node, ast.Name):
        return _of_name(file, node.id, scope)
    if isinstance(node, ast.IfExp):
        return _joined([types_of(file, node.body, scope), types_of(file, node.orelse, scope)])
    if not isinstance(node, ast.Call):
        return None
    given = next((k.value for k in node.keywords if k.arg == "dtype"), None)
    name = called(node)
    if name in LIKE | MADE:
        if given is not None:
            return _of_dtype(file, given, scope)
        return types_of(file, node.args[0], scope) if name in LIKE and node.args else None
    if name in file.functions:
        found = _of_call(file, node, scope)
        return found[0] if len(found) == 1 else None
    if isinstance(node.func, ast.Attribute) and node.func.attr in KEEPING:
        return types_of(file, node.func.value, scope)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1:
        return _of_dtype(file, node.args[0], scope)
    return None


def _of_dtype(file: KernelFile, node: ast.expr, scope: Scope) -> Types | None:
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return types_of(file, node.value, scope)
    text = ast.unparse(node)
    return frozenset({text}) if text.startswith(DTYPE_PREFIX) else None


def _of_name(file: KernelFile, name: str, scope: Scope) -> Types | None:
    if name in scope.busy:
        return frozenset()  # what it is made from besides itself decides
    inner = Scope(scope.function, scope.given, scope.busy | {name})
    sources = sources_of(name, scope.function)
    stored = any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(scope.function)
    )
    if stored and not sources:
        return None
    found = [_of_source(file, value, index, inner) for value, index in sources]
    if name in parameters_of(scope.function):
        found.append(scope.given.get(name))
    return _joined(found) if found else None


def _of_source(file: KernelFile, value: ast.expr, index: int | None, scope: Scope) -> Types | None:
    if index is None:
        return types_of(file, value, scope)
    if isinstance(value, ast.Tuple):
        return types_of(file, value.elts[index], scope) if index < len(value.elts) else None
    found = _of_call(file, value, scope) if isinstance(value, ast.Call) else ()
    return found[index] if index < len(found) else None


def _of_call(file: KernelFile, call: ast.Call, scope: Scope) -> tuple[Types | None, ...]:
    function = file.functions.get(called(call))
    if function is None or f"{function.name}()" in scope.busy or any(isinstance(a, ast.Starred) for a in call.args):
        return ()
    given = dict(zip(parameters_of(function), call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    types = {name: types_of(file, node, scope) for name, node in given.items()}
    calls = frozenset(name for name in scope.busy if name.endswith("()"))
    return returned_types(file, Scope(function, types, calls | {f"{function.name}()"}))


def _joined(found: list[Types | None]) -> Types | None:
    joined: Types = frozenset()
    for types in found:
        if types is None:
            return None
        joined |= types
    return joined
