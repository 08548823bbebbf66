"""Which decisions of a candidate were seen with both outcomes: what is done on the other side of one was never judged.

A decision is a condition, a comparison, a choice by ``min`` or ``max``, a look-up, a number that may be zero, or whatever else is
computed of values that change and might change itself, in host code or, where Triton's interpreter runs it, in a kernel. One
counts where it depends on what a call was given: a mode that the file itself fixes is no decision.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program.objects import (
    Class,
    DeviceProperties,
    Facade,
    Frame,
    Function,
    Kind,
    Native,
    Violation,
    unproved,
)

MOST_DECISIONS = 2048  # of one candidate; a large kernel library's file has some hundreds
MOST_LETTERS = 100
MOST_ITEMS = 64  # of a tuple that is looked at
HELD, FAILED, BOTH = 1, 2, 3  # outcomes, which are added up
_PLACE = ("device", "is_cuda", "get_device")  # one and the same in all cases of a verdict
UNSEEN, VARIES, OPAQUE = object(), object(), object()  # of a value: none yet, more than one, none that is compared
_IMMUTABLE = (bool, int, float, str, type(None), torch.dtype, torch.device)
# Of a device's properties only these differ between the cases of a verdict on one GPU.
_DIFFERING = ("name", "multi_processor_count")
_PROPERTIES = (DeviceProperties, getattr(torch._C, "_CudaDeviceProperties", DeviceProperties))  # noqa: SLF001 - it has no public name


Place = tuple[str, int, int, bool, str]  # path, line, column, whether in a kernel, text


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
    fixed: dict[str, frozenset[str]] = field(default_factory=dict)
    # Outcomes of lanes that do not count, for places at which none ever does.
    aside: dict[Place, int] = field(default_factory=dict)
    # By expression of host code, its value, or VARIES.
    values: dict[ast.expr, Any] = field(default_factory=dict)
    # Those that compute with what the call was given, by the path of their file.
    computed: dict[ast.expr, str] = field(default_factory=dict)
    lanes: dict[tuple[Place, str], Lanes] = field(default_factory=dict)
    is_paused: bool = False  # of kernels nothing is noted

    def add(self, path: str, node: ast.expr | ast.pattern, outcome: int, what: str = "") -> None:
        """Add an outcome of host code: that an expression is true, or is ``what``."""
        self.add_at(place_of(path, node, what), outcome)

    def add_at(self, place: Place, outcome: int) -> None:
        """Add an outcome at a place."""
        if place not in self.outcomes and len(self.outcomes) >= MOST_DECISIONS:
            raise _too_many()
        self.outcomes[place] = self.outcomes.get(place, 0) | outcome

    def see(self, node: ast.expr, value: Any) -> None:
        """Note the value of an expression of host code."""
        known = self.values.get(node, UNSEEN)
        if known is not VARIES:
            now = _comparable(value)
            self.values[node] = now if known is UNSEEN or known == now else VARIES

    def launches(self, kernel: str, parameters: set[str]) -> None:
        """Note which parameters of a launch are fixed; one that ever is not stays so."""
        self.fixed[kernel] = frozenset(self.fixed.get(kernel, parameters) & parameters)

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
        for ((*where, text), _), lanes in self.lanes.items():
            is_computed = lanes.result is not VARIES and VARIES in lanes.operands
            if is_computed and not _is_absorbed(lanes.operation, lanes.operands):
                yield (*where, f"{text} is anything but {lanes.result}")  # type: ignore[misc]

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
        rows = [*(self.aside | self.outcomes).items(), *((place, FAILED) for place in self.constants())]
        if len(rows) > MOST_DECISIONS:  # none may be left out: it could be the one that matters
            raise _too_many()
        return [[*place, outcome] for place, outcome in rows]


def _too_many() -> Violation:
    return unproved(f"It decides in more than {MOST_DECISIONS:,} places.")


def place_of(path: str, node: ast.expr | ast.pattern, what: str = "", via: str | None = None) -> Place:
    """The place of a decision: that an expression is true, or is ``what``; in a kernel with how it is reached (``via``)."""
    role = f" is {what}" if what else ""
    return path, node.lineno, node.col_offset, via is not None, f"{text_of(node)}{via or ''}{role}"


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
    return any(_is_given(name, attribute, frame) for name, attribute in names_in(node))


def is_fixed(node: ast.expr, value: Any, frame: Frame) -> bool:
    """Whether a value is one of the file's own: immutable, and of nothing that the call was given."""
    return _is_immutable(value) and not depends(node, frame)


@functools.cache
def names_in(node: ast.expr) -> tuple[tuple[str, str | None], ...]:
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
        return attribute in _DIFFERING
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
