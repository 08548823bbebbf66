"""Compiles Triton kernels for GPUs of AMD, without one. Carried out by Python as a script of its own: a request in JSON on standard
input, an answer in JSON on standard output. Of the module only device functions are defined, and nothing runs when they are."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

COUNT = re.compile(r"\.(vgpr_count|vgpr_spill_count|sgpr_spill_count):\s*(\d+)")  # in the metadata of the machine code
WAVEFRONT = 64  # threads of a warp
LONGEST = 2000  # characters of a compiler's message


def device_functions(source: str) -> list[ast.FunctionDef]:
    """The functions of a module whose only decorator is ``triton.jit``, without defaults."""
    body = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    own = [node for node in body if [ast.unparse(d) for d in node.decorator_list] == ["triton.jit"]]
    return [node for node in own if not node.args.defaults]


def compiled(function: Any, kernel: dict[str, Any], architecture: str) -> dict[str, int]:
    """Registers of a thread, those spilled, and bytes of shared memory (LDS) of a kernel's machine code."""
    triton = importlib.import_module("triton")
    target = importlib.import_module("triton.backends.compiler").GPUTarget("hip", architecture, WAVEFRONT)
    signature = {**kernel["signature"], **dict.fromkeys(kernel["constants"], "constexpr")}
    source = importlib.import_module("triton.compiler.compiler").ASTSource(function, signature, kernel["constants"])
    made = triton.compile(source, target=target, options={"num_warps": kernel["warps"]})
    counts = {name: int(number) for name, number in COUNT.findall(made.asm["amdgcn"])}
    spilled = counts.get("vgpr_spill_count", 0) + counts.get("sgpr_spill_count", 0)
    return {"registers": counts.get("vgpr_count", 0), "spilled": spilled, "shared_bytes": int(made.metadata.shared)}


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """What became of each kernel for each architecture: its counts, or the compiler's words."""
    try:
        importlib.import_module("triton.backends.amd.compiler")
    except ImportError as error:
        return {"missing": f"Triton's backend for AMD cannot be imported ({error})"}
    nodes = device_functions(request["source"])
    text = "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(map(ast.unparse, nodes)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(text)
        module = types.ModuleType("kernels")
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - definitions alone, see device_functions
        wanted = [(kernel, name) for kernel in request["kernels"] for name in request["architectures"]]
        return {"kernels": [_one(vars(module), kernel, name) for kernel, name in wanted]}


def _one(functions: dict[str, Any], kernel: dict[str, Any], architecture: str) -> dict[str, Any]:
    asked = {"name": kernel["name"], "dtype": "bfloat16", "architecture": architecture}
    try:
        return {**asked, **compiled(functions[kernel["name"]], kernel, architecture)}
    except Exception as error:  # noqa: BLE001 - whatever the compiler raises is its answer on this kernel
        return {**asked, "error": f"{type(error).__name__}: {error}"[-LONGEST:]}


if __name__ == "__main__":
    json.dump(answered(json.load(sys.stdin)), sys.stdout)
