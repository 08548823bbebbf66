"""Compiles CuTe DSL kernels, by their launchers. Loaded by ``compiling``."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

IMPORTS = "import cutlass\nimport cutlass.cute as cute"
LACKING: dict[type[Exception], str] = {}
PACKAGE = "nvidia-cutlass-dsl"
VERSION = "4."  # the versions whose functions the compiler author spells begin so
DECORATORS = ("cute.kernel", "cute.jit")
NUMBERS = ("Int32", "Int64", "Float32")
DTYPES = {
    "float32": "Float32",
    "bfloat16": "BFloat16",
    "float16": "Float16",
    "int32": "Int32",
    "int64": "Int64",
}


def is_known(decorator: ast.expr) -> bool:
    """Whether a decorator is CuTe DSL's, without options."""
    return ast.unparse(decorator) in DECORATORS


def unusable() -> str | None:
    """What of the compiler is missing, in a sentence; None where it is there."""
    try:
        version = importlib.metadata.version(PACKAGE)
        importlib.import_module("cutlass.cute")
        importlib.import_module("tvm_ffi")
    except (importlib.metadata.PackageNotFoundError, ImportError) as error:
        return f"CuTe DSL cannot be imported ({error})"
    if not version.startswith(VERSION):
        return f"CuTe DSL is {version} here, and kernels are written for {VERSION}x"
    return None


def compiled(functions: dict[str, Any], request: dict[str, Any], architecture: str) -> dict[str, Any]:
    """The bytes of the machine code of a launcher's kernel, for contiguous tensors as torch allocates them."""
    cutlass, cute = importlib.import_module("cutlass"), importlib.import_module("cutlass.cute")
    arguments = [
        cute.runtime.make_fake_compact_tensor(
            dtype := getattr(cutlass, DTYPES[tensor["dtype"]]),
            (cute.sym_int64(),),
            assumed_align=tensor["vector"] * dtype.width // 8,
        )
        for tensor in request["tensors"]
    ]
    arguments += [getattr(cutlass, number)(1) for number in request["numbers"] if number in NUMBERS]
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    options = f"--enable-tvm-ffi --keep-cubin --gpu-arch {architecture}"
    done = cute.compile(functions[request["name"]], *arguments, tuple(request["shape"]), stream, options=options)
    return {"bytes": len(done.artifacts.CUBIN)}


def jobs(
    functions: dict[str, Any], request: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Each launcher: the bytes of its machine code."""
    for kernel in request["kernels"]:
        asked = {"name": kernel["name"], "dtype": kernel["dtype"]}
        yield asked, partial(compiled, functions, kernel, request["architecture"])
