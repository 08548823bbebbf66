"""Compiles cuTile kernels. Loaded by ``compiling``."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

IMPORTS = "import cuda.tile as ct"
LACKING: dict[type[Exception], str] = {
    FileNotFoundError: "cuTile has no `tileiras` of one release with `nvcc` and `nvvm`, which is its compiler"
}
PACKAGE = "cuda-tile"
VERSION = "1."  # the versions whose functions the compiler author spells begin so
DECORATORS = ("ct.kernel", "ct.function")


def is_known(decorator: ast.expr) -> bool:
    """Whether a decorator is one of cuTile's, with plain numbers as its options."""
    if isinstance(decorator, ast.Call):
        plain = all(isinstance(option.value, ast.Constant) for option in decorator.keywords)
        return plain and not decorator.args and ast.unparse(decorator.func) in DECORATORS
    return ast.unparse(decorator) in DECORATORS


def unusable() -> str | None:
    """What of the compiler is missing, in a sentence; None where it is there."""
    try:
        version = importlib.metadata.version(PACKAGE)
        importlib.import_module("cuda.tile")
    except (importlib.metadata.PackageNotFoundError, ImportError) as error:
        return f"cuTile cannot be imported ({error})"
    if not version.startswith(VERSION):
        return f"cuTile is {version} here, and kernels are written for {VERSION}x"
    return None


def constraint(parameter: dict[str, Any], dtype: str) -> object:
    """What a kernel is compiled for: a contiguous array as torch allocates them, a number, or a constant."""
    ct, compilation = importlib.import_module("cuda.tile"), importlib.import_module("cuda.tile.compilation")
    if "constant" in parameter:
        return compilation.ConstantConstraint(parameter["constant"][dtype])
    known = getattr(ct, {"bool": "bool_"}.get(parameter["dtype"], parameter["dtype"] or dtype))
    if "ndim" not in parameter:
        return compilation.ScalarConstraint(known)
    return compilation.ArrayConstraint(
        known,
        parameter["ndim"],
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        stride_constant=(None,) * (parameter["ndim"] - 1) + (1,),
        base_addr_divisible_by=16,
        alias_groups=(),
        may_alias_internally=False,
    )


def compiled(functions: dict[str, Any], kernel: dict[str, Any], dtype: str, architecture: str) -> dict[str, Any]:
    """The bytes of the machine code of a kernel."""
    compilation, output = importlib.import_module("cuda.tile.compilation"), io.BytesIO()
    hinted = functions[kernel["name"]]
    if kernel["occupancy"] is not None:
        hinted = hinted.replace_hints(occupancy=kernel["occupancy"][dtype])
    convention = compilation.CallingConvention.cutile_python_v1()
    signature = compilation.KernelSignature([constraint(p, dtype) for p in kernel["parameters"]], convention)
    compilation.export_kernel(hinted, [signature], output, gpu_code=architecture, output_format="cubin")
    return {"bytes": len(output.getvalue())}


def jobs(
    functions: dict[str, Any], request: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Each kernel in each dtype: the bytes of its machine code."""
    for kernel in request["kernels"]:
        for dtype in request["dtypes"]:
            asked = {"name": kernel["name"], "dtype": dtype}
            yield asked, partial(compiled, functions, kernel, dtype, request["architecture"])
