"""What a value depends on, and the rules by which that is derived: a small binding-time analysis, carried out beside the values.

Each value that host code computes has a level:

- ``FIXED``: the file alone decides it. Literals, modules, what is made while the file is loaded, and what is computed of these.
- ``PASSED``: it is a tensor or None, as the problem says of each call; a call cannot make it anything else.
- ``GIVEN``: a call may change it: sizes, strides, scalars, what is read of a tensor, and whatever no rule below derives.

A decision on a ``FIXED`` value is a mode of the file and cannot tell calls apart; one on a ``GIVEN`` value must be seen with both
outcomes (see ``coverage``). For example, in ::

    def forward(ctx, x, casting="llama"):     # x: PASSED; casting: FIXED where the file's own call fills it in
        rows, cols = x.shape                   # GIVEN, both
        block = 1024 if casting == "llama" else 512    # FIXED: the condition is, and so are both values
        if cols > block:                       # GIVEN: a decision
            block = 2 * block                  # GIVEN from here on, taken or not: whether it is bound depends on ``cols``

levels are kept with names (``Frame.levels``), items of tuples, defaults, attributes of an autograd context, and results of the
program's own functions. What a statement might bind, or return, depends on the condition, loop, ``try`` or pattern around it as
well, whichever side is taken: ``stored_in`` says by the syntax what that is, so that both sides agree.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from gpu_runner.program.coverage import MOST_ITEMS
from gpu_runner.program.language import IMMUTABLE
from gpu_runner.program.objects import (
    FIXED,
    GIVEN,
    PASSED,
    BoundFunction,
    Class,
    DeviceProperties,
    Facade,
    Function,
    Native,
    TypeAnnotation,
)
from gpu_runner.program.scopes import binds, names_in, own_nodes

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
# Of a device's properties only these differ between the cases of a verdict on one GPU.
_DIFFERING = ("name", "multi_processor_count")
_PROPERTIES = (DeviceProperties, getattr(torch._C, "_CudaDeviceProperties", DeviceProperties))  # noqa: SLF001 - it has no public name


_LASTING = (
    bool, int, float, str, type(None), torch.dtype, torch.device, Enum, *IMMUTABLE,
    slice, type, torch.finfo, torch.iinfo, torch.layout, torch.memory_format,
    Function, Class, Facade, Native, BoundFunction, TypeAnnotation,
)  # fmt: skip


def is_lasting(value: Any) -> bool:
    """Whether nothing can change a value, so that what it hangs on is known where it was made."""
    flat = value if isinstance(value, tuple) and len(value) <= MOST_ITEMS else (value,)
    return all(isinstance(item, _LASTING) or type(item).__name__ == "Kernel" for item in flat)


def is_made_by_torch(value: Any) -> bool:
    """Whether a value is a tensor, or a tuple of them: whether it is None no number has decided."""
    flat = value if isinstance(value, tuple) and 0 < len(value) <= MOST_ITEMS else (value,)
    return all(isinstance(item, torch.Tensor) for item in flat)


def level_of_attribute(owner: Any, name: str, level: int, value: Any) -> int:
    """What an attribute hangs on whose owner hangs on ``level``."""
    if isinstance(owner, torch.Tensor):
        return FIXED if name in _KINDS else PASSED if name in _AS_PASSED or isinstance(value, torch.Tensor) else GIVEN
    if isinstance(owner, torch.device):
        if name == "index" and not torch.cuda.is_available():
            return GIVEN  # in the interpreter cases tell of the first and of the second GPU
        return FIXED if level <= PASSED else GIVEN
    if isinstance(owner, _PROPERTIES):
        return GIVEN if name in _DIFFERING else FIXED
    if isinstance(owner, FunctionCtx):
        return int(owner.__dict__.get("program_levels", {}).get(name, GIVEN))
    if isinstance(owner, torch.nn.Module) and level <= PASSED:
        is_own = is_lasting(value) and not isinstance(value, Native)
        return FIXED if is_own else PASSED if isinstance(value, torch.Tensor | torch.nn.Module) else GIVEN
    return FIXED if level == FIXED else GIVEN


def level_of_result(function: Any, level: int, value: Any) -> int:
    """What a library's function gives hangs on, whose arguments hang on ``level``."""
    name, owner = (function.name, function.owner) if isinstance(function, Native) else ("", None)
    is_index = name.endswith("current_device") or (name == "get_device" and isinstance(owner, torch.Tensor))
    if is_index:
        return FIXED if torch.cuda.is_available() else GIVEN
    if name.startswith(_ENVIRONMENT):
        return FIXED
    if name.startswith("torch.") or isinstance(owner, torch.Tensor):
        is_number = name.startswith(_OF_TYPES) and level == FIXED
        return FIXED if is_number else PASSED if is_made_by_torch(value) else GIVEN
    is_pure = not isinstance(function, Native) or name.startswith(_PURE) or (owner is not None and is_lasting(owner))
    return FIXED if level == FIXED and is_pure else GIVEN


@dataclass(frozen=True)
class BoundNames:
    """What statements may bind, and how they may be left. ``again``: names that are bound to copies of tensors alone."""

    names: frozenset[str]
    again: frozenset[str]
    attributes: frozenset[tuple[str, str]]
    returns: bool
    breaks: bool


@functools.cache
def stored_in(statement: ast.stmt) -> BoundNames:
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
    return BoundNames(
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


def level_of_computed(value: Any, level: int) -> int:
    """The level of a value that is computed of what has ``level``."""
    return FIXED if level == FIXED else PASSED if is_made_by_torch(value) else GIVEN
