"""Compiles CuTe DSL kernels. Carried out by Python as a script of its own: a request in JSON on standard input, an answer in JSON
on standard output. Of the module only kernels, device functions and launchers are defined, and nothing runs when they are."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.metadata
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

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
LONGEST = 2000  # characters of a compiler's message


def functions_of(source: str) -> list[ast.FunctionDef]:
    """The kernels, device functions and launchers of a module: nothing of them runs when they are defined."""
    body = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [
        node
        for node in body
        if len(node.decorator_list) == 1
        and ast.unparse(node.decorator_list[0]) in DECORATORS
        and not node.args.defaults
    ]


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


def compiled(launch: object, request: dict[str, Any], architecture: str) -> int:
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
    done = cute.compile(launch, *arguments, tuple(request["shape"]), stream, options=options)
    return len(done.artifacts.CUBIN)


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """What became of each launcher: the bytes of its machine code, or the compiler's words."""
    missing = unusable()
    if missing is not None:
        return {"missing": missing}
    nodes = functions_of(request["source"])
    text = "import cutlass\nimport cutlass.cute as cute\n\n\n" + "\n\n\n".join(map(ast.unparse, nodes)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(text)
        module = types.ModuleType("kernels")
        module.__file__ = str(path)
        sys.modules["kernels"] = module
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - definitions alone, see functions_of
        return {"kernels": [_one(vars(module), kernel, request["architecture"]) for kernel in request["kernels"]]}


def _one(functions: dict[str, Any], kernel: dict[str, Any], architecture: str) -> dict[str, Any]:
    asked = {"name": kernel["name"], "dtype": kernel["dtype"]}
    try:
        return {**asked, "bytes": compiled(functions[kernel["name"]], kernel, architecture)}
    except Exception as error:  # noqa: BLE001 - whatever the front end raises is its answer on this kernel
        return {**asked, "error": f"{type(error).__name__}: {error}"[-LONGEST:]}


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # what the package says stands beside the answer
        answer = answered(json.load(sys.stdin))
    json.dump(answer, sys.stdout)
