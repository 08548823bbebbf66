"""The trail of a run: a digest of each operator and launch with its operands. Two ways to carry out one text are compared by it."""

from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import itertools
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from gpu_runner.messages import MOST_EVENTS, CaseTrail, TrailEvent
from gpu_runner.program import lanes, threads, tiles

_LITERALS = frozenset({"lift_fresh", "lift_fresh_copy"})  # operators by which `torch.tensor` hands on what it was given
READS = "_local_scalar_dense"  # one number goes to the host
_MOST_LITERALS = 4096  # elements


class Trail:
    """Storages have numbers in the order in which they are met, so that two runs of the same program leave the same trail.

    Without ``has_devices`` it is the same on a GPU and where the interpreter has everything on the host, where floats that are read
    of a kernel's results have other roundings.
    """

    def __init__(self, *, has_devices: bool = True) -> None:
        self._has_devices = has_devices
        self.events: list[TrailEvent] = []
        self._whole = hashlib.sha256()
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self._met = 0

    def operator(self, name: str, place: tuple[str | None, int | None], given: Any, results: Any) -> None:
        """Add an operator of torch."""
        literals = [_literal(value) for value in given[0]] if name.partition(".")[0] in _LITERALS else None
        is_rounded = name.partition(".")[0] == READS and isinstance(results, float) and not self._has_devices
        self._add(f"`{name}`", place, [self._told(given), "float" if is_rounded else self._told(results), literals])

    def launch(self, fn: Any, place: tuple[str | None, int | None], grid: Any, arguments: Any) -> None:
        """Add a launch of a kernel, whose function is given."""
        self._add(
            f"the launch of `{fn.__name__}`", place, [self._told(grid), self._told(arguments), list(_names(fn, set()))]
        )

    def results(self, values: dict[str, Any]) -> None:
        """Add what a run gave, by label."""
        for label, value in values.items():
            self._add(label, (None, None), [self._told(value), getattr(value, "requires_grad", None)])

    def left(self) -> CaseTrail:
        """What was left so far."""
        return CaseTrail(tuple(self.events), self._whole.hexdigest())

    def _add(self, what: str, place: tuple[str | None, int | None], facts: Any) -> None:
        digest = hashlib.sha256(repr((what, facts)).encode()).hexdigest()[:16]
        self._whole.update(digest.encode())
        if len(self.events) < MOST_EVENTS:
            self.events.append(TrailEvent(what[:100], *place, digest))

    def _told(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            layout = None
            if value.layout == torch.strided:
                layout = (tuple(value.shape), value.stride(), value.storage_offset())
            return (
                "tensor",
                self._number(value),
                layout,
                str(value.dtype),
                value.device.type if self._has_devices else "",
            )
        if isinstance(value, dict):
            return [(str(key), self._told(item)) for key, item in sorted(value.items(), key=lambda item: str(item[0]))]
        if isinstance(value, list | tuple):
            return [self._told(item) for item in value]
        if hasattr(value, "block_shape"):  # a tensor descriptor
            return [self._told(getattr(value, name)) for name in ("base", "shape", "strides", "block_shape")]
        return _plain(value) if self._has_devices or not isinstance(value, torch.device) else "device"

    def _number(self, tensor: torch.Tensor) -> int:
        reference = StorageWeakRef(tensor.untyped_storage())
        known = self._storages.get(reference.cdata)
        if known is None or known[0].expired():
            self._met += 1
            known = self._storages[reference.cdata] = (reference, self._met)
        return known[1]


def bound(fn: Any, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a kernel by name, as Triton gives them to the function of a grid."""
    parameters = inspect.signature(fn).parameters
    defaults = {name: item.default for name, item in parameters.items() if item.default is not inspect.Parameter.empty}
    return defaults | dict(zip(parameters, args, strict=False)) | {k: v for k, v in named.items() if k in parameters}


def _plain(value: Any) -> str:
    if type(value).__name__ == "constexpr":
        return _plain(value.value)
    if isinstance(value, bool | int | float | complex | str | type(None) | torch.dtype | torch.device | torch.layout):
        return f"{type(value).__name__} {value!r}"
    inner = function_of(value)
    return _of_kind(value) if inner is None else f"kernel {inner.__name__} {list(_names(inner, set()))}"


def function_of(value: Any) -> types.FunctionType | None:
    """The function of a kernel, which may stand within autotuners; None of anything else, and of Triton's own."""
    own = tiles.function_of(value) or threads.function_of(value)
    if own is not None:
        return own
    inner = getattr(value, "fn", None)
    while inner is not None and not isinstance(inner, types.FunctionType):
        inner = getattr(inner, "fn", None)
    return None if inner is None or (inner.__module__ or "").startswith("triton.") else inner


def _of_kind(value: Any) -> str:
    kind = type(value)
    if kind.__module__.startswith("triton.language") and kind.__name__ in ("dtype", "pointer_type"):
        return str(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _literal(value: Any) -> Any:
    is_small = isinstance(value, torch.Tensor) and not value.is_meta and value.numel() <= _MOST_LITERALS
    return repr(value.tolist()) if is_small else None


def _names(fn: Any, seen: set[int]) -> Iterator[tuple[str, str]]:
    """What the text of a kernel, and of the kernels that it calls, names outside of it."""
    if id(fn.__code__) in seen:
        return
    seen.add(id(fn.__code__))
    for name in sorted(set(_loaded(fn.__code__))):
        if name not in fn.__globals__ or name in lanes.noting:
            continue
        value = fn.__globals__[name]
        inner = function_of(value)
        if inner is None:
            yield name, _plain(value)
        else:
            yield from _names(inner, seen)
    yield "()", repr([_plain(value) for value in fn.__defaults__ or ()])
    yield "{}", _body(fn.__code__)


@functools.cache
def _body(code: types.CodeType) -> str:
    """A digest of what a kernel does: its tree without decorators, annotations and a docstring."""
    node = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    assert isinstance(node, ast.FunctionDef)
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    for part in (item for statement in body for item in ast.walk(statement)):
        if isinstance(part, ast.AnnAssign):
            part.annotation = ast.Constant(None)
    facts = [ast.dump(statement) for statement in body if not isinstance(statement, ast.Pass)]
    return hashlib.sha256(repr([[arg.arg for arg in node.args.args], facts]).encode()).hexdigest()


@functools.cache
def _loaded(code: types.CodeType) -> tuple[str, ...]:
    names = [item.argval for item in dis.get_instructions(code) if item.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inner = [_loaded(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return tuple(itertools.chain(names, *inner))
