"""Compiles cuTile kernels. Carried out by Python as a script of its own: a request in JSON on standard input, an answer in JSON on
standard output. Of the module only kernels and device functions are defined, and nothing runs when they are."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import io
import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

PACKAGE = "cuda-tile"
VERSION = "1."  # the versions whose functions the compiler author spells begin so
DECORATORS = ("ct.kernel", "ct.function")
LONGEST = 2000  # characters of a compiler's message


def device_functions(source: str) -> list[ast.FunctionDef]:
    """The kernels and device functions of a module: nothing of them runs when they are defined."""
    body = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [
        node
        for node in body
        if len(node.decorator_list) == 1 and _is_known(node.decorator_list[0]) and not node.args.defaults
    ]


def _is_known(decorator: ast.expr) -> bool:
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


def compiled(kernel: object, parameters: list[dict[str, Any]], dtype: str, architecture: str) -> int:
    """The bytes of the machine code of a kernel."""
    compilation, output = importlib.import_module("cuda.tile.compilation"), io.BytesIO()
    convention = compilation.CallingConvention.cutile_python_v1()
    signature = compilation.KernelSignature([constraint(p, dtype) for p in parameters], convention)
    compilation.export_kernel(kernel, [signature], output, gpu_code=architecture, output_format="cubin")
    return len(output.getvalue())


def answered(request: dict[str, Any]) -> dict[str, Any]:
    """What became of each kernel: the bytes of its machine code, or the compiler's words."""
    missing = unusable()
    if missing is not None:
        return {"missing": missing}
    nodes = device_functions(request["source"])
    text = "import cuda.tile as ct\n\n\n" + "\n\n\n".join(map(ast.unparse, nodes)) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.py"
        path.write_text(text)
        module = types.ModuleType("kernels")
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - definitions alone, see device_functions
        wanted = [(kernel, dtype) for kernel in request["kernels"] for dtype in request["dtypes"]]
        try:
            return {"kernels": [_one(vars(module), *one, request["architecture"]) for one in wanted]}
        except FileNotFoundError:
            return {"missing": "cuTile has no `tileiras` of one release with `nvcc` and `nvvm`, which is its compiler"}


def _one(functions: dict[str, Any], kernel: dict[str, Any], dtype: str, architecture: str) -> dict[str, Any]:
    asked = {"name": kernel["name"], "dtype": dtype}
    try:
        return {**asked, "bytes": compiled(functions[kernel["name"]], kernel["parameters"], dtype, architecture)}
    except FileNotFoundError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the front end raises is its answer on this kernel
        return {**asked, "error": f"{type(error).__name__}: {error}"[-LONGEST:]}


if __name__ == "__main__":
    json.dump(answered(json.load(sys.stdin)), sys.stdout)
