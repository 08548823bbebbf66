"""The problem file, read without running it: what is to be computed, on which inputs, at which sizes, and
by which call a library computes it. Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts.reading import UNPARSABLE, SourceError, check_characters, read_source, walk

RAISES = "raises"  # label of what says that a double backward raises, as it may

CALL_FIX = (
    'Write one call over the reference\'s parameters as text, such as CALL = "LigerFooFunction.apply(x, w, eps)".'
)

PLAIN = (
    ast.Call,
    ast.Attribute,
    ast.Name,
    ast.Constant,
    ast.Subscript,
    ast.UnaryOp,
    ast.USub,
    ast.List,
    ast.Tuple,
    ast.expr_context,
)


def checked_call(text: Any, parameters: Sequence[str]) -> str:
    """The text of a CALL that is one call with plain arguments in their order, with one item of its result at most.

    Raises:
        ValueError: it is anything else, or uses a name that is no parameter of the reference.
    """
    try:
        tree = ast.parse(text, mode="eval").body if isinstance(text, str) else None
    except UNPARSABLE as error:
        raise ValueError("CALL is not an expression") from error
    call = tree.value if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant) else tree
    if not isinstance(call, ast.Call) or call.keywords or not all(isinstance(node, PLAIN) for node in walk(call)):
        raise ValueError("CALL is not one call with plain arguments in their order")
    named = {node.id for argument in call.args for node in walk(argument) if isinstance(node, ast.Name)}
    for name in sorted(named - set(parameters)):
        raise ValueError(f"CALL uses `{name}`, which `reference` does not take")
    return str(text)


DTYPES = ("float32", "bfloat16", "float16")
INITS = ("normal", "ones", "zeros", "uniform", "log_softmax", "softmax")
INTEGER_DTYPES = ("int64", "int32", "int16", "int8", "uint8", "bool")
NAME_KEYS = ("function", "module", "functional")
MAX_SOURCE_BYTES = 256 * 1024


class ProblemError(ValueError):
    """A problem that cannot be used: what is wrong, on which of its lines, and the fix."""

    def __init__(self, message: str, line: int | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.fix = fix


@dataclass(frozen=True)
class InputSpec:
    """A tensor input. ``dims`` are dimension names or literal sizes, outermost first; empty for a scalar tensor."""

    name: str
    dims: tuple[str, ...]
    dtype: str | None = None  # fixed; None: the workload's
    low: int | None = None  # integers only
    high: int | str | None = None  # integers only; may name a dimension
    init: str = "normal"
    grad: bool = True
    parameter: bool = False  # belongs to the module, not to the call


@dataclass(frozen=True)
class ScalarSpec:
    """A Python number or string argument of the reference; None as ``default`` means that every workload sizes it."""

    name: str
    default: float | int | bool | str | None


@dataclass(frozen=True)
class Workload:
    """One set of dimension sizes (and scalars, where given) and a dtype; None as ``dtype`` means each of the problem's."""

    sizes: tuple[tuple[str, int], ...]
    dtype: str | None = None
    scalars: tuple[tuple[str, float | int | bool | str], ...] = ()

    def label(self) -> str:
        """The workload in one line, such as ``T=4096 I=14336 bfloat16``."""
        parts = [f"{name}={size}" for name, size in self.sizes] + [f"{name}={value}" for name, value in self.scalars]
        return " ".join([*parts, self.dtype] if self.dtype else parts)


@dataclass(frozen=True)
class KernelNames:
    """Names of the library's form; None where the convention fits."""

    function: str | None = None
    module: str | None = None
    functional: str | None = None


@dataclass(frozen=True)
class Problem:
    """A parsed problem. In the KernelBench form (``class Model``) inputs and workloads are empty until it was captured."""

    source: str
    form: str  # "reference" or "kernelbench"
    title: str  # first line of the docstring, may be empty
    inputs: tuple[InputSpec, ...]  # in the order of the reference's parameters
    scalars: tuple[ScalarSpec, ...]
    workloads: tuple[Workload, ...]
    dtypes: tuple[str, ...] = DTYPES
    names: KernelNames = KernelNames()
    mutates: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()  # the reference's parameters, in order: inputs and scalars
    call: str | None = None  # how a library's kernel is called for this problem: an expression over the parameters

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Dimension names, in order of first use; a dimension may be arithmetic over them."""
        return tuple(
            dict.fromkeys(d for spec in self.inputs for dim in spec.dims for d in re.findall(r"[^\W\d]\w*", dim))
        )

    def values_of(self, scalar: ScalarSpec) -> tuple[float | int | bool | str | None, ...]:
        """A scalar's distinct values in the workloads, each where it says none the default; that alone without workloads."""
        given = [dict(workload.scalars).get(scalar.name, scalar.default) for workload in self.workloads]
        return tuple(dict.fromkeys(given)) or (scalar.default,)


def parse_problem(source: str) -> Problem:
    """Parse a problem file without running it.

    Raises:
        ProblemError: it cannot be used; the error has the line and the fix.
    """
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        raise ProblemError("the problem is larger than 256 KiB", fix="Keep only the reference, INPUTS and WORKLOADS.")
    if not source.strip():
        raise ProblemError(
            "the problem is empty", fix="Paste a Python block with `def reference(...)`, INPUTS and WORKLOADS."
        )
    try:
        tree = read_source(source).tree
        title = (ast.get_docstring(tree) or "").strip().split("\n")[0]
        check_characters(title)  # an escape in the docstring is a character of the title
    except SourceError as error:
        message = error.message[0].lower() + error.message[1:].removesuffix(".")
        raise ProblemError(message, error.line, error.fix) from error
    _check_imports(tree)
    values = _literals(tree)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    if "reference" in functions:
        return _parse_reference(source, title, functions["reference"], values)
    if "Model" in classes:
        missing = [name for name in ("get_inputs", "get_init_inputs") if name not in functions]
        if missing:
            raise ProblemError(f"`class Model` is there, but not `{missing[0]}()`", fix=f"Define `{missing[0]}()`.")
        return Problem(source, "kernelbench", title, (), (), (), dtypes=_dtypes(values), names=_names(values))
    raise ProblemError(
        "there is no `reference` in the problem",
        fix="Define `def reference(x: torch.Tensor, ...)` that computes what the kernel should, or a KernelBench `class Model`.",
    )


def _check_imports(tree: ast.Module) -> None:
    for node in walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "."] if node.level == 0 else ["."]
        else:
            continue
        for module in modules:
            allowed = module.split(".")[0] == "torch" or module in {"__future__", "math", "typing"}
            if not allowed:
                fix = "A problem imports torch and nothing else; write out what you need from other modules."
                raise ProblemError(f"the problem imports `{module}`", node.lineno, fix)


def _literals(tree: ast.Module) -> dict[str, tuple[Any, int]]:
    wanted = {"INPUTS", "WORKLOADS", "DTYPES", "NAMES", "MUTATES", "CALL"}
    literals: dict[str, tuple[Any, int]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            name, value = node.target.id, node.value
        else:
            continue
        if name in wanted:
            try:
                literals[name] = (ast.literal_eval(value), node.lineno)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
                fix = f"Write {name} out as plain Python values, without calls or names."
                raise ProblemError(f"{name} is not a plain value", node.lineno, fix) from error
    return literals


def _parse_reference(source: str, title: str, function: ast.FunctionDef, values: dict[str, tuple[Any, int]]) -> Problem:
    parameters, defaults = _signature(function)
    inputs = _inputs(values, parameters, function.lineno)
    scalars = tuple(_scalar(name, defaults, function.lineno) for name in parameters if name not in inputs)
    problem = Problem(
        source,
        "reference",
        title,
        tuple(inputs[name] for name in parameters if name in inputs),
        scalars,
        _workloads(values, inputs, {s.name: s for s in scalars}, function.lineno),
        _dtypes(values),
        _names(values),
        _mutates(values, inputs),
        tuple(parameters),
        _call(values, parameters),
    )
    if not any(spec.dtype is None for spec in problem.inputs):
        raise ProblemError(
            "no input is of floating point", values["INPUTS"][1], "At least one input has the workload's dtype."
        )
    return problem


def _signature(function: ast.FunctionDef) -> tuple[list[str], dict[str, Any]]:
    arguments = function.args
    if arguments.vararg or arguments.kwarg:
        raise ProblemError("`reference` takes *args or **kwargs", function.lineno, "Name every parameter.")
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[str, Any] = {}
    pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
    for argument, default in pairs:
        try:
            defaults[argument.arg] = ast.literal_eval(default)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
            fix = "A scalar's default is a plain number."
            raise ProblemError(f"the default of `{argument.arg}` is not a plain value", default.lineno, fix) from error
    return [a.arg for a in [*positional, *arguments.kwonlyargs]], defaults


def _inputs(values: dict[str, tuple[Any, int]], parameters: list[str], line: int) -> dict[str, InputSpec]:
    if "INPUTS" not in values:
        raise ProblemError("INPUTS is missing", line, 'Say the dimensions of each tensor: INPUTS = {"x": "T H"}.')
    table, at = values["INPUTS"]
    if not isinstance(table, dict) or not table:
        raise ProblemError("INPUTS is not a dict of names", at, 'Write INPUTS = {"x": "T H"}.')
    for name in table:
        if name not in parameters:
            raise ProblemError(
                f"INPUTS names `{name}`, which `reference` does not take", at, "Use the parameter's name."
            )
    return {name: _input(name, entry, at) for name, entry in table.items()}


def _input(name: str, entry: Any, line: int) -> InputSpec:
    entry = {"dims": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict) or not isinstance(entry.get("dims"), str):
        raise ProblemError(f"input `{name}` has no dims", line, f'Write "{name}": "T H", outermost dimension first.')
    known = {"dims", "dtype", "low", "high", "init", "grad", "role"}
    for key in entry:
        if key not in known:
            raise ProblemError(
                f"input `{name}` has an unknown key `{key}`", line, f"Known keys: {', '.join(sorted(known))}."
            )
    dims = tuple(entry["dims"].split())
    for dim in dims:
        if not (dim.isidentifier() or (dim.isdigit() and 0 < int(dim) < 2**31)):
            raise ProblemError(
                f"`{dim}` is not the name of a dimension", line, "A dimension is a name such as T, or a whole number."
            )
    dtype, init, role = entry.get("dtype"), entry.get("init", "normal"), entry.get("role")
    if dtype is not None and dtype not in (*DTYPES, "float64", *INTEGER_DTYPES):
        raise ProblemError(f"input `{name}` has an unknown dtype `{dtype}`", line, "Use torch's name, such as int64.")
    if init not in INITS:
        raise ProblemError(f"input `{name}` has an unknown init `{init}`", line, f"Known: {', '.join(INITS)}.")
    if role not in (None, "parameter"):
        raise ProblemError(f"input `{name}` has an unknown role `{role}`", line, 'The one role is "parameter".')
    low, high = entry.get("low"), entry.get("high")
    if (low is not None and not isinstance(low, int)) or (high is not None and not isinstance(high, int | str)):
        raise ProblemError(f"low and high of `{name}` are not whole numbers", line, "`high` may also name a dimension.")
    whole = dtype in INTEGER_DTYPES
    if whole and dtype != "bool" and high is None:
        raise ProblemError(f"integer input `{name}` has no `high`", line, "Say below which number its values stay.")
    grad = bool(entry.get("grad", not whole)) and not whole
    return InputSpec(name, dims, dtype, low, high, init, grad, role == "parameter")


def _scalar(name: str, defaults: dict[str, Any], line: int) -> ScalarSpec:
    default = defaults.get(name)
    if default is not None and not isinstance(default, int | float | bool | str):
        raise ProblemError(
            f"the default of `{name}` is not a number", line, "Scalars are numbers, truth values or strings."
        )
    return ScalarSpec(name, default)


def _workloads(
    values: dict[str, tuple[Any, int]], inputs: dict[str, InputSpec], scalars: dict[str, ScalarSpec], defined_at: int
) -> tuple[Workload, ...]:
    dims = {d for spec in inputs.values() for d in spec.dims if not d.isdigit()}
    dims |= {spec.high for spec in inputs.values() if isinstance(spec.high, str)}
    if "WORKLOADS" not in values:
        raise ProblemError(
            "WORKLOADS is missing", values["INPUTS"][1], "Give the sizes to measure: WORKLOADS = [{...}]."
        )
    table, line = values["WORKLOADS"]
    if not isinstance(table, list | tuple) or not table:
        raise ProblemError("WORKLOADS is not a list of sizes", line, 'Write WORKLOADS = [{"T": 4096, "H": 8192}].')
    _require_values(scalars, table, defined_at)
    return tuple(_workload(row, dims, scalars, line) for row in table)


def _require_values(scalars: dict[str, ScalarSpec], table: Any, line: int) -> None:
    for name, spec in scalars.items():
        if spec.default is None and not all(isinstance(row, dict) and name in row for row in table):
            fix = f"Give `{name}` a default, dims in INPUTS if it is a tensor, or a value in every workload."
            raise ProblemError(f"`{name}` has neither dims nor a default", line, fix)


def _workload(row: Any, dims: set[str], scalars: dict[str, ScalarSpec], line: int) -> Workload:
    if not isinstance(row, dict):
        raise ProblemError("a workload is not a dict", line, 'Write {"T": 4096, "H": 8192}.')
    for dim in sorted(dims):
        if dim not in row:
            raise ProblemError(f"no size for dimension `{dim}` in a workload", line, f'Add "{dim}" to every workload.')
        if type(row[dim]) is not int or not 0 < row[dim] < 2**31:
            raise ProblemError(f"the size of `{dim}` is not a positive whole number", line, "Sizes are whole numbers.")
    for key in row:
        if key not in dims and key not in scalars and key != "dtype":
            fix = f"Known here: {', '.join(sorted(dims | set(scalars)))}."
            raise ProblemError(f"a workload names the unknown dimension `{key}`", line, fix)
    dtype = row.get("dtype")
    if dtype is not None and dtype not in DTYPES:
        raise ProblemError(f"a workload has the unknown dtype `{dtype}`", line, f"Known: {', '.join(DTYPES)}.")
    sizes = tuple((key, size) for key, size in row.items() if key in dims)
    return Workload(sizes, dtype, tuple((key, value) for key, value in row.items() if key in scalars))


def _dtypes(values: dict[str, tuple[Any, int]]) -> tuple[str, ...]:
    if "DTYPES" not in values:
        return DTYPES
    table, line = values["DTYPES"]
    if not isinstance(table, list | tuple) or not table or any(d not in DTYPES for d in table):
        raise ProblemError("DTYPES is not a list of known dtypes", line, f"Known: {', '.join(DTYPES)}.")
    return tuple(dict.fromkeys(table))


def _names(values: dict[str, tuple[Any, int]]) -> KernelNames:
    if "NAMES" not in values:
        return KernelNames()
    table, line = values["NAMES"]
    good = isinstance(table, dict) and all(
        key in NAME_KEYS and isinstance(name, str) and name.isidentifier() for key, name in table.items()
    )
    if not good:
        raise ProblemError("NAMES is not a dict of identifiers", line, f"Known keys: {', '.join(NAME_KEYS)}.")
    return KernelNames(**table)


def _mutates(values: dict[str, tuple[Any, int]], inputs: dict[str, InputSpec]) -> tuple[str, ...]:
    if "MUTATES" not in values:
        return ()
    table, line = values["MUTATES"]
    if not isinstance(table, list | tuple) or any(name not in inputs for name in table):
        raise ProblemError("MUTATES names something that is no input", line, "List names of inputs.")
    return tuple(table)


def _call(values: dict[str, tuple[Any, int]], parameters: list[str]) -> str | None:
    if "CALL" not in values:
        return None
    text, line = values["CALL"]
    try:
        return checked_call(text, parameters)
    except ValueError as error:
        raise ProblemError(str(error), line, CALL_FIX) from error
