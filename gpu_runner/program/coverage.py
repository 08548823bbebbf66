"""Which decisions of a candidate were seen with both outcomes: what is done on the other side of one was never judged.

A decision is a condition, a comparison, a choice by ``min`` or ``max``, a look-up, a number that may be zero, or whatever else is
computed of values that change and might change itself, in host code or, where Triton's interpreter runs it, in a kernel. One
counts where it depends on what a call was given: a mode that the file itself fixes is no decision.
"""

from __future__ import annotations

import ast
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program.objects import Class, Facade, Frame, Function, Kind, Native, unproved

MOST_DECISIONS = 2048  # of one candidate; a large kernel library's file has some hundreds
MOST_LETTERS = 100
MOST_ITEMS = 64  # of a tuple that is looked at
MOST_BETWEEN = 3  # frames of Triton's between a kernel and one that it calls
HELD, FAILED, BOTH = 1, 2, 3  # outcomes, which are added up
_PLACE = ("device", "is_cuda", "get_device")  # one and the same in all cases of a verdict
UNSEEN, VARIES, OPAQUE = object(), object(), object()  # of a value: none yet, more than one, none that is compared
_IMMUTABLE = (bool, int, float, str, type(None), torch.dtype)


Place = tuple[str, int, int, str]  # path, line, column, text


@dataclass
class Lanes:
    """An operation of a kernel at one place: its first result and operands, each VARIES once it had another value."""

    operation: str
    result: Any = None
    operands: list[Any] = field(default_factory=list)


@dataclass
class Decisions:
    """What was decided how so far, by place, and what was computed."""

    outcomes: dict[Place, int] = field(default_factory=dict)
    # By kernel, the parameters whose values no call has anything to do with.
    fixed: dict[str, set[str]] = field(default_factory=dict)
    # By expression of host code, its value, or VARIES.
    values: dict[ast.expr, Any] = field(default_factory=dict)
    # Those that compute with what the call was given, by the path of their file.
    computed: dict[ast.expr, str] = field(default_factory=dict)
    lanes: dict[tuple[Place, str], Lanes] = field(default_factory=dict)

    def add(self, path: str, node: ast.expr | ast.pattern, outcome: int, what: str = "", via: str = "") -> None:
        """Add an outcome: that an expression is true, or is ``what``, reached ``via`` another place."""
        place = place_of(path, node, what, via)
        if place not in self.outcomes and len(self.outcomes) >= MOST_DECISIONS:
            raise unproved(f"It decides in more than {MOST_DECISIONS:,} places.")
        self.outcomes[place] = self.outcomes.get(place, 0) | outcome

    def see(self, node: ast.expr, value: Any) -> None:
        """Note the value of an expression of host code."""
        known = self.values.get(node, UNSEEN)
        if known is not VARIES:
            now = _comparable(value)
            self.values[node] = now if known is UNSEEN or known == now else VARIES

    def launches(self, kernel: str, parameters: set[str]) -> None:
        """Note which parameters of a launch are fixed; one that ever is not stays so."""
        self.fixed[kernel] = self.fixed.get(kernel, parameters) & parameters

    def constants(self) -> Iterator[Place]:
        """Where something was computed of values that changed, and never changed itself."""
        for node, path in self.computed.items():
            value = self.values[node]
            never_zero = place_of(path, node, "not zero")  # a decision of its own
            if value is not VARIES and not (not value and never_zero in self.outcomes):
                operands = [self._operand(part) for part in _operands(node)]
                operation = type(node.op).__name__ if isinstance(node, ast.BinOp) else ""
                if VARIES in operands and not _is_absorbed(operation, operands):
                    yield place_of(path, node, f"anything but {value!r}")
        for ((path, line, column, text), _), lanes in self.lanes.items():
            is_computed = lanes.result is not VARIES and VARIES in lanes.operands
            if is_computed and not _is_absorbed(lanes.operation, lanes.operands):
                yield path, line, column, f"{text} is anything but {lanes.result}"

    def _operand(self, node: ast.AST) -> Any:
        """The value of an operand where it never had another, else VARIES."""
        if isinstance(node, ast.Constant):
            return node.value
        value = self.values.get(node, UNSEEN) if isinstance(node, ast.expr) else UNSEEN
        if value is not UNSEEN and value is not OPAQUE:
            return value
        parts = ast.iter_child_nodes(node)
        return VARIES if any(self._operand(part) is VARIES for part in parts) else OPAQUE

    def to_json(self) -> list[list[Any]]:
        """Its plain form."""
        rows = [[*place, outcome] for place, outcome in self.outcomes.items()]
        return rows + [[*place, FAILED] for place in itertools.islice(self.constants(), MOST_DECISIONS)]


def place_of(path: str, node: ast.expr | ast.pattern, what: str = "", via: str = "") -> Place:
    """The place of a decision: that an expression, reached ``via`` another place, is true, or is ``what``."""
    role = f" is {what}" if what else ""
    return path, node.lineno, node.col_offset, f"{text_of(node)}{via}{role}"


def is_plain(value: Any) -> bool:
    """Whether a value is a number or text."""
    return isinstance(value, bool | int | float | str)


def _comparable(value: Any) -> Any:
    """What two values of one expression are compared by; OPAQUE for tensors and other objects."""
    if isinstance(value, tuple | list) and len(value) <= MOST_ITEMS:
        return tuple(_comparable(item) if _is_immutable(item) else OPAQUE for item in value)
    if isinstance(value, set | frozenset) and len(value) <= MOST_ITEMS:
        return frozenset(item for item in value if _is_immutable(item))
    if not isinstance(value, _IMMUTABLE):
        return OPAQUE
    return value if value == value else "nan"


def _operands(node: ast.expr) -> Iterable[ast.AST]:
    """What an expression computes with; of a look-up, the key."""
    if isinstance(node, ast.Subscript):
        return (node.slice,)
    return (part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.operator))


def _is_absorbed(operation: str, operands: Sequence[Any]) -> bool:
    """Whether an operand that never changed makes the result, whatever the other is: a factor zero, a remainder of one."""
    if operation in ("Mult", "BitAnd", "multiply", "bitwise_and"):
        return any(_is_number(operand, 0) for operand in operands)
    first, last = operands[0], operands[-1]
    if operation in ("Mod", "fmod"):
        return _is_number(first, 0) or _is_number(last, 1)
    divisions = ("Div", "FloorDiv", "LShift", "RShift", "divide", "floor_divide", "left_shift", "right_shift")
    return operation in divisions and _is_number(first, 0)


def _is_number(value: Any, number: int) -> bool:
    return value is not VARIES and not isinstance(value, str) and bool(value == number)


@functools.cache
def text_of(node: ast.expr | ast.pattern) -> str:
    """An expression or pattern as decisions quote it."""
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
    orders, compares = (
        (numpy.less, numpy.less_equal, numpy.greater, numpy.greater_equal),
        (numpy.equal, numpy.not_equal),
    )
    joins, picks = (numpy.bitwise_and, numpy.bitwise_or), (numpy.minimum, numpy.maximum, numpy.fmin, numpy.fmax)
    binary, ternary, unary = builder.binary_op, builder.ternary_op, builder.unary_op
    divide, cast = builder.create_idiv, builder.create_fp_to_si

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        result = binary(self, lhs, rhs, op)
        if op in (numpy.less, numpy.greater_equal) and _is_below_zero(lhs, rhs, numpy):
            return result
        if op in orders:
            _note(decisions, _outcome(result.data[_counts(lhs.data, rhs.data, numpy)]))
        elif op in compares or (op in joins and result.data.dtype == bool):
            _note(decisions, _outcome(result.data))
        elif op in picks:
            counts = _counts(lhs.data, rhs.data, numpy)
            _note(decisions, _happened((lhs.data == result.data)[counts]), "its first value")
            _note(decisions, _happened((rhs.data == result.data)[counts]), "its second value")
        else:
            _compute(decisions, op.__name__, result.data, lhs.data, rhs.data)
        return result

    def ternary_op(self: Any, first: Any, second: Any, third: Any, op: Any) -> Any:
        result = ternary(self, first, second, third, op)
        if op is numpy.clip:
            _note(decisions, _happened(first.data != result.data), "a limit")
        elif op is numpy.where:
            _compute(decisions, "where", result.data, second.data, third.data)
        return result

    def unary_op(self: Any, operand: Any, op: Any) -> Any:
        result = unary(self, operand, op)
        _compute(decisions, op.__name__, result.data, operand.data)
        return result

    def create_idiv(self: Any, lhs: Any, rhs: Any) -> Any:
        result = divide(self, lhs, rhs)
        _compute(decisions, "floor_divide", result.data, lhs.data, rhs.data)
        return result

    def create_fp_to_si(self: Any, source: Any, dtype: Any) -> Any:
        result = cast(self, source, dtype)
        _compute(decisions, "to", result.data, source.data)
        return result

    builder.binary_op, builder.ternary_op, builder.unary_op = binary_op, ternary_op, unary_op
    builder.create_idiv, builder.create_fp_to_si = create_idiv, create_fp_to_si
    for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "__bool__"):
        setattr(language.constexpr, name, _watched(getattr(language.constexpr, name), decisions))


def _is_below_zero(lhs: Any, rhs: Any, numpy: Any) -> bool:
    """Whether whole numbers are compared with zero: places, which only an overflow makes negative."""
    return lhs.data.dtype.kind == "i" and not rhs.data.any() and rhs.data.size > 0 and not numpy.any(lhs.data < 0)


def _counts(lhs: Any, rhs: Any, numpy: Any) -> Any:
    """The lanes in which two values say something: not an infinity against a limit, which is judged by what is not finite alone."""
    if lhs.dtype.kind == "f" and lhs.shape == rhs.shape:
        first, second = numpy.isfinite(lhs), numpy.isfinite(rhs)
        if first.all() or second.all():
            return first & second
    return ...


def _outcome(data: Any) -> int:
    return (HELD if data.any() else 0) | (0 if data.all() else FAILED)  # of no lanes neither


def _happened(data: Any) -> int:
    return BOTH if data.any() else FAILED if data.size else 0


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


@dataclass(frozen=True, eq=False)
class Text:
    """A kernel's text as Triton has it: its nodes by their first and last place, each with its line in the candidate's file."""

    path: str
    name: str
    nodes: dict[tuple[int, int, int, int], ast.expr]
    bound: frozenset[str]
    # By expression, the names that loops of a written number of steps bind around it.
    steps: dict[ast.expr | None, tuple[str, ...]]


_KERNELS: dict[str, Text] = {}  # by the name of the file that Triton is given


def register(place: str, path: str, name: str, made: ast.FunctionDef, text: str, bound: frozenset[str]) -> None:
    """Know a kernel by the ``place`` of its ``text``, which is that of the tree ``made`` with the lines of the candidate's file."""
    nodes = {}
    for node, original in zip(ast.walk(ast.parse(text).body[0]), ast.walk(made), strict=True):
        if isinstance(node, ast.expr) and isinstance(original, ast.expr):
            ends = (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0)
            nodes[ends] = original
    _KERNELS[place] = Text(path, name, nodes, bound, _steps(made))


def _steps(made: ast.FunctionDef) -> dict[ast.expr | None, tuple[str, ...]]:
    found: dict[ast.expr | None, tuple[str, ...]] = {}
    for loop in ast.walk(made):
        if (
            not isinstance(loop, ast.For)
            or not isinstance(loop.target, ast.Name)
            or not isinstance(loop.iter, ast.Call)
        ):
            continue
        if all(isinstance(arg, ast.Constant) for arg in loop.iter.args):
            for statement in loop.body:
                for node in ast.walk(statement):
                    if isinstance(node, ast.expr):
                        found[node] = (*found.get(node, ()), loop.target.id)
    return found


@dataclass(frozen=True)
class _Site:
    """Where a kernel stands: at an expression, reached by calls of kernels, in a step of loops of a written number of them."""

    text: Text
    node: ast.expr
    via: str
    place: Place


def _note(decisions: Decisions, outcome: int, what: str = "", *, constant: bool = False) -> None:
    """Add what the innermost kernel on the stack decides now."""
    site = _site(sys._getframe(2)) if outcome else None  # noqa: SLF001 - as above
    if site is None or (constant and _is_fixed(site, decisions)):
        return
    decisions.add(site.text.path, site.node, outcome, what, site.via)


def _is_fixed(site: _Site, decisions: Decisions) -> bool:
    return {name for name, _ in _names(site.node)} & site.text.bound <= decisions.fixed.get(site.text.name, set())


def _compute(decisions: Decisions, operation: str, result: Any, *operands: Any) -> None:
    """Note what the innermost kernel on the stack computes now."""
    site = _site(sys._getframe(2))  # noqa: SLF001 - as above
    if site is None or not result.size:
        return
    key = site.place, operation
    lanes = decisions.lanes.get(key)
    if lanes is None:
        lanes = decisions.lanes[key] = Lanes(operation, UNSEEN, [UNSEEN] * len(operands))
    if lanes.result is not VARIES:
        counts = _all_finite(operands)
        lanes.result = _seen(lanes.result, result[counts])
        lanes.operands = [_seen(known, data[counts]) for known, data in zip(lanes.operands, operands, strict=True)]


def _all_finite(operands: Sequence[Any]) -> Any:
    """The lanes in which all operands are finite."""
    from triton.runtime.interpreter import np as numpy

    counts: Any = ...
    for data in operands if len({data.shape for data in operands}) == 1 else ():
        if data.dtype.kind == "f":
            finite = numpy.isfinite(data)
            counts = counts if finite.all() else finite if counts is ... else counts & finite
    return counts


def _seen(known: Any, data: Any) -> Any:
    """The one value of all lanes so far, or VARIES."""
    if known is VARIES or not data.size:
        return known
    first = data.flat[0] if known is UNSEEN else known
    return VARIES if (data != first).any() else first


def _site(frame: types.FrameType | None) -> _Site | None:
    """The expression at which the innermost kernel on the stack stands; None in Triton's own functions."""
    where: list[tuple[Text, ast.expr | None, tuple[Any, ...]]] = []
    passed = 0
    while frame is not None and passed <= MOST_BETWEEN:
        code = frame.f_code
        text = _KERNELS.get(code.co_filename)
        if text is not None:
            node = _node_at(text, code, frame.f_lasti)
            steps = tuple(_value_of(frame.f_locals.get(name)) for name in text.steps.get(node, ()))
            where.append((text, node, steps))
            passed = 0
        elif where:
            passed += 1
        elif code.co_filename.endswith("language/standard.py"):
            return None
        frame = frame.f_back
    return _site_of(tuple(where)) if where else None


def _value_of(value: Any) -> Any:
    plain = getattr(value, "value", value)
    return plain if is_plain(plain) else None


@functools.cache
def _site_of(where: tuple[tuple[Text, ast.expr | None, tuple[Any, ...]], ...]) -> _Site | None:
    text, node, steps = where[0]
    if node is None or _is_between_programs(node):
        return None
    reached = [f"{name} = {value}" for name, value in zip(text.steps.get(node, ()), steps, strict=True)]
    for caller, call, at in where[1:]:
        if caller is not text and call is not None:
            reached += [f"called at line {call.lineno}"]
            reached += [f"{name} = {value}" for name, value in zip(caller.steps.get(call, ()), at, strict=True)]
    via = f" ({', '.join(reached)})" if reached else ""
    return _Site(text, node, via, place_of(text.path, node, via=via))


@functools.cache
def _is_between_programs(node: ast.expr) -> bool:
    """Whether programs tell each other something here, such as that a lock is held: the interpreter runs one after the other."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(isinstance(function, ast.Attribute) and function.attr.startswith("atomic_") for function in calls)


_NODES: dict[tuple[str, str, int], ast.expr | None] = {}


def _node_at(text: Text, code: types.CodeType, at: int) -> ast.expr | None:
    key = code.co_filename, code.co_name, at
    if key not in _NODES:
        _NODES[key] = text.nodes.get(_position(code, at))
    return _NODES[key]


def _position(code: types.CodeType, at: int) -> tuple[int, int, int, int]:
    return _positions(code)[at // 2]  # an instruction takes two bytes


@functools.cache
def _positions(code: types.CodeType) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(tuple(part or 0 for part in place) for place in code.co_positions())  # type: ignore[misc]
