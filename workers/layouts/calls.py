"""A problem's CALL as a value: the symbol that it calls, the adapter around it, and the workloads of recorded calls. Pure."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection
from dataclasses import dataclass, field

from gpu_runner.contracts import (
    CandidateSource,
    InputSpec,
    Problem,
    RecordedCall,
    RecordedTensor,
    RecordResult,
    SourceFile,
    Workload,
)
from gpu_runner.contracts.problem import DTYPES
from gpu_runner.contracts.reading import UNPARSABLE
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError

# What a call may do with an input besides giving it: nothing that computes.
VIEWS = frozenset(
    {"contiguous", "flatten", "numel", "reshape", "size", "squeeze", "t", "transpose", "unsqueeze", "view"}
)
PROPERTIES = frozenset({"device", "dtype", "shape"})
MAX_CHARS = 1000
FUNCTION_BASE = "Function"


@dataclass(frozen=True)
class KernelCall:
    """``symbol`` is called, or its ``apply`` where it is an autograd Function; ``index`` picks one of a tuple of results."""

    symbol: str
    applied: bool
    arguments: tuple[ast.expr, ...]
    index: int | None = None

    def source(self, symbol: str) -> str:
        """The call as one line of source, with another name for its symbol."""
        target: ast.expr = ast.Name(symbol, ast.Load())
        if self.applied:
            target = ast.Attribute(target, "apply", ast.Load())
        made: ast.expr = ast.Call(target, list(self.arguments), [])
        if self.index is not None:
            made = ast.Subscript(made, ast.Constant(self.index), ast.Load())
        return ast.unparse(made)


def read_call(text: str) -> KernelCall | None:
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
    return KernelCall(name.id, applied, tuple(node.args), index)


def fits(call: KernelCall, source: str) -> bool:
    """Whether a file defines what is called, and it takes that many arguments."""
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
    """Whether a class is an autograd Function."""
    names = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
    return FUNCTION_BASE in names


def defined_functions(source: str) -> tuple[str, ...]:
    """The autograd Functions that a file defines, in their order."""
    try:
        body = _definitions(ast.parse(source).body)
    except UNPARSABLE:
        return ()
    return tuple(dict.fromkeys(node.name for node in body if isinstance(node, ast.ClassDef) and is_function(node)))


def _definitions(body: list[ast.stmt]) -> list[ast.ClassDef | ast.FunctionDef]:
    definitions: list[ast.ClassDef | ast.FunctionDef] = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            definitions.append(node)
        elif isinstance(node, ast.If):
            definitions += _definitions([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            definitions += _definitions([*node.body, *(s for h in node.handlers for s in h.body), *node.orelse])
    return definitions


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
    if isinstance(node, ast.List | ast.Tuple):
        return all(isinstance(item, ast.Constant | ast.UnaryOp) and _is_plain(item) for item in node.elts)
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


# It has a folder of its own that stands first on the path, so that no file of the repository can take its place.
FOLDER = ".kernelsmith/form"
MODULE = "kernelsmith_form"
PATH = f"{FOLDER}/{MODULE}.py"
SYMBOL = "candidate"


def kernel_form(
    problem: Problem, module: str, roots: tuple[str, ...], changes: tuple[FileChange, ...], tree_file: str
) -> CandidateSource:
    """An existing kernel, with changes laid over its repository, as its problem's CALL calls it.

    Raises:
        UserFacingError: the problem has no CALL that can be used.
    """
    files = tuple(SourceFile(c.path, c.text) for c in changes if c.text is not None and c.path != PATH)
    return CandidateSource(
        files=(*files, SourceFile(PATH, adapter_source(problem, module))),
        module=MODULE,
        symbol=SYMBOL,
        tree=tree_file,
        import_roots=(FOLDER, *roots),
        screened=(*(file.path for file in files if file.path.endswith(".py")), PATH),
    )


def adapter_source(problem: Problem, module: str) -> str:
    """The adapter's source, built from the parsed CALL, so that nothing of its text can leave its expression.

    Raises:
        UserFacingError: the problem has no CALL that can be used.
    """
    call, arguments = call_of(problem), _signature(problem)
    names = {node.id for argument in call.arguments for node in ast.walk(argument) if isinstance(node, ast.Name)}
    if not names <= set(problem.parameters):
        raise _unusable("it uses names that `reference` does not take")
    alias = _free("standing_kernel", {*problem.parameters, SYMBOL})
    imported = f"from {module} import {call.symbol} as {alias}"
    return f"{imported}\n\n\ndef {SYMBOL}({arguments}):\n    return {call.source(alias)}\n"


def call_of(problem: Problem) -> KernelCall:
    """The CALL of a problem.

    Raises:
        UserFacingError: there is none, or it is not of a form that is taken.
    """
    if problem.call is None:
        raise _unusable("it says nowhere how the library's kernel is called")
    call = read_call(problem.call)
    if call is None:
        raise _unusable("its CALL is more than one call with plain arguments")
    return call


def _signature(problem: Problem) -> str:
    functions = [n for n in ast.parse(problem.source).body if isinstance(n, ast.FunctionDef) and n.name == "reference"]
    if not functions:
        raise _unusable("it has no `reference`")
    arguments = functions[-1].args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    return ast.unparse(arguments)


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _unusable(why: str) -> UserFacingError:
    fix = 'Write the call into the problem, such as CALL = "LigerFooFunction.apply(x, w, eps)".'
    return UserFacingError(
        Failure(FailureCode.problem, f"the problem cannot be used for an existing kernel: {why}", fix)
    )


MOST = 8
LARGEST = 2**31
Value = int | float | bool | str | None


def workloads_of(problem: Problem, recorded: RecordResult) -> tuple[Workload, ...]:
    """The distinct workloads of the recorded calls that are calls of the problem, the largest first, at most ``MOST``."""
    call = read_call(problem.call or "")
    if call is None:
        return ()
    bound = [_bound(problem, call, one) for one in recorded.calls]
    workloads = dict.fromkeys(workload for workload in bound if workload is not None)
    ordered = sorted(workloads, key=lambda workload: (-_elements(problem, workload), workload.label()))
    return _thinned(ordered)


@dataclass
class _Binding:
    """Sizes, scalars and dtype of one recorded call; a contradiction ends it."""

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
        if spec.default is not None and not _same_kind(spec.default, value):
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
        """The workload; None where a dimension or a scalar that must be given stayed open."""
        wanted = [*self.problem.dimensions, *(s.high for s in self.problem.inputs if isinstance(s.high, str))]
        if self.dtype not in self.problem.dtypes or any(dim not in self.sizes for dim in wanted):
            return None
        defaults = {spec.name: spec.default for spec in self.problem.scalars}
        if any(default is None and name not in self.scalars for name, default in defaults.items()):
            return None
        given = [(n, v) for n, v in self.scalars.items() if v is not None and not _same(defaults[n], v)]
        sizes = tuple((dim, self.sizes[dim]) for dim in dict.fromkeys(wanted))
        return Workload(sizes, self.dtype, tuple(given))


def _bound(problem: Problem, call: KernelCall, recorded: RecordedCall) -> Workload | None:
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


def _same_kind(one: Value, other: Value) -> bool:
    """Whether two values are of one kind; a whole number may stand for a float."""
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
