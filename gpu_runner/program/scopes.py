"""Which names a function binds, and whether it yields. Pure.

Source: The Python Language Reference, 4.2.1, Binding of names.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_known: dict[ast.AST, tuple[frozenset[str], bool]] = {}


def bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> tuple[frozenset[str], bool]:
    """The names that a function's own scope binds, parameters among them, and whether it yields."""
    if function not in _known:
        arguments = function.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names = {arg.arg for arg in [*named, arguments.vararg, arguments.kwarg] if arg is not None}
        body = function.body if isinstance(function.body, list) else [function.body]
        own = [node for statement in body for node in own_nodes(statement)]
        outer = {name for node in own if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
        names |= {name for node in own for name in binds(node)} - outer
        _known[function] = frozenset(names), any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own)
    return _known[function]


def own_nodes(node: ast.AST, in_comprehension: bool = False) -> Iterator[ast.AST]:
    """The nodes of a statement that stand in its own scope; of a comprehension its assignment expressions alone."""
    hidden = in_comprehension and isinstance(node, ast.Name)
    if not hidden:
        yield node
    for child in _evaluated_here(node) if isinstance(node, _INNER) else ast.iter_child_nodes(node):
        yield from own_nodes(child, in_comprehension or isinstance(node, _COMPREHENSIONS))


def _evaluated_here(node: ast.AST) -> Iterator[ast.AST]:
    """What of an inner function or class is evaluated in the scope around it: defaults, decorators, bases."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield from node.args.defaults
        yield from (default for default in node.args.kw_defaults if default is not None)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from (*node.bases, *node.keywords)


def binds(node: ast.AST) -> Iterator[str]:
    """The names that a node binds by itself."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif (isinstance(node, ast.ExceptHandler) and node.name) or (
        isinstance(node, ast.MatchAs | ast.MatchStar) and node.name
    ):
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest


@functools.cache
def declared(scope: ast.FunctionDef | ast.Lambda | ast.ClassDef) -> tuple[frozenset[str], dict[str, str]]:
    """The names that the body of a function or class binds, and those that it declares global or nonlocal, by which."""
    body = scope.body if isinstance(scope.body, list) else [scope.body]
    own = [node for statement in body for node in own_nodes(statement)]
    outer = {
        name: "global" if isinstance(node, ast.Global) else "nonlocal"
        for node in own
        if isinstance(node, ast.Global | ast.Nonlocal)
        for name in node.names
    }
    return frozenset(name for node in own for name in binds(node)) - outer.keys(), outer


def is_plain_annotation(node: ast.expr) -> bool:
    """Whether an annotation is made of names, brackets and text: evaluating it does nothing."""
    allowed = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Tuple, ast.List, ast.BinOp)
    return all(
        isinstance(part, allowed) and (not isinstance(part, ast.BinOp) or isinstance(part.op, ast.BitOr))
        for part in ast.walk(node)
        if isinstance(part, ast.expr)
    )


def free_names(node: ast.AST, bound: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names that a statement reads or binds of the scope around it, those that its inner functions read among them."""
    if isinstance(node, ast.Name):
        if node.id not in bound:
            yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner = bound | bound_names(node)[0]
        here = {id(part) for part in _evaluated_here(node)}
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.arguments):
                for item in ast.walk(part):
                    if isinstance(item, ast.arg) and item.annotation is not None:
                        yield from free_names(item.annotation, bound)
                for default in [*part.defaults, *(one for one in part.kw_defaults if one is not None)]:
                    yield from free_names(default, bound)
            else:
                yield from free_names(
                    part, bound if id(part) in here or part is getattr(node, "returns", None) else inner
                )
    else:
        for part in ast.iter_child_nodes(node):
            yield from free_names(part, bound)


def names_in(node: ast.AST) -> frozenset[str]:
    """The names in an expression."""
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
