"""The emitted module: imports, helpers, device functions, settings, kernels, and the functions that callers see. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from gpu_runner.contracts import Pass
from workers.authors.compiler.expressions import OF_POSITIVE, plain, spelled
from workers.authors.compiler.languages import CUTE, CUTILE, LANGUAGES, TRITON, Language
from workers.authors.compiler.launchers import launchers
from workers.authors.compiler.programs import LauncherCall, Programs
from workers.authors.compiler.schedules import SCHEDULES
from workers.authors.compiler.statements import autograd_function, function, prefixed, wrapped
from workers.authors.compiler.values import TileValue
from workers.authors.protocol import SourceStyle

_SIGMOID = """@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))"""

_TANH_SERIES = """    # Near zero 1 - exp(-2x) loses its digits, so that a polynomial takes over (Cephes, tanhf).
    square = x * x
    series = -5.70498872745e-3 * square + 2.06390887954e-2
    series = series * square - 5.37397155531e-2
    series = series * square + 1.33314422036e-1
    series = series * square - 3.33332819422e-1
    # tanh is 1 - 2 / (1 + exp(2x)) further out; a reciprocal root squared takes fewer instructions than a division."""

_TANH = f"""@triton.jit
def _tanh(x):
{_TANH_SERIES}
    root = tl.rsqrt(1.0 + tl.exp2(2.8853900817779268 * tl.abs(x)))
    far = 1.0 - 2.0 * root * root
    return tl.where(tl.abs(x) < 0.625, x + x * square * series, tl.where(x < 0, -far, far))"""

_POSITIVE_TANH = f"""@triton.jit
def _positive_tanh(x):
{_TANH_SERIES}
    root = tl.rsqrt(1.0 + tl.exp2(2.8853900817779268 * x))
    return tl.where(x < 0.625, x + x * square * series, 1.0 - 2.0 * root * root)"""

_LOG1P = """@triton.jit
def _log1p(x):
    # What 1 + x rounds away is put back where the logarithm is steep.
    u = 1.0 + x
    return tl.log(u) + tl.where(x < 0.5, x - (u - 1.0), 0.0)"""

_EXPM1 = """@triton.jit
def _expm1(x):
    # Near zero exp(x) - 1 loses its digits; the series is exact to float32 there.
    series = x * (1.0 + x * (0.5 + x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720))))))
    return tl.where(tl.abs(x) < 0.35, series, tl.exp(x) - 1.0)"""

_SIGN = """@triton.jit
def _sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))"""

_TRUNC = """@triton.jit
def _trunc(x):
    return tl.where(x < 0, tl.ceil(x), tl.floor(x))"""

_ROUND = """@triton.jit
def _round(x):
    # Halves go to the even neighbour, as torch rounds.
    below = tl.floor(x)
    odd = below - 2.0 * tl.floor(0.5 * below)
    up = (x - below > 0.5) | ((x - below == 0.5) & (odd == 1.0))
    return tl.where(up, below + 1.0, below)"""

_FMOD = """@triton.jit
def _fmod(x, y):
    quotient = x / y
    return x - y * tl.where(quotient < 0, tl.ceil(quotient), tl.floor(quotient))"""

_POW = """@triton.jit
def _pow(x, exponent):
    power = tl.exp2(exponent * tl.log2(tl.abs(x)))
    odd = exponent - 2.0 * tl.floor(0.5 * exponent) == 1.0
    negative = (x < 0) | (1.0 / x < 0)  # -0.0 is not below 0, and its reciprocal is
    # A factor, since Triton negates by subtracting from 0, which gives no -0.0.
    power = tl.where(odd, power * tl.where(negative, -1.0, 1.0), power)
    # A negative number has a power only where the exponent is whole; zeros and infinities have all.
    below = tl.where(tl.floor(exponent) == exponent, power, float("nan"))
    power = tl.where((x < 0) & (x > float("-inf")), below, power)
    return tl.where(exponent == 0, 1.0, power)"""

_POSITIVE_POW = """@triton.jit
def _positive_pow(x, exponent):
    return tl.where(exponent == 0, 1.0, tl.exp2(exponent * tl.log2(x)))"""

_MULTIPLIED = """@triton.jit
def _multiplied(x, y):
    return x * y"""

_SOURCES = {  # in Triton's words
    "sigmoid": _SIGMOID,
    "tanh": _TANH,
    f"tanh{OF_POSITIVE}": _POSITIVE_TANH,
    "log1p": _LOG1P,
    "expm1": _EXPM1,
    "sign": _SIGN,
    "trunc": _TRUNC,
    "round": _ROUND,
    "fmod": _FMOD,
    "pow": _POW,
    f"pow{OF_POSITIVE}": _POSITIVE_POW,
    "prod": _MULTIPLIED,
}

_IN_CUTILE = {
    "sigmoid": """@ct.function
def _sigmoid(x):
    exp = ct.exp(-x, rounding_mode=ct.RoundingMode.APPROX)
    return ct.truediv(1.0, 1.0 + exp, rounding_mode=ct.RoundingMode.FULL)"""
}


def device_functions(values: list[TileValue], language: Language = TRITON) -> list[str]:
    """The source of the device functions that values call, each once, in a language that spells functions of numbers as Triton."""
    kinds = {str(value.datum).partition(" ")[0] for value in values if value.op in {"over_cols", "scan"}}
    used = {spelled(value, language.dialect) for value in values} | kinds
    own = {op for op, text in language.dialect.calls.items() if not text.startswith("_")}
    words = _SOURCES | _IN_CUTILE if language is CUTILE else _SOURCES
    sources = [source for op, source in words.items() if op in used - own]
    if language is TRITON:
        return sources
    own_words = {"tl.where": "_where", "tl.": "cute.math."} if language is CUTE else {"tl.": f"{language.module}."}
    for word, other in own_words.items():
        sources = [re.sub(rf"\b{re.escape(word)}", other, source) for source in sources]
    return [source.replace(TRITON.function, language.function) for source in sources]


CALCULATE_SETTINGS = '''def calculate_settings(n):
    """The block size and the number of warps for n elements."""
    BLOCK_SIZE = triton.next_power_of_2(n)
    if BLOCK_SIZE > 65536:
        raise RuntimeError(f"{n} elements are more than one block holds")
    num_warps = 4
    if BLOCK_SIZE >= 32768:
        num_warps = 32
    elif BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 2048:
        num_warps = 8
    return BLOCK_SIZE, num_warps'''

ENSURE_CONTIGUOUS = '''def ensure_contiguous(fn):
    """Hand contiguous tensors to forward and backward."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        return fn(ctx, *(arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return wrapper'''

DEVICE_CONTEXT = '''def device_context(device):
    """Launch on the device of the tensors, whichever is current."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    return contextlib.nullcontext()'''

HELPERS = {
    "calculate_settings": (CALCULATE_SETTINGS, None),
    "device_context": (DEVICE_CONTEXT, "contextlib"),
    "ensure_contiguous": (ENSURE_CONTIGUOUS, "functools"),
}
# The assignment is found and replaced when a table is settled.
TUNED = '''TUNED = {}


def _tuned(device, timed_pass, size, **settings):
    """The settings for this size; what was found by measuring on this architecture takes the place of the rule's."""
    if not TUNED:
        return settings
    architecture = device.type
    if architecture == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        architecture = f"sm_{major}{minor}"
    for largest, found in TUNED.get(architecture, {}).get(timed_pass, ()):
        if size <= largest:
            return {**settings, **found}
    return settings'''

SUM_PARTIALS = '''@triton.jit
def _sum_partials_kernel(
    total_ptr,
    partials_ptr,
    n_partials,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """
    total = sum_rows(partials)
    """
    cols = (tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE))[None, :]
    total = tl.zeros((BLOCK_ROWS, BLOCK_SIZE), dtype=tl.float32)
    for start in range(0, n_partials, BLOCK_ROWS):
        rows = (start + tl.arange(0, BLOCK_ROWS)).to(tl.int64)[:, None]
        mask = (rows < n_partials) & (cols < n_cols)
        total += tl.load(partials_ptr + rows * n_cols + cols, mask=mask, other=0.0)
    tl.store(total_ptr + cols, tl.sum(total, axis=0, keep_dims=True), mask=cols < n_cols)


def _sum_partials(partials, dtype):
    """Add up what the programs left, a row each, in one kernel."""
    total = torch.empty(partials.shape[1:], dtype=dtype, device=partials.device)
    n_partials, n_cols = partials.shape[0], total.numel()
    BLOCK_ROWS, BLOCK_SIZE = 256, 32
    with device_context(partials.device):
        _sum_partials_kernel[(triton.cdiv(n_cols, BLOCK_SIZE),)](
            total,
            partials,
            n_partials,
            n_cols,
            BLOCK_ROWS=BLOCK_ROWS,
            BLOCK_SIZE=BLOCK_SIZE,
            num_warps=4,
        )
    return total'''


# Functions that launchers and kernels call, by the beginning of the call; those of the schedules stand between these two.
SETTINGS = {
    "_tuned(": TUNED,
    **{
        call: source
        for schedule in chain.from_iterable(SCHEDULES.values())
        for call, source in schedule.SOURCES.items()
    },
    "_sum_partials(": SUM_PARTIALS,
}
LIBDEVICE_TANH = ("triton.language.extra.libdevice", "tanh")


@dataclass(frozen=True)
class Imports:
    """What the module imports, and the helpers that it has to define because the target lacks them."""

    lines: tuple[str, ...]
    helpers: tuple[str, ...]


@dataclass(frozen=True)
class Rendered:
    """A source, and the imports that it needs where it is a section of another file."""

    source: str
    imports: tuple[str, ...] = ()


def render(programs: Programs, style: SourceStyle) -> Rendered:
    """The module's source, or the section's."""
    functions = _functions(programs, style)
    stages = [schedule for design in programs.designs for schedule in design.passes]
    values = [value for schedule in stages for value in schedule.task.values]
    kernels = [kernel.source for schedule in stages for kernel in schedule.kernels]
    text = "\n".join(functions)
    functions_of = device_functions(values, LANGUAGES[style.target])
    settings = _settings_in("\n".join([text, *kernels, *functions_of]))
    imports = _imports(style, "\n".join([text, *settings]), any(value.op == "libdevice_tanh" for value in values))
    blocks = [*imports.helpers, *functions_of, *settings, *dict.fromkeys(kernels), *functions]
    source = prefixed("\n\n\n".join(blocks) + "\n", style)
    if style.section:
        return Rendered(wrapped(source, style.line_length), tuple(filter(None, imports.lines)))
    gap = "\n\n" if source.startswith("TUNED") else "\n\n\n"  # as the formatter of imports has it before an assignment
    return Rendered("\n".join(imports.lines) + gap + wrapped(source, style.line_length))


def _settings_in(text: str) -> list[str]:
    """The functions that launchers and kernels call, and those that these call, in the table's order."""
    called = {call for call in SETTINGS if call in text}
    called |= {call for call in SETTINGS if any(call in SETTINGS[other] for other in called if other != call)}
    return [source for call, source in SETTINGS.items() if call in called]


def _imports(style: SourceStyle, text: str, tanh: bool) -> Imports:
    offered = dict(style.helpers)
    used = [name for name in sorted({*HELPERS, *offered}) if name in text]
    missing = [name for name in used if name not in offered]
    standard = sorted(
        {module for name in missing if (module := HELPERS[name][1]) is not None}
        | {module for module in ("functools",) if f"@{module}." in text}
    )
    lines = [f"import {module}" for module in standard]
    language = LANGUAGES[style.target].imports
    lines += [*([""] if standard else []), *sorted(["import torch", *language], key=lambda line: line.split()[1])]
    given = sorted([*((offered[name], name) for name in used if name in offered), *([LIBDEVICE_TANH] if tanh else [])])
    lines += ["", *_from_imports(given, style.single_line_imports)] if given else []
    return Imports(tuple(lines), tuple(HELPERS[name][0] for name in missing))


def _from_imports(given: list[tuple[str, str]], single: bool) -> list[str]:
    if single:
        return [f"from {module} import {name}" for module, name in given]
    modules = dict.fromkeys(module for module, _ in given)
    return [f"from {module} import {', '.join(name for other, name in given if other == module)}" for module in modules]


def _functions(programs: Programs, style: SourceStyle) -> list[str]:
    """All functions of a module, or of a section, which has no autograd function and no entry."""
    is_one = len(programs.members) == 1 and programs.members[0].step_of is None
    functions: list[str] = []
    for member in programs.members:
        own = replace(style, section=True, forward_function=member.forward, backward_function=member.backward)
        functions += launchers(member.design, style if is_one else own)
    if not is_one:
        functions = [*dict.fromkeys(functions), _forward(programs, style)]
        functions += [_backward(programs, style)] if programs.gradients else []
    if style.section:
        return functions
    if style.once_differentiable and programs.gradients:
        functions.append(_gradients_function(programs, style))
    return [*functions, _autograd_function(programs, style), *([_entry(programs, style)] if style.entry else [])]


def _forward(programs: Programs, style: SourceStyle) -> str:
    """The function that calls the launchers of every program."""
    results = [*programs.names.outputs, *programs.saved]
    lines = [f'"""Compute {", ".join(results)} of contiguous tensors."""'] if style.section else []
    lines += [_called(call) for call in programs.calls(Pass.forward)]
    return function(style, style.forward_function, programs.parameters, [*lines, f"return {', '.join(results)}"])


def _called(call: LauncherCall) -> str:
    return f"{', '.join(call.results)} = {call.function}({', '.join(call.arguments)})"


def _backward(programs: Programs, style: SourceStyle) -> str:
    """The function that computes the gradients; of a section, it returns those of all inputs that have one."""
    lines = [_called(call) for call in programs.calls(Pass.backward)]
    results = ", ".join(programs.gradients.values() if style.section else programs.backward_results)
    if style.section:
        memory = [
            f" {m.table.get(name, name)} takes the memory of {m.table[taken]}."
            for m in programs.members
            for name, taken in (m.design.backward.overwrites if m.design.backward else ())
        ]
        lines.insert(0, f'"""Compute {results} of contiguous tensors.{"".join(memory)}"""')
    return function(style, style.backward_function, programs.backward_arguments, [*lines, f"return {results}"])


def _autograd_function(programs: Programs, style: SourceStyle) -> str:
    names, graph, outputs = programs.names, programs.graph, programs.names.outputs
    scalars = [name for name in programs.backward_arguments if name in names.scalars.values()]
    kept = [name for name in programs.backward_arguments if name not in (*scalars, *programs.upstream)]
    results = ", ".join([*outputs, *programs.saved])
    forward = [f"{results} = {style.forward_function}({', '.join(programs.parameters)})"]
    forward += [f"ctx.save_for_backward({', '.join(kept)})"] if kept else []
    forward += [f"ctx.{name} = {name}" for name in scalars]
    silent = [name for name, node in zip(outputs, graph.upstream, strict=True) if node is None]
    forward += [f"ctx.mark_non_differentiable({', '.join(silent)})"] if silent else []
    forward.append(f"return {', '.join(outputs)}{',' if graph.tuple_output and len(outputs) == 1 else ''}")
    backward = []
    if programs.backward_results:
        if kept:
            backward.append(f"{f'({kept[0]},)' if len(kept) == 1 else ', '.join(kept)} = ctx.saved_tensors")
        arguments = ", ".join(f"ctx.{name}" if name in scalars else name for name in programs.backward_arguments)
        called = f"{_gradients_class(style)}.apply" if style.once_differentiable else style.backward_function
        backward.append(f"{', '.join(programs.backward_results)} = {called}({arguments})")
    backward.append(f"return {', '.join(programs.gradients.get(n, 'None') for n in programs.problem.parameters)}")
    title = programs.problem.title or "Computes the formulas of its kernels."
    own = _with_defaults(programs, programs.parameters, names.scalars)
    methods = ("forward", own, forward), ("backward", programs.upstream, backward)
    return autograd_function(style, style.function_class, title, methods, ("ensure_contiguous",))


def _gradients_class(style: SourceStyle) -> str:
    return f"{style.function_class.removesuffix('Function')}Gradients"


def _gradients_function(programs: Programs, style: SourceStyle) -> str:
    """The backward as a function of autograd's own, by which a second derivative reaches it, and raises."""
    call = f"return {style.backward_function}({', '.join(programs.backward_arguments)})"
    error = 'raise RuntimeError("there is no second derivative")'
    methods = ("forward", programs.backward_arguments, [call]), ("backward", ["*upstream"], [error])
    return autograd_function(style, _gradients_class(style), "Gradients, which have no derivative.", methods)


def _entry(programs: Programs, style: SourceStyle) -> str:
    """A function with the reference's own signature."""
    parameters, own = programs.problem.parameters, {spec.name: spec.name for spec in programs.problem.scalars}
    call = f"return {style.function_class}.apply({', '.join(parameters)})"
    return function(style, str(style.entry), _with_defaults(programs, parameters, own), [call])


def _with_defaults(programs: Programs, arguments: Iterable[str], scalars: dict[str, str]) -> list[str]:
    """Parameters with the problem's defaults, which stand only where every later parameter has one too."""
    defaults = {scalars[spec.name]: spec.default for spec in programs.problem.scalars}
    result: list[str] = []
    trailing = True
    for name in reversed(list(arguments)):
        trailing = trailing and defaults.get(name) is not None
        result.insert(0, f"{name}={_literal(defaults[name])}" if trailing else name)
    return result


def _literal(value: float | bool | str | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return plain(value)
