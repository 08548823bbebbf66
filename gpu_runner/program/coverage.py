"""Which decisions of a candidate were seen with both outcomes: what is done on the other side of one was never judged.

A decision is a condition, a comparison, a choice by ``min`` or ``max``, or a number that may be zero, in host code or, where
Triton's interpreter runs it, in a kernel. One counts where it depends on what a call was given: a mode that the file itself fixes
is no decision.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program.objects import Class, DeviceProperties, Facade, Frame, Function, Kind, Native, unproved

MOST_DECISIONS = 2048  # of one candidate; a large kernel library's file has some hundreds
MOST_LETTERS = 100
MOST_ITEMS = 64  # of a tuple that is looked at
HELD, FAILED, BOTH = 1, 2, 3  # outcomes, which are added up
_PLACE = ("device", "is_cuda", "get_device")  # one and the same in all cases of a verdict
_IMMUTABLE = (bool, int, float, str, type(None), torch.dtype, torch.device)
# Of a device's properties only these differ between the cases of a verdict on one GPU.
_TOLD = ("name", "multi_processor_count")
_PROPERTIES = (DeviceProperties, getattr(torch._C, "_CudaDeviceProperties", DeviceProperties))  # noqa: SLF001 - it has no public name
# What gives the same in every program and call, of the same arguments. Whatever else a kernel calls may read memory or its place.
_SAME = frozenset(
    ["arange", "cdiv", "zeros", "full", "where", "minimum", "maximum", "cast", "range", "static_range", "to"]
)


@dataclass
class Decisions:
    """What was decided how so far, by place: path, line, column, text."""

    outcomes: dict[tuple[str, int, int, str], int] = field(default_factory=dict)
    # By kernel, the parameters whose values no call has anything to do with.
    fixed: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, path: str, node: ast.expr, outcome: int, what: str = "") -> None:
        """Add an outcome: that an expression is true, or is ``what``."""
        place = (path, node.lineno, node.col_offset, text_of(node) + (f" is {what}" if what else ""))
        if place not in self.outcomes and len(self.outcomes) >= MOST_DECISIONS:
            raise unproved(f"It decides in more than {MOST_DECISIONS:,} places.")
        self.outcomes[place] = self.outcomes.get(place, 0) | outcome

    def launches(self, kernel: str, parameters: set[str]) -> None:
        """Note which parameters of a launch are fixed; one that ever is not stays so."""
        self.fixed[kernel] = frozenset(self.fixed.get(kernel, parameters) & parameters)

    def to_json(self) -> list[list[Any]]:
        """Its plain form."""
        return [[*place, outcome] for place, outcome in self.outcomes.items()]


@functools.cache
def text_of(node: ast.expr) -> str:
    """An expression as decisions quote it."""
    text = ast.unparse(node)
    return f"`{text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + '…'}`"


# -- what depends on a call


def depends(node: ast.expr, frame: Frame) -> bool:
    """Whether a value depends on what the call was given. What is not known to be fixed does."""
    return any(_is_given(name, attribute, frame) for name, attribute in _names(node))


def is_fixed(node: ast.expr, value: Any, frame: Frame) -> bool:
    """Whether a value is one of the file's own: immutable, and of nothing that the call was given."""
    return _is_immutable(value) and not depends(node, frame)


@functools.cache
def _names(node: ast.expr) -> tuple[tuple[str, str | None], ...]:
    """The names in an expression, each with the attribute that is asked of it."""
    owners = {
        id(part.value): part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
    }
    return tuple((part.id, owners.get(id(part))) for part in ast.walk(node) if isinstance(part, ast.Name))


def _is_given(name: str, attribute: str | None, frame: Frame) -> bool:
    where: Frame | None = frame
    while where is not None and where.kind is not Kind.module:
        if name in where.names:
            return name not in where.fixed and _is_of_call(where.names[name], attribute)
        where = where.parent
    return False


def _is_of_call(value: Any, attribute: str | None) -> bool:
    if isinstance(value, torch.Tensor) and attribute in _PLACE:
        return False
    if isinstance(value, _PROPERTIES) and attribute is not None:
        return attribute in _TOLD
    if isinstance(value, FunctionCtx) and attribute is not None:
        return attribute not in value.__dict__.get("program_fixed", ())
    if isinstance(value, torch.nn.Module) and attribute is not None:
        return not _is_immutable(value.__dict__.get("program_fields", {}).get(attribute, value))
    return not isinstance(value, Class | Facade | Native) and not (
        isinstance(value, Function) and value.closure.kind is Kind.module
    )


def _is_immutable(value: Any) -> bool:
    flat = value if isinstance(value, tuple) and len(value) <= MOST_ITEMS else (value,)
    return all(isinstance(item, _IMMUTABLE) for item in flat)  # of nested tuples there may be no end


def only_raises(statements: list[ast.stmt]) -> bool:
    """Whether all that a branch does is to refuse."""
    return bool(statements) and all(isinstance(statement, ast.Raise) for statement in statements)


# -- decisions of kernels


def watch_blocks(decisions: Decisions) -> None:
    """Have the interpreter of this process note what kernels decide; once."""
    from triton import language
    from triton.runtime import interpreter

    numpy, builder = interpreter.np, interpreter.InterpreterBuilder
    compares = (numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal, numpy.equal, numpy.not_equal)
    joins, picks = (numpy.bitwise_and, numpy.bitwise_or), (numpy.minimum, numpy.maximum, numpy.fmin, numpy.fmax)
    binary, ternary = builder.binary_op, builder.ternary_op

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        result = binary(self, lhs, rhs, op)
        if op in compares and _is_below_zero(lhs, rhs, numpy):
            return result
        if op in compares or (op in joins and result.data.dtype == bool):
            _note(decisions, _outcome(result.data))
        elif op in picks:
            _note(decisions, BOTH if (lhs.data == result.data).any() else FAILED, "its first value")
            _note(decisions, BOTH if (rhs.data == result.data).any() else FAILED, "its second value")
        return result

    def ternary_op(self: Any, first: Any, second: Any, third: Any, op: Any) -> Any:
        result = ternary(self, first, second, third, op)
        if op is numpy.clip:
            _note(decisions, BOTH if (first.data != result.data).any() else FAILED, "a limit")
        return result

    builder.binary_op, builder.ternary_op = binary_op, ternary_op
    for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__"):
        setattr(language.constexpr, name, _watched(getattr(language.constexpr, name), decisions))


def _is_below_zero(lhs: Any, rhs: Any, numpy: Any) -> bool:
    """Whether whole numbers are compared with zero: places, which only an overflow makes negative."""
    return lhs.data.dtype.kind == "i" and not rhs.data.any() and rhs.data.size > 0 and not numpy.any(lhs.data < 0)


def _outcome(data: Any) -> int:
    return (HELD if data.any() else 0) | (0 if data.all() else FAILED)


def _watched(method: Callable[..., Any], decisions: Decisions) -> Callable[..., Any]:
    @functools.wraps(method)
    def watched(*args: Any) -> Any:
        result = method(*args)
        value = getattr(result, "value", result)
        caller = sys._getframe(1)  # noqa: SLF001 - the interpreter's kernels are Python, and nothing else knows where one stands
        if isinstance(value, bool) and _KERNELS.get(caller.f_code.co_filename) is not None:
            _note(decisions, HELD if value else FAILED, constant=True)
        return result

    return watched


@dataclass(frozen=True)
class Text:
    """A kernel's text as Triton has it: its nodes by their first and last place, each with its line in the candidate's file."""

    path: str
    name: str
    nodes: dict[tuple[int, int, int, int], ast.expr]
    bound: frozenset[str]
    tree: ast.FunctionDef

    def is_fixed(self, node: ast.expr, parameters: frozenset[str], *, constant: bool) -> bool:
        """Whether an expression is the same in every launch, given the parameters that are. A ``constant`` reads no memory."""
        names = {name for name, _ in _names(node)} & self.bound
        if constant and names <= parameters:
            return True
        return bool(parameters) and _calls_same(node) and not names & _varying(self.tree, self.bound - parameters)


@functools.cache
def _varying(tree: ast.FunctionDef, free: frozenset[str]) -> frozenset[str]:
    """The names of a kernel that its launches may give other values; ``free``: what it binds, but for parameters that are fixed."""
    parameters = {arg.arg for arg in tree.args.args}
    found, before = free & parameters, None
    while found != before:
        before = found
        found = frozenset(found | {name for part in ast.walk(tree) for name in _rebound(part, found)})
    return found


def _rebound(node: ast.AST, varying: frozenset[str]) -> Iterator[str]:
    """The names that a statement may give another value."""
    read: ast.expr | None
    within: Sequence[ast.AST]
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
        read, within = node.value, node.targets if isinstance(node, ast.Assign) else [node.target]
    elif isinstance(node, ast.For):
        # Over what a kernel of the name `range` would give there is no loop.
        read, within = node.iter, [node]
        if isinstance(read, ast.Call) and isinstance(read.func, ast.Name) and read.func.id == "range":
            read = ast.Tuple(read.args, ast.Load())
    elif isinstance(node, ast.If | ast.While):
        read, within = node.test, [node]
    elif isinstance(node, ast.ListComp):
        read, within = node, [each.target for each in node.generators]
    else:
        return
    if read is not None and (not _calls_same(read) or {name for name, _ in _names(read)} & varying):
        for part in (part for each in within for part in ast.walk(each)):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


@functools.cache
def _calls_same(node: ast.expr) -> bool:
    """Whether all that an expression calls gives the same for the same arguments."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return all(isinstance(call, ast.Attribute) and call.attr in _SAME for call in calls)  # a kernel may have any name


_KERNELS: dict[str, Text] = {}  # by the name of the file that Triton is given


def register(place: str, path: str, name: str, made: ast.FunctionDef, text: str, bound: frozenset[str]) -> None:
    """Know a kernel by the ``place`` of its ``text``, which is that of the tree ``made`` with the lines of the candidate's file."""
    nodes = {}
    for node, original in zip(ast.walk(ast.parse(text).body[0]), ast.walk(made), strict=True):
        if isinstance(node, ast.expr) and isinstance(original, ast.expr):
            ends = (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0)
            nodes[ends] = original
    _KERNELS[place] = Text(path, name, nodes, bound, made)


def _note(decisions: Decisions, outcome: int, what: str = "", *, constant: bool = False) -> None:
    """Add what the innermost kernel on the stack decides now."""
    frame: types.FrameType | None = sys._getframe(2)  # noqa: SLF001 - as above
    while frame is not None and frame.f_code.co_filename not in _KERNELS:
        if frame.f_code.co_filename.endswith("language/standard.py"):
            return  # a function of Triton's own
        frame = frame.f_back
    if frame is None:
        return
    text = _KERNELS[frame.f_code.co_filename]
    node = text.nodes.get(_position(frame.f_code, frame.f_lasti))
    if node is None or _is_between_programs(node):
        return
    if text.is_fixed(node, decisions.fixed.get(text.name, frozenset()), constant=constant):
        return
    decisions.add(text.path, node, outcome, what)


@functools.cache
def _is_between_programs(node: ast.expr) -> bool:
    """Whether programs tell each other something here, such as that a lock is held: the interpreter runs one after the other."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(isinstance(function, ast.Attribute) and function.attr.startswith("atomic_") for function in calls)


def _position(code: types.CodeType, at: int) -> tuple[int, int, int, int]:
    return _positions(code)[at // 2]  # an instruction takes two bytes


@functools.cache
def _positions(code: types.CodeType) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(tuple(part or 0 for part in place) for place in code.co_positions())  # type: ignore[misc]
