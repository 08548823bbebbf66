"""A problem's CALL as a value: which symbol of a kernel's file it calls, with what, and whether the file still takes it. Pure."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from gpu_runner.contracts.syntax import UNPARSABLE

# What a call may do with an input besides giving it: nothing that computes.
VIEWS = frozenset(
    {"contiguous", "flatten", "numel", "reshape", "size", "squeeze", "t", "transpose", "unsqueeze", "view"}
)
PROPERTIES = frozenset({"device", "dtype", "shape"})
MAX_CHARS = 1000
FUNCTION_BASE = "Function"


@dataclass(frozen=True)
class Call:
    """``symbol`` is called, or its ``apply`` where it is an autograd Function; ``index`` picks one of a tuple of results."""

    symbol: str
    applied: bool
    arguments: tuple[ast.expr, ...]
    index: int | None = None

    def source(self, symbol: str) -> str:
        """Give the call as one line of source, with another name for its symbol."""
        target: ast.expr = ast.Name(symbol, ast.Load())
        if self.applied:
            target = ast.Attribute(target, "apply", ast.Load())
        made: ast.expr = ast.Call(target, [copy.deepcopy(argument) for argument in self.arguments], [])
        if self.index is not None:
            made = ast.Subscript(made, ast.Constant(self.index), ast.Load())
        return ast.unparse(ast.fix_missing_locations(ast.Expression(made)))


def read_call(text: str) -> Call | None:
    """Read a CALL; None where it is anything but one call of a function, or of a Function's ``apply``, with plain arguments."""
    if len(text) > MAX_CHARS:
        return None
    try:
        node = ast.parse(text, mode="eval").body
    except UNPARSABLE:
        return None
    index: int | None = None
    if isinstance(node, ast.Subscript):
        if not (isinstance(node.slice, ast.Constant) and type(node.slice.value) is int):
            return None
        index, node = node.slice.value, node.value
    if not isinstance(node, ast.Call) or node.keywords or not all(_is_plain(argument) for argument in node.args):
        return None
    applied = isinstance(node.func, ast.Attribute) and node.func.attr == "apply"
    name = node.func.value if isinstance(node.func, ast.Attribute) and applied else node.func
    if not isinstance(name, ast.Name) or name.id.startswith("__"):
        return None
    return Call(name.id, applied, tuple(node.args), index)


def fits(call: Call, source: str) -> bool:
    """Tell whether a file defines what is called, and it takes that many arguments."""
    try:
        body = _definitions(ast.parse(source).body)
    except UNPARSABLE:
        return False
    for node in reversed(body):
        if node.name != call.symbol:
            continue
        if isinstance(node, ast.ClassDef):
            return call.applied and is_function(node) and _class_takes(node, len(call.arguments))
        return not call.applied and _takes(node, len(call.arguments), bound=0)
    return False


def is_function(node: ast.ClassDef) -> bool:
    """Tell whether a class is an autograd Function."""
    names = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    return FUNCTION_BASE in names


def defined_functions(source: str) -> tuple[str, ...]:
    """Give the autograd Functions that a file defines, in their order."""
    try:
        body = _definitions(ast.parse(source).body)
    except UNPARSABLE:
        return ()
    return tuple(dict.fromkeys(node.name for node in body if isinstance(node, ast.ClassDef) and is_function(node)))


def _definitions(body: list[ast.stmt]) -> list[ast.ClassDef | ast.FunctionDef]:
    found: list[ast.ClassDef | ast.FunctionDef] = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.append(node)
        elif isinstance(node, ast.If):
            found += _definitions([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            found += _definitions([*node.body, *(s for h in node.handlers for s in h.body), *node.orelse])
    return found


def _class_takes(node: ast.ClassDef, count: int) -> bool:
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    # With a setup_context of its own, forward gets no context.
    bound = 0 if "setup_context" in methods else 1
    return "forward" in methods and _takes(methods["forward"], count, bound)


def _takes(function: ast.FunctionDef, count: int, bound: int) -> bool:
    arguments = function.args
    positional = len(arguments.posonlyargs) + len(arguments.args) - bound
    required = positional - len(arguments.defaults)
    if any(default is None for default in arguments.kw_defaults):
        return False
    return required <= count and (count <= positional or arguments.vararg is not None)


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, bool | int | float | str)
    if isinstance(node, ast.UnaryOp):
        number = isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
        return isinstance(node.op, ast.USub) and number
    if isinstance(node, ast.Name):
        return not node.id.startswith("__")
    if isinstance(node, ast.Attribute):
        return node.attr in PROPERTIES and isinstance(node.value, ast.Name)
    if isinstance(node, ast.Subscript):
        shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        return shape and _is_plain(node.value) and _is_plain(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        viewed = node.func.attr in VIEWS and not node.keywords and _is_plain(node.func.value)
        return viewed and all(_is_plain(argument) for argument in node.args)
    return False
