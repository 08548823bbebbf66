"""Places in the syntax tree of a candidate at which a fault can be put, and the edits that put it there. Pure."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One change of a tree in place: the line, what it does in words, and the change itself."""

    line: int
    what: str
    apply: Callable[[], None]


@dataclass(frozen=True)
class Place:
    """An expression: its node, the function around it, the node above it, and how it is replaced."""

    node: ast.expr
    function: ast.FunctionDef
    parent: ast.AST
    set: Callable[[ast.expr], None]

    def edit(self, new: ast.expr | str) -> Edit:
        """The edit that puts another expression here."""
        node = expression(new) if isinstance(new, str) else new
        return Edit(self.node.lineno, f"{ast.unparse(self.node)} -> {ast.unparse(node)}", lambda: self.set(node))


@dataclass(frozen=True)
class Line:
    """A statement: its node, the function around it, and the block that it lies in."""

    node: ast.stmt
    function: ast.FunctionDef
    block: list[ast.stmt]

    def edit(self, *new: ast.stmt | str) -> Edit:
        """The edit that puts other statements here; with none, the statement goes."""
        nodes = [node for item in new for node in (ast.parse(item).body if isinstance(item, str) else [item])]
        words = "; ".join(ast.unparse(node).replace("\n", " ") for node in nodes) or "nothing"

        def apply() -> None:
            at = next(place for place, node in enumerate(self.block) if node is self.node)
            self.block[at : at + 1] = nodes or [ast.Pass()]

        return Edit(self.node.lineno, f"{ast.unparse(self.node)} -> {words}", apply)


def expression(text: str) -> ast.expr:
    """The tree of an expression."""
    return ast.parse(text, mode="eval").body


def text_of(node: ast.AST) -> str:
    """The source of a node, in parentheses where it is an operation."""
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute) else f"({text})"


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether Triton compiles this function."""
    return any("jit" in ast.unparse(item) for item in function.decorator_list)


def functions(tree: ast.Module, *, kernels: bool) -> Iterator[ast.FunctionDef]:
    """The kernels of a file, or its host functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and is_kernel(node) is kernels:
            yield node


def expressions(tree: ast.Module, *, kernels: bool) -> Iterator[Place]:
    """Every expression that a kernel, or host code, computes; not those in signatures, annotations and docstrings."""
    for function in functions(tree, kernels=kernels):
        for statement in function.body:
            if not _is_text(statement):
                yield from _below(statement, function)


def lines(tree: ast.Module, *, kernels: bool) -> Iterator[Line]:
    """Every statement of kernels, or of host code."""
    for function in functions(tree, kernels=kernels):
        for owner in ast.walk(function):
            for name in ("body", "orelse"):
                block = getattr(owner, name, None)
                if isinstance(block, list) and not (owner is not function and isinstance(owner, ast.FunctionDef)):
                    yield from (Line(node, function, block) for node in block if not _is_text(node))


def calls(tree: ast.Module, name: str, *, kernels: bool = True) -> Iterator[Place]:
    """Every call of a function by its dotted name, such as ``tl.store``."""
    for place in expressions(tree, kernels=kernels):
        if isinstance(place.node, ast.Call) and ast.unparse(place.node.func) == name:
            yield place


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """A keyword argument of a call."""
    return next((item for item in call.keywords if item.arg == name), None)


def parameters(function: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters."""
    return [argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]]


def pointers(function: ast.FunctionDef) -> list[str]:
    """The parameters of a kernel that lead to memory: those in the address of a load, a store or an atomic operation."""
    seen: set[str] = set()
    named = set(parameters(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(("tl.load", "tl.store", "tl.atomic")):
            address = node.args[0] if node.args else None
            first = address
            while isinstance(first, ast.BinOp):
                first = first.left
            if isinstance(first, ast.Name) and first.id in named:
                seen.add(first.id)
    return [name for name in parameters(function) if name in seen]


def clone(node: ast.expr) -> ast.expr:
    """A copy that can be changed."""
    return copy.deepcopy(node)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _below(node: ast.AST, function: ast.FunctionDef) -> Iterator[Place]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and isinstance(
            node, ast.FunctionDef | ast.AnnAssign
        ):
            continue
        for at, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(item, ast.expr) and not isinstance(getattr(item, "ctx", None), ast.Store | ast.Del):
                yield Place(item, function, node, _setter(node, name, at))
            if isinstance(item, ast.AST) and not isinstance(item, ast.FunctionDef):
                yield from _below(item, function)


def _setter(node: ast.AST, name: str, at: int | None) -> Callable[[ast.expr], None]:
    def put(new: ast.expr) -> None:
        if at is None:
            setattr(node, name, new)
        else:
            getattr(node, name)[at] = new

    return put
