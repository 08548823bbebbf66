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
from enum import Enum
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program.language import IMMUTABLE
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    PASSED,
    Annotation,
    Bound,
    Class,
    DeviceProperties,
    Facade,
    Function,
    Native,
    Violation,
    unproved,
)
from gpu_runner.program.scopes import binds, own_nodes

MOST_DECISIONS = 2048  # of one candidate; a large kernel library's file has some hundreds
MOST_LETTERS = 100
MOST_ITEMS = 64  # of a tuple that is looked at
MOST_DEPTH = 3  # of containers in each other
_CUT = "cut at its"
HELD, FAILED, BOTH = 1, 2, 3  # outcomes, which are added up
# Of a tensor: what the kind of device says, which is one and the same in all cases of a verdict, and what the problem says.
_KINDS, _AS_PASSED = ("is_cuda", "is_cpu", "is_meta", "is_sparse", "layout"), ("device", "dtype")
_COPIES = (
    "contiguous",
    "to",
    "view",
    "reshape",
    "clone",
    "float",
    "detach",
    "expand",
    "expand_as",
    "view_as",
    "type_as",
)
# Functions by what their results hang on: on where the program runs, on their arguments, on a type among these.
_ENVIRONMENT = (
    "torch.cuda.", "torch.xpu.", "torch.distributed.is_", "torch.version.", "torch.compiler.is_", "torch.jit.is_",
    "triton.runtime.driver.", "importlib.metadata.", "torch.get_float32_matmul_precision",
    "torch.backends.cudnn.allow_tf32",
)  # fmt: skip
_PURE = (
    "math.", "operator.", "itertools.", "functools.reduce", "triton.cdiv", "triton.next_power_of_2", "getattr", "hasattr",
    "isinstance", "callable", "typing.cast", "packaging.",
)  # fmt: skip
_OF_TYPES = ("torch.promote_types", "torch.result_type", "torch.broadcast_shapes")
UNSEEN, VARIES, OPAQUE = object(), object(), object()  # of a value: none yet, more than one, none that is compared
_IMMUTABLE = (bool, int, float, str, type(None), torch.dtype, torch.device, Enum)
# Of a device's properties only these differ between the cases of a verdict on one GPU.
_DIFFERING = ("name", "multi_processor_count")
_PROPERTIES = (DeviceProperties, getattr(torch._C, "_CudaDeviceProperties", DeviceProperties))  # noqa: SLF001 - it has no public name


_LASTING = (
    *_IMMUTABLE, *IMMUTABLE, slice, type, torch.finfo, torch.iinfo, torch.layout, torch.memory_format,
    Function, Class, Facade, Native, Bound, Annotation,
)  # fmt: skip

Place = tuple[str, int, int, bool, str]  # path, line, column, whether in a kernel, text


@dataclass
class Lanes:
    """An operation at one place, of a kernel or of what native code calls: its first result and operands, each VARIES once it had
    another value."""

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
        self.values[node] = _seen(self.values.get(node, UNSEEN), value)

    def operate(self, place: Place, operation: str, operands: Sequence[Any], result: Any) -> None:
        """Note what an operation of host code that is no expression made of its operands."""
        lanes = self.lanes.setdefault((place, operation), Lanes(operation, UNSEEN, [UNSEEN] * len(operands)))
        lanes.result = _seen(lanes.result, result)
        lanes.operands = [_seen(known, each) for known, each in zip(lanes.operands, operands, strict=False)]

    def cut(self, place: Place, end: str, bound: int, size: int) -> None:
        """Note whether an end of a slice is moved to that of its sequence, beyond which its bound lies."""
        self.operate(place, f"{_CUT} {end}", (bound, size), (bound if bound >= 0 else -bound) > size)

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
            if not is_computed or _is_absorbed(lanes.operation, lanes.operands):
                continue
            if lanes.operation.startswith(_CUT):  # one that never is may be so by its bound, as half of a row
                if lanes.result or lanes.operands[1] is not VARIES:
                    yield (*where, f"{text} is {'not ' * bool(lanes.result)}{lanes.operation}")  # type: ignore[misc]
            else:
                yield (*where, f"{text} is anything but {lanes.result}")  # type: ignore[misc]

    def _operand(self, node: ast.AST, items: frozenset[str] = frozenset()) -> Any:
        """The value of an operand where it never had another, else VARIES; ``items``: names that a comprehension goes through."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.GeneratorExp):
            items |= frozenset().union(*(names_in(each.target) for each in node.generators))
        value = self.values.get(node, UNSEEN) if isinstance(node, ast.expr) else UNSEEN
        if value is not UNSEEN and value is not OPAQUE and not (items and items & names_in(node)):
            return value
        parts = ast.iter_child_nodes(node)
        return VARIES if any(self._operand(part, items) is VARIES for part in parts) else OPAQUE

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


def is_known(value: Any) -> bool:
    """Whether a value is a number or text, or a container of such alone, so that it is seen whether it changes."""
    if isinstance(value, tuple | list | set | frozenset | dict):
        return not _has_opaque(_comparable(value))
    return is_plain(value)


def _has_opaque(known: Any) -> bool:
    return known is OPAQUE or (isinstance(known, tuple) and any(map(_has_opaque, known)))


def _seen(known: Any, value: Any) -> Any:
    """The one value so far, or VARIES."""
    if known is VARIES:
        return known
    now = _comparable(value)
    return now if known is UNSEEN or known == now else VARIES


def _comparable(value: Any, depth: int = MOST_DEPTH) -> Any:
    """What two values of one expression are compared by; OPAQUE for tensors and other objects."""
    if isinstance(value, tuple | list | dict) and len(value) <= MOST_ITEMS and depth:
        return tuple(_comparable(item, depth - 1) for item in (value.items() if isinstance(value, dict) else value))
    if isinstance(value, set | frozenset) and len(value) <= MOST_ITEMS:
        return frozenset(item for item in value if isinstance(item, _IMMUTABLE))
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


# -- what a value hangs on


def is_lasting(value: Any) -> bool:
    """Whether nothing can change a value, so that what it hangs on is known where it was made."""
    flat = value if isinstance(value, tuple) and len(value) <= MOST_ITEMS else (value,)
    return all(isinstance(item, _LASTING) or type(item).__name__ == "Kernel" for item in flat)


def is_made_by_torch(value: Any) -> bool:
    """Whether a value is a tensor, or a tuple of them: whether it is None no number has decided."""
    flat = value if isinstance(value, tuple) and 0 < len(value) <= MOST_ITEMS else (value,)
    return all(isinstance(item, torch.Tensor) for item in flat)


def level_of_attribute(owner: Any, name: str, level: int, found: Any) -> int:
    """What an attribute hangs on whose owner hangs on ``level``."""
    if isinstance(owner, torch.Tensor):
        return FIXED if name in _KINDS else PASSED if name in _AS_PASSED or isinstance(found, torch.Tensor) else GIVEN
    if isinstance(owner, torch.device):
        return FIXED if level <= PASSED else GIVEN
    if isinstance(owner, _PROPERTIES):
        return GIVEN if name in _DIFFERING else FIXED
    if isinstance(owner, FunctionCtx):
        return int(owner.__dict__.get("program_levels", {}).get(name, GIVEN))
    if isinstance(owner, torch.nn.Module) and level <= PASSED:
        is_own = is_lasting(found) and not isinstance(found, Native)
        return FIXED if is_own else PASSED if isinstance(found, torch.Tensor | torch.nn.Module) else GIVEN
    return FIXED if level == FIXED else GIVEN


def level_of_result(function: Any, level: int, value: Any) -> int:
    """What a library's function gives hangs on, whose arguments hang on ``level``."""
    name, owner = (function.name, function.owner) if isinstance(function, Native) else ("", None)
    if name.startswith(_ENVIRONMENT):
        return FIXED
    if name == "get_device" and isinstance(owner, torch.Tensor):
        return FIXED
    if name.startswith("torch.") or isinstance(owner, torch.Tensor):
        is_number = name.startswith(_OF_TYPES) and level == FIXED
        return FIXED if is_number else PASSED if is_made_by_torch(value) else GIVEN
    is_pure = not isinstance(function, Native) or name.startswith(_PURE) or (owner is not None and is_lasting(owner))
    return FIXED if level == FIXED and is_pure else GIVEN


def names_in(node: ast.AST) -> frozenset[str]:
    """The names in an expression."""
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


@dataclass(frozen=True)
class Stored:
    """What statements may bind, and how they may be left. ``again``: names that are bound to copies of tensors alone."""

    names: frozenset[str]
    again: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    returns: bool
    breaks: bool


@functools.cache
def stored_in(statement: ast.stmt) -> Stored:
    """What a statement may bind in its own scope."""
    own = list(own_nodes(statement))
    names = [name for node in own for name in binds(node)]
    copied = [node.targets[0].id for node in own if isinstance(node, ast.Assign) and _is_copy(node)]  # type: ignore[attr-defined]
    attributes = {
        (node.value.id, node.attr)
        for node in own
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    }
    saves = [node.func.value for node in own if isinstance(node, ast.Call) and _is_save(node)]  # type: ignore[attr-defined]
    attributes |= {(owner.id, "saved_tensors") for owner in saves if isinstance(owner, ast.Name)}
    return Stored(
        frozenset(names),
        frozenset(name for name in copied if copied.count(name) == names.count(name)),
        frozenset(attributes),
        any(isinstance(node, ast.Return) for node in own),
        any(isinstance(node, ast.Break | ast.Continue) for node in own),
    )


def _is_save(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "save_for_backward"


def _is_copy(node: ast.Assign) -> bool:
    value, target = node.value, node.targets[0]
    is_method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
    is_plain = len(node.targets) == 1 and isinstance(target, ast.Name)
    return is_plain and is_method and value.func.attr in _COPIES  # type: ignore[attr-defined]


@functools.cache
def never_fixed(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The names of a function that an expression, or a function within it, may bind."""
    body = function.body if isinstance(function.body, list) else [function.body]
    own = {part.target.id for node in body for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}
    inner = {name for node in body for part in ast.walk(node) if isinstance(part, ast.Nonlocal) for name in part.names}
    return frozenset(own | inner)


@functools.cache
def only_spread(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The names of a function that are read where their items are handed on alone, so that nothing changes what they hold."""
    body = function.body if isinstance(function.body, list) else [function.body]
    parts = [part for node in body for part in ast.walk(node)]
    spread = [part.value for part in parts if isinstance(part, ast.Starred) and isinstance(part.ctx, ast.Load)]
    spread += [part.value for part in parts if isinstance(part, ast.keyword) and part.arg is None]
    read = [part for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    harmless = {id(node) for node in spread}
    return names_in(function) - {name.id for name in read if id(name) not in harmless}


def only_raises(statements: list[ast.stmt]) -> bool:
    """Whether all that a branch does is to refuse."""
    return bool(statements) and all(isinstance(statement, ast.Raise) for statement in statements)
