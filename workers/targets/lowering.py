"""Has Triton-Ascend lower the kernels of a port, in an environment of its own. Not pure, as ``cutile``."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Collection, Iterable

from workers.contracts import Failure, FailureCode, KernelTiling, LoweredKernel, UserFacingError
from workers.targets.compiling import command
from workers.targets.module import CallVariant

LONGEST_S = 300.0
SCRIPT = "ascend_lowering.py"
PRODUCT_BLOCK = 128  # of what a product sums over, in two bytes an element
FIX = "Check KERNELSMITH_ASCEND_PYTHON: the Python of an environment with `pip install triton-ascend==3.2.0 pybind11 numpy`."


def kernel_requests(
    source: str, variants: Iterable[CallVariant], tilings: Iterable[KernelTiling]
) -> list[dict[str, object]]:
    """Each kernel of a module with the types of its parameters, and the tile that its launcher chooses at the largest size."""
    types, tiles = dict[str, str](), {tiling.kernel: tiling for tiling in reversed(tuple(tilings))}
    floats = set[str]()
    for variant in variants:
        types |= {
            spec.name: "i64" if (spec.dtype or "").startswith("int") else "bf16" for spec in variant.problem.inputs
        }
        types |= dict.fromkeys(variant.signature.saved, "fp32")
        floats |= {spec.name for spec in variant.problem.scalars if isinstance(spec.default, float)}
    requests: list[dict[str, object]] = []
    body = ast.parse(source).body
    launched = {
        start.value.id: function.name
        for function in body
        if isinstance(function, ast.FunctionDef) and not function.decorator_list
        for start in ast.walk(function)
        if isinstance(start, ast.Subscript) and isinstance(start.value, ast.Name)
    }
    for node in body:
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list or "_kernel" not in node.name:
            continue
        own, _, wide = node.name.partition("_kernel")
        launcher = launched.get(node.name, own)
        tiling = tiles.get(f"{launcher} (wide)" if wide else launcher)
        rows, columns = (tiling.rows, tiling.columns) if tiling else (1, 1024)
        tile = {"BLOCK_ROWS": rows, "BLOCK_M": rows, "BLOCK_K": PRODUCT_BLOCK}
        given = [argument.arg for argument in node.args.args if argument.annotation is None]
        constants = [argument.arg for argument in node.args.args if argument.annotation is not None]
        requests.append(
            {
                "name": node.name,
                "signature": {name: _type(name, types, floats) for name in given},
                "constants": {name: tile.get(name, columns) for name in constants},
            }
        )
    return requests


def _type(name: str, types: dict[str, str], floats: Collection[str]) -> str:
    if name.endswith("_partials_ptr"):
        return "*fp32"
    if name.endswith("_ptr"):
        return f"*{types.get(name.removesuffix('_ptr'), 'bf16')}"
    return "fp32" if name in floats else "i32"  # sizes, and how many rows one of a smaller tensor is for


def lowered(python: str, source: str, requests: list[dict[str, object]]) -> tuple[LoweredKernel, ...]:
    """What the compiler for NPUs makes of each kernel, up to the linalg dialect; nothing of this process's environment is passed.

    Raises:
        UserFacingError: the environment has no Triton-Ascend, or a kernel does not compile; with the compiler's words.
    """
    with command(python, SCRIPT) as words:
        try:
            done = subprocess.run(
                words,
                input=json.dumps({"source": source, "kernels": requests}),
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "TRITON_CACHE_DIR": "/nonexistent"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserFacingError(
                Failure(FailureCode.environment, f"Triton-Ascend cannot be started: {error}", FIX)
            ) from error
    if done.returncode != 0:
        log = done.stderr.strip()[-2000:] or None
        raise UserFacingError(Failure(FailureCode.environment, "Triton-Ascend cannot be used", FIX, log=log))
    answer = json.loads(done.stdout)
    if "missing" in answer:
        raise UserFacingError(Failure(FailureCode.environment, str(answer["missing"]), FIX))
    kernels = answer["kernels"]
    for kernel in kernels:
        if "error" in kernel:
            message = f"Triton-Ascend does not compile `{kernel['name']}`"
            raise UserFacingError(
                Failure(FailureCode.verdict, message, "Nothing was pushed.", log=str(kernel["error"]))
            )
    return tuple(
        LoweredKernel(
            str(k["name"]),
            int(k["bits"]),
            int(k["copies"]),
            int(k.get("buffered_bits", 0)),
            int(k.get("compares", 0)),
        )
        for k in kernels
    )
