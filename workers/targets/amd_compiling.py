"""Compiles Triton kernels for GPUs of AMD, without one. Loaded by ``compiling``."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

IMPORTS = "import triton\nimport triton.language as tl"
LACKING: dict[type[Exception], str] = {}
COUNT = re.compile(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s*(\d+)")  # in the metadata of the machine code
WAVEFRONT = 64  # threads of a warp


def compiled(functions: dict[str, Any], kernel: dict[str, Any], architecture: str) -> dict[str, int]:
    """Registers of a thread, those spilled, and bytes of shared memory (LDS) of a kernel's machine code."""
    triton = importlib.import_module("triton")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("hip", architecture, WAVEFRONT)
    signature = {**kernel["signature"], **dict.fromkeys(kernel["constants"], "constexpr")}
    ast_source = importlib.import_module("triton.compiler.compiler").ASTSource
    source = ast_source(functions[kernel["name"]], signature, kernel["constants"])
    made = triton.compile(source, target=target, options={"num_warps": kernel["warps"]})
    counts = {name: int(number) for name, number in COUNT.findall(made.asm["amdgcn"])}
    spilled = counts.get("vgpr_spill_count", 0) + counts.get("sgpr_spill_count", 0)
    return {"registers": counts.get("vgpr_count", 0), "spilled": spilled, "shared_bytes": int(made.metadata.shared)}


def is_known(decorator: ast.expr) -> bool:
    """Whether a decorator is Triton's, without options."""
    return ast.unparse(decorator) == "triton.jit"


def unusable() -> str | None:
    """What of the compiler is missing, in a sentence; None where it is there."""
    try:
        importlib.import_module("triton.backends.amd.compiler")
    except ImportError as error:
        return f"Triton's backend for AMD cannot be imported ({error})"
    return None


def jobs(
    functions: dict[str, Any], request: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Each kernel for each architecture: its counts."""
    for kernel in request["kernels"]:
        for architecture in request["architectures"]:
            asked = {"name": kernel["name"], "dtype": "bfloat16", "architecture": architecture}
            yield asked, partial(compiled, functions, kernel, architecture)
