"""What host code and kernels may use, as text; ``python -m tests.workers.authors.llm.language`` writes it into the prompts anew.

The lists are the runner's own tables. Signatures are those of the installed Triton, and of what stands for cuTile and CuTe DSL in
the interpreter, which ``tests/workers/targets/test_packages.py`` holds against the packages.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import triton.language as tl

from gpu_runner.child import interpreter
from gpu_runner.program import kernels, language, threads, tiles
from tests.workers.compiler.test_cutile import emitted
from workers.authors.llm import checks

PROMPTS = Path(checks.__file__).parent / "prompts"
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


TRITON_HOST = ("`@triton.jit`", "what lies below `triton.language`, ")
CUTILE_HOST = ("`@ct.kernel` and `@ct.function`", "")
CUTEDSL_HOST = ("`@cute.kernel` and `@cute.jit`", "")


def text() -> str:
    """The prompt of Triton."""
    return "\n".join(["<!-- language, version 3 -->", *_host("gpu", *TRITON_HOST), "", *_kernels()]) + "\n"


def tile_text() -> str:
    """The prompt of cuTile."""
    parts = [
        "<!-- cutile, version 4 -->",
        *_instead("cuTile"),
        *_host("cutile", *CUTILE_HOST),
        "",
        *_tile_kernels(),
        "",
    ]
    return "\n".join([*parts, *_example("cutile", "reglu", "rms_norm")])


def thread_text() -> str:
    """The prompt of CuTe DSL."""
    parts = ["<!-- cutedsl, version 1 -->", *_instead("CuTe DSL"), *_host("cutedsl", *CUTEDSL_HOST), ""]
    return "\n".join([*parts, *_thread_kernels(), "", *_example("cutedsl", "rms_norm")])


WRITTEN = {"language": text, "cutile": tile_text, "cutedsl": thread_text}


def _instead(name: str) -> list[str]:
    return [
        f"# This kernel is written in {name}",
        "",
        f"Where the rules above say Triton, read {name}. What they say of bytes, rounding, NaN, partial sums, autograd and how a "
        "candidate is judged holds as it stands; functions and settings of Triton (`tl.`, pointers, masks of loads, `num_warps`, "
        "`num_stages`) do not exist here. Every kernel of the module is in this language.",
        "",
    ]


def _example(to: str, *names: str) -> list[str]:
    shown = [f"```python\n{emitted(name, to).source.strip()}\n```\n" for name in names]
    return [
        "# Modules that pass",
        "",
        "The compiler author writes these. Names of your module follow its own form.",
        "",
        *shown,
    ]


def _tile_kernels() -> list[str]:
    names = {name.removeprefix("cuda.tile."): found for name in language.TILE_LANGUAGE if (found := _stand_in(name))}
    host = {"launch", "kernel", "function"}
    dtypes = [name for name in tiles._DTYPES if f"cuda.tile.{name}" in language.TILE_LANGUAGE]
    return [
        "# The language of kernels: cuTile 1.7, imported as `import cuda.tile as ct`",
        "",
        "Signatures are the package's as far as the runner's interpreter has them. What else it documents is `unproved`.",
        "",
        *(f"`ct.{name}{_interpreted(found)}`" for name, found in sorted(names.items()) if name not in host),
        "",
        f"- dtypes: {', '.join(f'`ct.{name}`' for name in dtypes)}; padding modes: "
        f"{', '.join(f'`ct.PaddingMode.{mode.name}`' for mode in tiles.PaddingMode)}; rounding modes, in float32: "
        "`ct.RoundingMode.FULL` of `ct.truediv` and `ct.RoundingMode.APPROX` of `ct.exp`, which are Triton's `/` and `tl.exp`; "
        "constants are `NAME: ct.Constant[int]`.",
        f"- attributes and methods of arrays and tiles: {_plain(language.TILE_ATTRIBUTES)}; operators of Python.",
        f"- `ct.load`, `ct.store`, `ct.gather` and `ct.scatter` also take the hints {_listed(tiles.HINTS)}, `ct.kernel` and "
        f"`kernel.replace_hints` the hints {_listed(tiles.OPTIONS)}. No hint changes a value.",
        "- A launch: `ct.launch(torch.cuda.current_stream(), grid, kernel, (argument, ...))`, where `grid` is a tuple.",
        "- Python: `for` over `range`, `if`, `while`, assignments, calls of `@ct.function` functions.",
        "",
        "# Writing kernels in cuTile",
        "",
        "- A kernel takes whole arrays. Host code views each tensor with the axes that the kernel tiles: `x.view(n_rows, n_cols)`, "
        "a weight as `w.view(1, n_cols)`, a number for each row as `rstd.view(n_rows, 1)`, element-wise `x.view(-1)`. A tile and "
        "its array have as many axes.",
        "- `ct.load(array, index, shape)` counts in tiles: `index` is the number of the tile along each axis, never an offset of "
        "elements. Shapes are constants, powers of two.",
        "- A tile that is partly beyond its array is padded by `padding_mode`; the default holds garbage. `ZERO` for a sum, "
        "`NEG_INF` for a maximum. After arithmetic on what is padded, `ct.where(mask, value, 0.0)` before the reduction, with "
        "`mask = ct.arange(BLOCK, dtype=ct.int32) < n_cols` in the shape of the tile. Stores drop what is beyond.",
        "- A tile that is wholly beyond its array is `out_of_bounds`: the grid is `ct.cdiv(n, BLOCK)`, and nothing is launched "
        "where `n` is zero. Loops run over tiles that exist.",
        "- Convert on both sides: `.astype(ct.float32)` behind each load, `ct.astype(value, array.dtype)` in each store. A float "
        "that a kernel takes is converted once: `eps = ct.astype(eps, ct.float32)`.",
        "- `ct.maximum`, `ct.minimum`, `ct.max` and `ct.min` drop NaN unless `propagate_nan=True`.",
        "- Sums over rows: about one program a multiprocessor, `for tile in range(ct.bid(0), ct.cdiv(n_rows, ROWS), "
        "ct.num_blocks(0))`, each with a line of its own in a float32 buffer.",
        "- `ct.mma(a, b, acc)` takes two tiles of two axes in one type and adds up in float32.",
        "- A tile has at most 65536 elements; a launcher raises `ValueError` beyond. On an H200, tiles of 1024 elements were the "
        "fastest element by element in bfloat16, and `num_worker_warps=8` for kernels that hold rows; `occupancy` of 2 to 4 makes "
        "the forward pass of a norm faster and its backward pass slower.",
    ]  # fmt: skip


def _thread_kernels() -> list[str]:
    listed = sorted(language.THREAD_HOST | language.THREAD_LANGUAGE)
    named = {path: path.replace("cutlass.cute.", "cute.", 1) for path in listed}
    functions = [f"`{named[path]}{_interpreted(found)}`" for path in listed if (found := _stand_in(path))]
    others = [named[path] for path in listed if _stand_in(path) is None]
    return [
        "# The language of kernels: CuTe DSL 4.8, imported as `import cutlass` and `import cutlass.cute as cute`",
        "",
        "Signatures are the package's as far as the runner's interpreter has them. Whatever else the package has (TMA, "
        "pipelines, MMA atoms, layouts that are swizzled) is `unproved`.",
        "",
        *functions,
        "",
        f"- also: {_plain(others)}.",
        f"- attributes and methods of tensors, fragments and values: {_plain(language.THREAD_ATTRIBUTES)}; operators of Python.",
        "- Python: `for` over `range` and `cutlass.range_constexpr`, `if`, assignments, calls of `@cute.jit` functions. Constants "
        "are `NAME: cutlass.Constexpr`.",
        "",
        "# Writing kernels in CuTe DSL",
        "",
        "- A kernel is what one thread does. A thread has vectors of elements in a fragment (`cute.make_rmem_tensor`), copied by "
        "`cute.copy` with a predicate for each vector; `load()` and `store()` go between fragments and values.",
        "- An access of 16 bytes needs rows and tensors that begin at multiples of 16 bytes: otherwise take one element a time, as "
        "`_vector` of the module below chooses.",
        "- A row's sum: `value.reduce(cute.ReductionOp.ADD, 0.0, 0)` within the thread, `cute.arch.warp_reduction` within the "
        "warp, a number of each warp in shared memory between two `cute.arch.sync_threads()`. A read of what another warp wrote "
        "without a barrier between is refused.",
        "- Offsets of elements are `cutlass.Int64`. Threads are at most 1024 a block, shared memory 227 KiB.",
        "- A launcher is `@cute.jit`, compiled once for types, alignments and constants by `cute.compile` with stand-ins of its "
        "arguments, and called with flat tensors, as the module below does; copy its host code as it is.",
        "- Write as many elements a thread as its registers hold: 16 to 64 of float32.",
    ]  # fmt: skip


def _stand_in(path: str) -> Callable[..., Any] | None:
    """The function that stands for one of a package where kernels are interpreted."""
    name = path.rpartition(".")[2]
    found = tiles._MEMBERS.get(name) if path.startswith("cuda.tile.") else vars(threads).get(name)
    return found if inspect.isfunction(found) else None


def _interpreted(found: Callable[..., Any]) -> str:
    """The parameters of such a function, without those that take one value alone, and without hints."""
    own = inspect.signature(found)
    single = {"order", "check_bounds"} if "order" in own.parameters else set()
    kept = [
        parameter.replace(annotation=parameter.empty)
        for parameter in own.parameters.values()
        if parameter.name not in single and parameter.kind is not parameter.VAR_KEYWORD
    ]
    shown = str(own.replace(parameters=kept, return_annotation=own.empty))
    return re.sub(r"<PaddingMode\.(\w+): [^>]*>", r"ct.PaddingMode.\1", shown)


def _host(to: str, decorators: str, below: str) -> list[str]:
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
        f"Host code is everything outside of {decorators}: it allocates, takes views, computes settings and launches. The runner "
        "evaluates it itself, statement by statement, and CPython never runs it. What is on none of these lists is `refused`, with "
        "its line. The lists are the runner's own.",
        "",
        f"- Imports: {_listed(checks.modules_for(to))}, {below}and the modules of the "
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
        *([f"- triton: {_plain(host)}."] if to == "gpu" else []),
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
    for name, written in WRITTEN.items():
        (PROMPTS / f"{name}.md").write_text(written())
