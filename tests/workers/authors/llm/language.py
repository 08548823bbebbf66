"""What host code and kernels may use, as text; ``python -m tests.workers.authors.llm.language`` writes it into the prompts anew.

The lists are the runner's own tables, and the signatures those of the installed Triton.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import triton.language as tl

from gpu_runner.child import interpreter
from gpu_runner.program import kernels, language
from workers.authors.llm import checks

FILE = Path(checks.__file__).parent / "prompts" / "language.md"
# Listed for the files of libraries and for other devices: a new kernel has no use for these.
LEFT_OUT = (
    "torch.distributed", "torch.nn", "torch.library", "torch.xpu", "torch.jit", "torch.compiler", "torch.amp", "torch.cuda.amp",
    "torch.cpu", "triton.runtime", "triton.tools",
)  # fmt: skip
NOT_OF_NEW_CODE = language.words("""
    FloatTensor HalfTensor BFloat16Tensor LongTensor IntTensor BoolTensor DoubleTensor memory_format channels_last strided
    inference_mode is_complex scalar_tensor broadcast_tensors is_tensor Size half float double short int long complex64 complex128
    """)
COMPUTING = language.words("""
    sum cumsum amax amin max min any all eq ne lt le gt ge add sub mul div neg abs sqrt rsqrt square reciprocal clamp where gather
    masked_select sort count_nonzero equal
    """)
# Of the language of kernels: what makes two runs differ, what prints, and what kernels of this kind never need.
NOT_OF_KERNELS = language.words("""
    randint4x randint rand randn philox pair_uniform_to_normal static_print device_print device_assert debug_barrier advance
    make_block_ptr swizzle2d dtype tensor pointer_type block_type tuple tensor_descriptor constexpr_type const void pi32_t
    PropagateNan constexpr umulhi histogram bitcast div_rn sqrt_rn load_tensor_descriptor store_tensor_descriptor
    """)
INTERNAL = language.words("_semantic _generator _builder")


def text() -> str:
    """The whole prompt."""
    return "\n".join(["<!-- language, version 3 -->", *_host(), "", *_kernels()]) + "\n"


def _host() -> list[str]:
    torch = [name.removeprefix("torch.") for name in sorted(language.TORCH) if not name.startswith(LEFT_OUT)]
    torch = [name for name in torch if name not in NOT_OF_NEW_CODE]
    dtypes = [name for name in torch if name in language.words(language.DTYPES)]
    computes = [name for name in torch if name in COMPUTING]
    others = [name for name in torch if name not in (*dtypes, *computes)]
    host = [name.removeprefix("triton.") for name in sorted(language.TRITON) if not name.startswith(LEFT_OUT)]
    standard = [name for name in sorted(language.STANDARD) if name.partition(".")[0] in checks.MODULES]
    return [
        "# What host code may use",
        "",
        "Host code is everything outside of `@triton.jit`: it allocates, takes views, computes settings and launches. The runner "
        "evaluates it itself, statement by statement, and CPython never runs it. What is on none of these lists is `refused`, with "
        "its line. The lists are the runner's own.",
        "",
        f"- Imports: {_listed(checks.MODULES)}, what lies below `triton.language`, and the modules of the "
        f"target that the form "
        "of the module names. Never `from m import *`.",
        f"- torch, dtypes: {_plain(dtypes)}.",
        f"- torch, memory, devices and autograd: {_plain(others)}.",
        f"- torch, computing: {_plain(computes)}. Only on what your kernels left as partial results (see below), "
        f"and on inputs of at "
        "most 1/64 of the largest one, such as a norm's weight.",
        f"- tensors, views: {_plain(language.VIEWS)}.",
        f"- tensors, facts: {_plain(language.SHAPES)}.",
        f"- tensors, memory: {_plain(language.MAKES)}.",
        f"- tensors, computing, under the same limits: {_plain(language.COMPUTES)}.",
        f"- `ctx`: {_plain(language.CONTEXT)}, and attributes that you set.",
        f"- `torch.cuda.get_device_properties(device)`: {_plain(language.DEVICE_PROPERTIES)}. Where there is no "
        f"GPU, take constants.",
        f"- triton: {_plain(host)}.",
        f"- standard library: {_plain(standard)}, and the names of `typing` and `collections.abc` in annotations.",
        f"- builtins: {_plain(language.BUILTINS)}.",
        "",
        "Python as usual, with these limits: `try` around imports alone; no `global`, `nonlocal`, `async`, decorators that are not "
        "listed, metaclasses or `__slots__`; no `getattr` with a computed name; no module as a value; no name or attribute with a "
        "leading underscore but those that the file defines itself; no containers or tensors at module level "
        "that a call changes, no "
        "mutable defaults, nothing stored on functions, classes or modules, no cache of tensors. A call depends on its arguments "
        "alone. `unproved` means that the evaluator does not know a construct: write the same in plainer Python.",
        "",
        "Torch may allocate, view, cast and copy, and add up partial results: `partial.sum(dim=0)` where few "
        "values meet in one, or "
        "the summed tensor has at most a quarter of the largest tensor's elements. In backward it may sum an "
        "upstream gradient for an "
        "input that was broadcast. Anything else that torch computes on whole tensors (`x * y`, `x.sum()`, "
        "`torch.nn.functional`, `torch.matmul`, `torch.compile`) is not yours: it ends as `cheating`.",
    ]  # fmt: skip


def _kernels() -> list[str]:
    names = [name.removeprefix("triton.language.") for name in language.TRITON_LANGUAGE]
    offered = [name for name in sorted(names) if name not in NOT_OF_KERNELS and "." not in name]
    functions = [f"`tl.{name}{signature}`" for name in offered if (signature := _signature(name)) is not None]
    dtypes = [name for name in offered if isinstance(getattr(tl, name, None), tl.dtype)]
    methods = language.KERNEL_ARGUMENT_ATTRIBUTES
    library = [
        name
        for name in interpreter._BY_NUMPY.keys() | {"erf", "erfc", "lgamma", "rsqrt"}
        if not name.startswith("fast_")
    ]
    return [
        f"# The language of kernels: Triton {version('triton')}",
        "",
        "Signatures are those of the installed version. What is not here is no part of a kernel.",
        "",
        *functions,
        "",
        f"- dtypes: {', '.join(f'`tl.{name}`' for name in dtypes)}; constants are `NAME: tl.constexpr`.",
        f"- methods and attributes of values: {_plain(methods)}.",
        f"- `from triton.language.extra import libdevice`, of float32 and float64 alone: {_plain(library)}.",
        f"- Python: {_plain(kernels.BUILTINS)}; `for` over `range`, `tl.range` and `tl.static_range`, `while`, `if`, assignments, "
        "calls of other `@triton.jit` functions, which may return several values. No `break`, `continue`, `try`, `with`, `lambda`, "
        "nested functions, dicts or sets.",
    ]  # fmt: skip


def _signature(name: str) -> str | None:
    """The parameters of a function of the language; None where the installed version has no function of that name."""
    found: Any = getattr(tl, name, None)
    if found is None or isinstance(found, tl.dtype):
        return None
    found = inspect.unwrap(getattr(found, "fn", found))
    if isinstance(found, type):
        return _of_class(found)
    return _shown(inspect.signature(found)) if isinstance(found, Callable) else None  # type: ignore[arg-type]


def _of_class(found: type) -> str:
    parameters = list(inspect.signature(found.__init__).parameters.values())[1:]
    return _shown(inspect.Signature(parameters))


def _shown(signature: inspect.Signature) -> str:
    parts = []
    for name, parameter in signature.parameters.items():
        if name in INTERNAL:
            continue
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = parameter.default
        if name != "propagate_nan":
            default = getattr(default, "value", default)
        parts.append(f"{star}{name}" + ("" if parameter.default is parameter.empty else f"={_value(default)}"))
    return f"({', '.join(parts)})"


def _value(default: Any) -> str:
    if isinstance(default, tl.dtype):
        return next(f"tl.{name}" for name, value in vars(tl).items() if value is default)
    if isinstance(default, tl.PropagateNan):
        return f"tl.PropagateNan.{default.name}"  # the class itself is called otherwise
    return repr(default)


@functools.cache
def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _plain(names: Iterable[str]) -> str:
    return " ".join(sorted(names))


if __name__ == "__main__":
    FILE.write_text(text())
