"""Lowers kernels with Triton-Ascend, whose front end never runs host code of the module. Loaded by ``compiling``."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

IMPORTS = "import triton\nimport triton.language as tl"
LACKING: dict[type[Exception], str] = {}
PACKAGE = "triton-ascend"
VERSION = "3.2."  # the versions whose passes are called here begin so
TYPE = re.compile(r"(?:tensor|memref)<([\dx?]*?)x?(bf16|f16|f32|f64|i1|i8|i16|i32|i64)\b")
WIDTHS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64, "i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
VALUE = re.compile(r"%[\w.#]+")
COMPARE = re.compile(r"arith\.cmpi [^\n]* : (tensor<[\dx]+x(i8|i16|i32|i64)>)")
CARRIED = re.compile(r"(%\w+) = (%\w+)")
ALIASES = (
    "bufferization.to_tensor",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "memref.subview",
    "tensor.extract_slice",
)
MOVES = ("memref.copy", "bufferization.materialize_in_destination")
FREE = ("tensor.empty", "arith.constant", "memref.reinterpret_cast")
LONGEST = 2000  # characters of a compiler's message


def is_known(decorator: ast.expr) -> bool:
    """Whether a decorator is Triton's, without options."""
    return ast.unparse(decorator) == "triton.jit"


def buffer_bits(lowered: str, *, buffered: bool = False) -> int:
    """The most bits of tiles that are alive at once in a lowered kernel, by the lines from and to which a value is used.

    With ``buffered``, a tile that a loop moves from or to memory has a second buffer as long as the loop runs: while one is used,
    the other is on its way. Source: triton-lang/triton-ascend issue 302, "48000 x 32 bits x 2".

    A tile that is filled with a constant is one where a loop adds to it alone: vector instructions take scalars. What is
    multiplied, and the sums of products while they are added up, lie in the cube's own memory.
    """
    filled = dict[str, int]()
    first, last, size, root = dict[str, int](), dict[str, int](), dict[str, int](), dict[str, str]()
    loops: list[int] = []
    lines = lowered.splitlines()
    for place, line in enumerate(lines):
        text = line.strip()
        if text.startswith("}") and loops:
            start = loops.pop()
            for value, used in last.items():
                if first[value] < start <= used:
                    last[value] = place
        result, _, rest = text.partition(" = ") if text.startswith("%") else ("", "", text)
        operands = VALUE.findall(rest)
        for value in operands:
            if root.get(value, value) in last:
                last[root.get(value, value)] = place
        for value in operands if "iter_args" in text else ():
            if value in filled:
                first[value] = last[value] = place
                size[value] = filled[value]
        if text.endswith("{"):
            loops.append(place)
        if not result or ":" in result or "," in result or rest.startswith(FREE):
            continue
        if rest.startswith(ALIASES) and operands:
            root[result] = root.get(operands[0], operands[0])
            continue
        bits = _bits(rest)
        if rest.startswith("linalg.fill"):
            filled[result] = bits
        elif bits:
            first[result] = last[result] = place
            size[result] = bits
    carried = dict(CARRIED.findall(lowered))
    multiplied = {carried.get(v, v) for line in lines if " = linalg.matmul" in line for v in VALUE.findall(line)}
    counted = first.keys() - {root.get(value, value) for value in multiplied}
    spans = [(size[value], first[value], last[value]) for value in counted]
    spans += [(size[v], *span) for v, span in _moved(lines, root).items() if buffered and v in counted]
    return max((sum(b for b, start, end in spans if start <= place <= end) for place in range(len(lines))), default=0)


def _moved(lines: list[str], root: dict[str, str]) -> dict[str, tuple[int, int]]:
    """The tiles that loops move, with the first and the last line of the outermost such loop."""
    found, opened, waiting = dict[str, tuple[int, int]](), list[int](), list[tuple[int, str]]()
    for place, line in enumerate(lines):
        text = line.strip()
        if text.startswith(MOVES):
            waiting += [(place, root.get(value, value)) for value in VALUE.findall(text)]
        if text.startswith("}") and opened:
            start = opened.pop()
            if "scf.for" in lines[start]:
                found |= {value: (start, place) for at, value in waiting if at > start}
        if text.endswith("{"):
            opened.append(place)
    return found


def _bits(text: str) -> int:
    types_ = TYPE.findall(text)
    if not types_:
        return 0
    dims, kind = types_[-1]
    count = 1
    for dim in filter(None, dims.split("x")):
        count *= int(dim) if dim.isdigit() else 1
    return count * WIDTHS[kind] if "?" not in dims else 0


def unusable() -> str | None:
    """What of the compiler is missing, in a sentence; None where it is there."""
    try:
        version = importlib.metadata.version(PACKAGE)
        importlib.import_module("triton.backends.ascend.compiler")
    except (importlib.metadata.PackageNotFoundError, ImportError) as error:
        return f"Triton-Ascend cannot be imported ({error})"
    if not version.startswith(VERSION):
        return f"Triton-Ascend is {version} here, and kernels are lowered with {VERSION}x"
    return None


def lower(functions: dict[str, Any], name: str, signature: dict[str, str], constants: dict[str, int]) -> str:
    """A kernel in the linalg dialect, as the compiler for NPUs takes it."""
    compiler = importlib.import_module("triton.backends.ascend.compiler")
    ir = importlib.import_module("triton._C.libtriton").ir
    target = importlib.import_module("triton.backends.compiler").GPUTarget("npu", "Ascend910B", 0)
    backend = compiler.AscendBackend(target)
    options = backend.parse_options({})
    source = importlib.import_module("triton.compiler.compiler").ASTSource(functions[name], signature, constants)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(options, backend.get_codegen_implementation(), backend.get_module_map(), context)
    metadata = {**options.__dict__, "target": target}
    module = compiler.make_ttir(module, metadata, options)
    return str(compiler.ttir_to_linalg(module, metadata, options, named_ops=True))


def jobs(
    functions: dict[str, Any], request: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Each kernel: the bits of its tiles."""
    for kernel in request["kernels"]:
        yield {"name": kernel["name"]}, partial(one_lowered, functions, kernel)


def one_lowered(functions: dict[str, Any], kernel: dict[str, Any]) -> dict[str, Any]:
    """What became of one kernel."""
    try:
        lowered = lower(functions, kernel["name"], kernel["signature"], kernel["constants"])
    except subprocess.CalledProcessError as error:
        return {"error": _shortened(error.stderr.decode(errors="replace").splitlines())}
    except Exception as error:  # noqa: BLE001 - whatever the front end raises is its answer on this kernel
        return {"error": _shortened(f"{type(error).__name__}: {error}".splitlines())}
    bits = {"bits": buffer_bits(lowered), "buffered_bits": buffer_bits(lowered, buffered=True)}
    return {**bits, "copies": lowered.count("memref.copy"), "compares": integer_compares(lowered)}


def integer_compares(lowered: str) -> int:
    """How often a kernel compares tensors of whole numbers, of more than one element each; masks of loads are none."""
    return sum(_bits(types_) > WIDTHS[kind] for types_, kind in COMPARE.findall(lowered))


def _shortened(lines: Iterable[str]) -> str:
    kept = [line for line in lines if line.strip() and not line.startswith("#loc")]
    return "\n".join(kept)[-LONGEST:]
