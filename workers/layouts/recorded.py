"""Workloads from recorded calls: a problem's CALL is bound to what a library's own script gave the kernel. Pure."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field

from gpu_runner.contracts import InputSpec, Problem, RecordedCall, RecordedTensor, RecordResult, Workload
from gpu_runner.contracts.problem import DTYPES
from workers.layouts.calls import Call, read_call

MOST = 8
LARGEST = 2**31
Value = int | float | bool | str | None


def workloads_of(problem: Problem, recorded: RecordResult) -> tuple[Workload, ...]:
    """Give the distinct workloads of the recorded calls that are calls of the problem, the largest first, at most ``MOST``."""
    call = read_call(problem.call or "")
    if call is None:
        return ()
    bound = [_bound(problem, call, one) for one in recorded.calls]
    found = dict.fromkeys(workload for workload in bound if workload is not None)
    ordered = sorted(found, key=lambda workload: (-_elements(problem, workload), workload.label()))
    return _thinned(ordered)


@dataclass
class _Binding:
    """What one recorded call says of sizes, scalars and the dtype; a contradiction ends it."""

    problem: Problem
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, Value] = field(default_factory=dict)
    dtype: str | None = None

    def takes(self, node: ast.expr, value: RecordedTensor | Value) -> bool:
        """Bind one argument of CALL, or hold it against what is bound; False where they disagree."""
        if isinstance(node, ast.Name):
            spec = next((spec for spec in self.problem.inputs if spec.name == node.id), None)
            return self._scalar(node.id, value) if spec is None else self._tensor(spec, value)
        if isinstance(value, RecordedTensor):
            return False
        known, expected = self._value(node)
        return known and _same(expected, value)

    def _tensor(self, spec: InputSpec, value: RecordedTensor | Value) -> bool:
        if not isinstance(value, RecordedTensor) or len(value.shape) < len(spec.dims):
            return False
        if spec.dtype is not None and value.dtype != spec.dtype:
            return False
        if spec.dtype is None and not spec.parameter:
            # A script may keep its weights in float32; the dtype of a workload is that of what is computed on.
            if value.dtype not in DTYPES or self.dtype not in (None, value.dtype):
                return False
            self.dtype = value.dtype
        more = len(value.shape) - len(spec.dims)
        if more and (spec.parameter or not spec.dims):
            return False
        shape = (math.prod(value.shape[: more + 1]), *value.shape[more + 1 :]) if more else value.shape
        return all(self._dimension(dim, size) for dim, size in zip(spec.dims, shape, strict=True))

    def _dimension(self, dim: str, size: int) -> bool:
        if dim.isdigit():
            return int(dim) == size
        return 0 < size < LARGEST and self.sizes.setdefault(dim, size) == size

    def _scalar(self, name: str, value: RecordedTensor | Value) -> bool:
        spec = next((spec for spec in self.problem.scalars if spec.name == name), None)
        if spec is None or value is None or isinstance(value, RecordedTensor):
            return False
        if spec.default is not None and not _alike(spec.default, value):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return _same(self.scalars.setdefault(name, value), value)

    def _value(self, node: ast.expr) -> tuple[bool, Value]:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            dims = next((s.dims for s in self.problem.inputs if s.name == getattr(node.value.value, "id", "")), ())
            at = _constant(node.slice)
            if isinstance(at, int) and -len(dims) <= at < len(dims):
                dim = dims[at]
                return (True, int(dim)) if dim.isdigit() else (dim in self.sizes, self.sizes.get(dim))
            return False, None
        plain = isinstance(node, ast.Constant | ast.UnaryOp)
        return plain, _constant(node) if plain else None

    def workload(self) -> Workload | None:
        """Give the workload; None where a dimension or a scalar that must be given stayed open."""
        wanted = [*self.problem.dimensions, *(s.high for s in self.problem.inputs if isinstance(s.high, str))]
        if self.dtype not in self.problem.dtypes or any(dim not in self.sizes for dim in wanted):
            return None
        defaults = {spec.name: spec.default for spec in self.problem.scalars}
        if any(default is None and name not in self.scalars for name, default in defaults.items()):
            return None
        given = [(n, v) for n, v in self.scalars.items() if v is not None and not _same(defaults[n], v)]
        sizes = tuple((dim, self.sizes[dim]) for dim in dict.fromkeys(wanted))
        return Workload(sizes, self.dtype, tuple(given))


def _bound(problem: Problem, call: Call, recorded: RecordedCall) -> Workload | None:
    binding, given = _Binding(problem), recorded.arguments
    # What a call leaves out has its default; what it gives beyond CALL must be nothing.
    if any(value is not None for value in given[len(call.arguments) :]):
        return None
    pairs = list(zip(call.arguments, given, strict=False))
    # Tensors first: a literal such as x.shape[1] is known by their sizes.
    pairs.sort(key=lambda pair: not isinstance(pair[0], ast.Name))
    if not all(binding.takes(node, value) for node, value in pairs):
        return None
    return binding.workload()


def _constant(node: ast.expr) -> Value:
    if isinstance(node, ast.UnaryOp):
        inner = _constant(node.operand)
        return -inner if isinstance(inner, int | float) else None
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float | str) else None


def _same(one: Value, other: Value) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _alike(one: Value, other: Value) -> bool:
    """Tell whether two values are of one kind; a whole number may stand for a float."""
    if isinstance(one, bool) or isinstance(other, bool):
        return isinstance(one, bool) and isinstance(other, bool)
    return isinstance(one, str) == isinstance(other, str)


def _elements(problem: Problem, workload: Workload) -> int:
    sizes = dict(workload.sizes)
    return sum(math.prod(int(dim) if dim.isdigit() else sizes[dim] for dim in spec.dims) for spec in problem.inputs)


def _thinned(ordered: list[Workload]) -> tuple[Workload, ...]:
    """Keep the largest, the smallest, and some between them at equal distances."""
    if len(ordered) <= MOST:
        return tuple(ordered)
    last = len(ordered) - 1
    return tuple(ordered[round(i * last / (MOST - 1))] for i in range(MOST))
