"""Assembles what compiled sections launch for a Hopper GPU, without one: launchers run on tensors that have shapes and no memory.

``python -m tests.workers.compiler.assembled [--few] NAMES... RESULTS``: a JSON file, by problem a list of launches with the shared
memory that each asks for. Triton must not be in its interpreter, which is chosen when it is imported: a process of its own.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from tests.workers.compiler.captured import captured
from tests.workers.compiler.formed import PREFIX, formed, section_style
from tests.workers.compiler.interpreted import loaded
from workers.authors.protocol import Signature

# Multiprocessors and bytes of shared memory for a block, of the H100 and the H200. Source: CUDA C++ Programming Guide, table of
# technical specifications by compute capability: 227 KiB at 9.0.
PROPERTIES = SimpleNamespace(multi_processor_count=132, shared_memory_per_block_optin=227 * 1024)
TARGET = GPUTarget("cuda", 90, 32)
SIZES = ((5, 1), (8, 97), (8, 4099), (300, 4099), (5000, 1024), (20000, 8192), (7, 70000))
TO_THE_END = ((8, 4099),)  # what a block shares is known before the assembler, which takes half of the time
CASES = tuple((rows, columns, dtype) for rows, columns in SIZES for dtype in ("float32", "bfloat16"))
FEW = ((5, 1, "float32"), (8, 4099, "float32"), (20000, 8192, "bfloat16"), (7, 70000, "float32"))
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int64: "*i64"}


class Launches:
    """Stands in a kernel's place and assembles what it is launched with; ``seen`` keeps each launch with its bytes."""

    def __init__(self, name: str, kernel: Any, seen: list[dict[str, Any]]) -> None:
        self.name, self.kernel, self.seen = name, kernel, seen

    def __getitem__(self, grid: Any) -> Any:
        """The launcher for a grid."""

        def launch(*arguments: Any, **named: Any) -> None:
            parameters = inspect.signature(self.kernel.fn).parameters
            given = dict(zip(parameters, arguments, strict=False)) | {k: v for k, v in named.items() if k in parameters}
            options = {k: v for k, v in named.items() if k not in parameters}
            # As Triton's own launcher does: whole numbers that are one are constants.
            is_one = {n for n, value in given.items() if type(value) is int and value == 1}
            constants = {n: given[n] for n, p in parameters.items() if "constexpr" in str(p.annotation) or n in is_one}
            signature = {n: "constexpr" if n in constants else _type(given[n]) for n in parameters}
            # And pointers and whole numbers that are multiples of 16 are known for it.
            multiples = {
                (place,): [["tt.divisibility", 16]]
                for place, name in enumerate(parameters)
                if name not in constants and _is_multiple(given[name])
            }
            source = ASTSource(self.kernel, signature, constants, multiples)
            shared = triton.compile(source, target=TARGET, options=options).metadata.shared
            self.seen.append({"kernel": self.name, "constants": constants, "shared_bytes": shared})

        return launch


def launches(name: str, cases: Sequence[tuple[int, int, str]] = CASES) -> list[dict[str, Any]]:
    """Every launch of a problem's section at some sizes, each in a dtype."""
    given = formed(name, section_style(name))
    assert given.signature is not None
    module = loaded(name, "\n".join(given.imports) + "\n\n\n" + given.source)
    seen: list[dict[str, Any]] = []
    for key, value in list(vars(module).items()):
        if isinstance(value, triton.runtime.jit.JITFunction) and "_kernel" in key:
            setattr(module, key, Launches(key, value, seen))
    context = next(key for key in vars(module) if key.endswith("device_context"))
    setattr(module, context, lambda device: contextlib.nullcontext())
    for rows, columns, dtype in cases:
        triton.knobs.runtime.add_stages_inspection_hook = None if (rows, columns) in TO_THE_END else _without_assembler
        first = len(seen)
        _run(name, module, given.signature, _sizes(name, rows, columns), dtype)
        for launch in seen[first:]:
            launch["size"] = f"{rows} x {columns} {dtype}"
    return seen


def _without_assembler(
    _backend: Any = None, stages: dict[str, Callable[..., Any]] | None = None, *_: Any
) -> tuple[str, str] | None:
    """Leave PTX and what is assembled from it empty; without arguments it is asked for a key of Triton's cache."""
    if stages is None:
        return "without assembler", "without assembler"

    def nothing(_source: Any, metadata: dict[str, Any]) -> bytes:
        metadata["name"] = "nothing"
        return b""

    stages["ptx"] = stages["cubin"] = nothing
    return None


def _sizes(name: str, rows: int, columns: int) -> dict[str, int]:
    """Size the input with the most dimensions: the first one down, the last one along, one between; dimensions of others along."""
    problem, _ = captured(name)
    dims = max((spec.dims for spec in problem.inputs), key=len)
    return dict.fromkeys(problem.dimensions, columns) | dict.fromkeys(dims, 1) | {dims[0]: rows, dims[-1]: columns}


def _run(name: str, module: ModuleType, how: Signature, sizes: dict[str, int], dtype: str) -> None:
    """Call forward and backward as the section's signature says."""
    problem, _ = captured(name)
    known: dict[str, Any] = {spec.name: spec.default for spec in problem.scalars}
    with FakeTensorMode():
        for spec in problem.inputs:
            shape = [sizes[dim] if dim in sizes else int(dim) for dim in spec.dims]
            known[spec.name] = torch.empty(shape, dtype=getattr(torch, spec.dtype or dtype), device="cuda")
        forward, backward = (getattr(module, f"{PREFIX}{name}_{way}") for way in ("forward", "backward"))
        results = forward(*(known[argument] for argument in how.forward_arguments))
        results = results if isinstance(results, tuple) else (results,)
        known |= dict(zip((*how.outputs, *how.saved), results, strict=True))
        known |= {up: torch.empty_like(known[out]) for up, out in zip(how.upstream, how.outputs, strict=True) if up}
        backward(*(known[argument] for argument in how.backward_arguments))


def _type(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def _is_multiple(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0)


def main() -> None:
    """Assemble every problem that is named."""
    torch.cuda.get_device_properties = lambda *_: PROPERTIES
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    names, cases = (sys.argv[2:-1], FEW) if sys.argv[1] == "--few" else (sys.argv[1:-1], CASES)
    Path(sys.argv[-1]).write_text(json.dumps({name: launches(name, cases) for name in names}))


if __name__ == "__main__":
    main()
