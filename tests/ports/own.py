"""What a library's own port to Ascend launches, and whether it is right where its kernels run in Triton's interpreter.

    PYTHONPATH=CHECKOUT/src ASCEND_UB_CAPACITY_BITS=1572864 TRITON_INTERPRET=1 python -m tests.ports.own NAME PROBLEM

prints JSON: ``launches`` at the problem's last size in bfloat16, each a request as ``workers.targets.ascend_lowering`` takes it,
with its grid; and ``parity``, the largest errors of result and gradients in float32 at a small size, or why they are not known.
What the host lacks of an NPU's Triton is imported as None, and `rsqrt` and `tanh` are those of `interpreted`.

    ASCEND_PYTHON -m tests.ports.own FILE < REQUESTS

lowers kernels of a file with Triton-Ascend; no host code of it runs.
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

CORES = 40  # vector cores of a 910B2 to 910B4
SMALL = 96  # of each dimension, where values are looked at


def stand_in(folder: Path) -> None:
    """Let what files import of an NPU's Triton be there."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triton."):
                _have(str(node.module), [alias.name for alias in node.names])


def _have(name: str, members: list[str]) -> None:
    parts = name.split(".")
    for module in (".".join(parts[: end + 1]) for end in range(len(parts))):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            sys.modules[module] = types.ModuleType(module)
            sys.modules[module].__path__ = []
    for member in members:
        if not hasattr(sys.modules[name], member):
            setattr(sys.modules[name], member, None)


class Recorder:
    """In place of a kernel: keeps how it is launched."""

    def __init__(self, name: str, parameters: list[str], constants: list[str], kept: list[dict[str, Any]]) -> None:
        """Keep launches of a kernel with these parameters, of which some are compile-time constants."""
        self.name, self.parameters, self.constants, self.kept = name, parameters, constants, kept

    def __getitem__(self, grid: Any) -> Any:
        """The launch of a grid."""
        return lambda *given, **named: self._launch(grid, dict(zip(self.parameters, given, strict=False)) | named)

    def _launch(self, grid: Any, given: dict[str, Any]) -> None:
        constants = {name: given[name] for name in self.constants if name in given}
        others = {name: given[name] for name in self.parameters if name in given and name not in self.constants}
        cells = grid(constants) if callable(grid) else grid
        self.kept.append(
            {
                "name": self.name,
                "grid": [int(size) for size in cells],
                "constants": {name: _constant(value) for name, value in constants.items()},
                "signature": {name: _type(value) for name, value in others.items()},
            }
        )


def _constant(value: Any) -> Any:
    """A compile-time constant as JSON has it; a dtype by its name in ``tl``."""
    names = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
    return value if value is None or type(value) in (int, bool, float, str) else f"tl.{names[str(value)]}"


def _type(value: Any) -> str:
    kinds = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "int64": "i64", "int32": "i32", "bool": "i1"}
    if hasattr(value, "dtype"):
        return f"*{kinds[str(value.dtype).removeprefix('torch.')]}"
    return "fp32" if isinstance(value, float) else "i1" if isinstance(value, bool) else "i32"


def launches(module: types.ModuleType, problem: Any) -> list[dict[str, Any]]:
    """Each kernel's first launch of forward and backward at the problem's last size, in bfloat16."""
    import torch

    kept: list[dict[str, Any]] = []
    tree = ast.parse(Path(str(module.__file__)).read_text())
    own = {name: getattr(module, name) for name in vars(module) if hasattr(getattr(module, name), "fn")}
    for node in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in own):
        names = [argument.arg for argument in node.args.args]
        constants = [
            a.arg for a in node.args.args if a.annotation is not None and "constexpr" in ast.unparse(a.annotation)
        ]
        setattr(module, node.name, Recorder(node.name, names, constants, kept))
    sizes = dict(problem.workloads[-1].sizes)
    results = _tuple(called(module, problem, sizes, torch.bfloat16)[0])
    torch.autograd.backward(results, [torch.ones_like(result) for result in results])
    for name, kernel in own.items():
        setattr(module, name, kernel)
    return list({launch["name"]: launch for launch in reversed(kept)}.values())[::-1]


def called(module: types.ModuleType, problem: Any, sizes: dict[str, int], dtype: Any) -> tuple[Any, dict[str, Any]]:
    """The library's result for drawn inputs, with the inputs."""
    import torch

    torch.manual_seed(0)
    values: dict[str, Any] = {spec.name: spec.default for spec in problem.scalars}
    for spec in problem.inputs:
        shape = [int(dim) if dim.isdigit() else sizes[dim] for dim in spec.dims]
        if (spec.dtype or "").startswith("int"):
            values[spec.name] = torch.randint(-100, -96, shape)
            continue
        drawn = torch.randn(shape, dtype=torch.float32)
        drawn = getattr(drawn, spec.init)(-1) if spec.init in ("softmax", "log_softmax") else drawn
        values[spec.name] = drawn.to(dtype).requires_grad_(spec.grad)
    function = problem.call.partition(".apply")[0]
    return eval(problem.call, {function: getattr(module, function), **values}), values


def parity(module: types.ModuleType, problem: Any) -> str:
    """The largest errors against the problem's reference, in float32 at a small size; or what the interpreter raises."""
    import torch

    try:
        result, values = called(module, problem, dict.fromkeys(dict(problem.workloads[-1].sizes), SMALL), torch.float32)
        results = _tuple(result)
        upstream = [torch.randn_like(result) for result in results]
        torch.autograd.backward(results, [each.clone() for each in upstream])  # which it may overwrite
        own = {name: value.grad for name, value in values.items() if getattr(value, "grad", None) is not None}
        scope: dict[str, Any] = {}
        exec(problem.source, scope)
        again = {
            n: v.detach().clone().requires_grad_(v.requires_grad) if hasattr(v, "detach") else v
            for n, v in values.items()
        }
        right = _tuple(scope["reference"](*(again[name] for name in problem.parameters)))
        torch.autograd.backward(right, upstream)
        off = max(float((one - other).detach().abs().max()) for one, other in zip(results, right, strict=True))
        errors = [float((own[name] - again[name].grad).abs().max()) for name in own]
        return f"{off:.1e}, gradients {max(errors):.1e}"
    except Exception as error:
        cause = error.__cause__ or error
        return f"not in the interpreter: {type(cause).__name__}: {str(cause).splitlines()[0][:100]}"


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def lowered(path: Path, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bits of the tiles of each kernel of a file, or the compiler's words."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "workers" / "targets"))
    lowering = importlib.import_module("ascend_lowering")
    tree = ast.parse(path.read_text())
    kept = [node for node in tree.body if _is_device_code(node)]
    text = "import triton\nimport triton.language as tl\n" + "\n\n".join(map(ast.unparse, kept)) + "\n"
    file = Path(f"{path}.device.py")
    file.write_text(text)
    scope: dict[str, Any] = {"__name__": "device", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), scope)
    for request in requests:
        given = request["constants"].items()
        request["constants"] = {n: getattr(scope["tl"], v[3:]) if str(v).startswith("tl.") else v for n, v in given}
    return [{"name": request["name"], **lowering.one_lowered(scope, request)} for request in requests]


def _is_device_code(node: ast.stmt) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").startswith("triton.")
    if isinstance(node, ast.FunctionDef):
        return any("triton.jit" in ast.unparse(decorator) for decorator in node.decorator_list)
    return isinstance(node, ast.Assign | ast.AnnAssign) and "tl.constexpr" in ast.unparse(node)


def main(words: list[str]) -> None:
    """Print what is asked."""
    if len(words) == 1:
        json.dump(lowered(Path(words[0]), json.load(sys.stdin)), sys.stdout)
        return
    from gpu_runner.contracts import parse_problem

    name, file = words
    import liger_kernel.utils

    liger_kernel.utils.is_npu_available = lambda: False
    stand_in(Path(str(liger_kernel.utils.__file__)).parent / "ops" / "backends" / "_ascend")
    module = importlib.import_module(f"liger_kernel.ops.backends._ascend.ops.{name}")
    module.get_npu_core_count = lambda *_: CORES
    interpreted = importlib.import_module("tests.ports.interpreted")
    for function in ("rsqrt", "tanh"):
        if hasattr(module, function):
            setattr(module, function, getattr(interpreted, function))
    problem = parse_problem(Path(file).read_text())
    answer = {
        "launches": launches(module, problem),
        "parity": parity(module, problem),
        "workload": problem.workloads[-1].label(),
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
