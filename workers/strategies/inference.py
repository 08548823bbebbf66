"""What the text of a function tells of its values: which are None for a call, and whose dtype a result has. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from gpu_runner.contracts.reading import walk
from workers.strategies.source import KernelFile, called, parameters_of

DEPTH = 6
UNKNOWN = object()


@dataclass(frozen=True)
class TypedFunction:
    """A function, and what is known of its parameters."""

    function: ast.FunctionDef
    known: dict[str, Any]


def returned_elements(function: ast.FunctionDef) -> list[ast.expr] | None:
    """The elements of the tuple that a function ends in; None where it ends in anything else."""
    last = function.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    return list(value.elts) if isinstance(value, ast.Tuple) else None


def is_none(file: KernelFile, node: ast.expr, frame: TypedFunction, depth: int = DEPTH) -> bool:
    """Whether an expression is surely None."""
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


def _source_is_none(file: KernelFile, value: ast.expr, index: int | None, frame: TypedFunction, depth: int) -> bool:
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
    return is_none(file, elements[index], TypedFunction(called, _handed(called, value, frame)), depth)


def _handed(function: ast.FunctionDef, call: ast.Call, frame: TypedFunction) -> dict[str, Any]:
    given = dict(zip(parameters_of(function), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    stored = {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    values = {name: _value(node, frame.known) for name, node in given.items() if name not in stored}
    return {name: value for name, value in values.items() if value is not UNKNOWN}


def sources_of(name: str, function: ast.FunctionDef) -> list[tuple[ast.expr, int | None]]:
    """Everything that a name is given in a function, with its place where a tuple is taken apart."""
    sources: list[tuple[ast.expr, int | None]] = []
    for node in walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    sources.append((node.value, None))
                elif isinstance(target, ast.Tuple):
                    places = [i for i, e in enumerate(target.elts) if isinstance(e, ast.Name) and e.id == name]
                    sources += [(node.value, place) for place in places]
    stores = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
    # A loop, a `with` or an augmented assignment gives the name something that is not followed here.
    return sources if len(stores) == len(sources) else []


def returns_of(function: ast.FunctionDef) -> int:
    """The number of places where a function returns."""
    return sum(1 for node in walk(function) if isinstance(node, ast.Return))


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


# Methods of a tensor that keep its element type, and functions that take that of their first argument.
KEEPING = frozenset(
    ("view", "view_as", "reshape", "contiguous", "detach", "clone", "full_tensor", "transpose", "permute", "flatten")
)
LIKE = frozenset(("torch.empty_like", "torch.zeros_like", "torch.ones_like"))
MADE = frozenset(("torch.empty", "torch.zeros", "torch.ones"))
DTYPE_PREFIX = "torch."
Types = frozenset[str]


@dataclass(frozen=True)
class TypeScope:
    """A function, and the element types of what it is given: names of the outermost arguments, or such as "torch.float32"."""

    function: ast.FunctionDef
    given: dict[str, Types | None]
    busy: frozenset[str] = field(default_factory=frozenset)


def outermost(function: ast.FunctionDef) -> TypeScope:
    """The scope in which every argument has an element type of its own."""
    return TypeScope(function, {name: frozenset({name}) for name in parameters_of(function)})


def returned_types(file: KernelFile, scope: TypeScope) -> tuple[Types | None, ...]:
    """The element types of what a function returns, element by element; empty where it returns in several places."""
    last = scope.function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None or returns_of(scope.function) != 1:
        return ()
    elements = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    return tuple(types_of(file, element, scope) for element in elements)


def types_of(file: KernelFile, node: ast.expr, scope: TypeScope) -> Types | None:
    """The element types that an expression may have; None where unknown."""
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
        types = _of_call(file, node, scope)
        return types[0] if len(types) == 1 else None
    if isinstance(node.func, ast.Attribute) and node.func.attr in KEEPING:
        return types_of(file, node.func.value, scope)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to" and len(node.args) == 1:
        return _of_dtype(file, node.args[0], scope)
    return None


def _of_dtype(file: KernelFile, node: ast.expr, scope: TypeScope) -> Types | None:
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return types_of(file, node.value, scope)
    text = ast.unparse(node)
    return frozenset({text}) if text.startswith(DTYPE_PREFIX) else None


def _of_name(file: KernelFile, name: str, scope: TypeScope) -> Types | None:
    if name in scope.busy:
        return frozenset()  # what it is made from besides itself decides
    inner = TypeScope(scope.function, scope.given, scope.busy | {name})
    sources = sources_of(name, scope.function)
    stored = any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in walk(scope.function)
    )
    if stored and not sources:
        return None
    types = [_of_source(file, value, index, inner) for value, index in sources]
    if name in parameters_of(scope.function):
        types.append(scope.given.get(name))
    return _joined(types) if types else None


def _of_source(file: KernelFile, value: ast.expr, index: int | None, scope: TypeScope) -> Types | None:
    if index is None:
        return types_of(file, value, scope)
    if isinstance(value, ast.Tuple):
        return types_of(file, value.elts[index], scope) if index < len(value.elts) else None
    types = _of_call(file, value, scope) if isinstance(value, ast.Call) else ()
    return types[index] if index < len(types) else None


def _of_call(file: KernelFile, call: ast.Call, scope: TypeScope) -> tuple[Types | None, ...]:
    function = file.functions.get(called(call))
    if function is None or f"{function.name}()" in scope.busy or any(isinstance(a, ast.Starred) for a in call.args):
        return ()
    given = dict(zip(parameters_of(function), call.args, strict=False))
    given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    types = {name: types_of(file, node, scope) for name, node in given.items()}
    calls = frozenset(name for name in scope.busy if name.endswith("()"))
    return returned_types(file, TypeScope(function, types, calls | {f"{function.name}()"}))


def _joined(each: list[Types | None]) -> Types | None:
    joined: Types = frozenset()
    for types in each:
        if types is None:
            return None
        joined |= types
    return joined
