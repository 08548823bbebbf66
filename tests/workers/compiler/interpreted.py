"""Runs compiled candidates in Triton's interpreter, in a process of its own: the interpreter is chosen when triton is imported.

``python -m tests.workers.compiler.interpreted CASES RESULTS``: both JSON files; a result is a list of complaints.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.workers.compiler.captured import captured, proposal
from workers.layouts.dimensions import leading_inputs

# As the runner's verdict: twice the reference's own error, and what one rounding of the dtype explains.
RATIO = 2.0
EPS = 1e-6  # of norms
BEGUN = 3  # elements
FLOORS = {torch.float32: 2e-6, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


def loaded(name: str, source: str) -> ModuleType:
    """Import a candidate."""
    path = Path(tempfile.mkdtemp()) / f"candidate_{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complaints(
    name: str,
    sizes: dict[str, int],
    dtype_name: str,
    leading: tuple[int, ...] = (),
    candidate: Callable[..., Any] | None = None,
    in_place: bool = False,
    offset: float = 0.0,
    begun: bool = False,
    moved: dict[str, Any] | None = None,
) -> list[str]:
    """What is wrong with a candidate at some sizes, in a dtype; ``leading`` stands for the first dimension of what has it.

    One that works ``in_place`` has no second backward; ``offset`` moves all numbers; of a first input that is ``begun`` the first
    elements alone are not zero; ``moved`` are scalars that are others than the problem's.
    """
    problem, graph = captured(name)
    dtype = getattr(torch, dtype_name)
    space: dict[str, Any] = {}
    exec(problem.source, space)  # the problem is a test's own file
    reference = space["reference"]
    candidate = candidate or _plain(name)
    scalars = dict(problem.workloads[0].scalars) | (moved or {})
    torch.manual_seed(sum(sizes.values()))
    inputs = []
    for spec in problem.inputs:
        shape = [sizes[dim] if dim in sizes else int(dim) for dim in spec.dims]
        shape[:1] = leading if leading and spec.name in leading_inputs(problem, graph) else shape[:1]
        if spec.dtype == "int64":
            high = spec.high if isinstance(spec.high, int) else sizes[str(spec.high)]
            inputs.append(torch.randint(spec.low or 0, high, shape))
            continue
        inputs.append(
            torch.rand(shape) > 0.5 if spec.dtype == "bool" else (offset + 0.7 * torch.randn(shape)).to(dtype).float()
        )
    if begun:
        inputs[0].flatten(1)[:, BEGUN:] = 0.0

    def run(function: Callable[..., Any], kind: torch.dtype) -> list[torch.Tensor]:
        own = [
            x if not x.is_floating_point() else x.to(kind).requires_grad_(s.grad)
            for x, s in zip(inputs, problem.inputs, strict=True)
        ]
        given = function(*own, **scalars)
        outputs = given if isinstance(given, tuple) else (given,)
        torch.manual_seed(1)
        upstream = [torch.randn(o.shape).to(dtype).to(o.dtype) for o in outputs]
        wanted = [x for x in own if x.requires_grad]
        first = torch.autograd.grad(outputs, wanted, upstream, retain_graph=True)
        if in_place and function is candidate:
            return [*outputs, *first]
        again = torch.autograd.grad(outputs, wanted, upstream)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True)), (
            "a second backward gives other gradients"
        )
        return [*outputs, *first]

    truth, own, got = run(_lifted(reference), torch.float64), run(reference, dtype), run(candidate, dtype)
    found = []
    for index, (exact, reached, given) in enumerate(zip(truth, own, got, strict=True)):
        if given.shape != reached.shape or given.dtype != reached.dtype:
            found.append(
                f"tensor {index}: {given.dtype} {list(given.shape)}, not {reached.dtype} {list(reached.shape)}"
            )
            continue
        if not exact.numel():
            continue
        scale = float(exact.abs().max()) or 1.0  # what is added up to zeros alone is of the order of one
        if all(size == 1 for size in sizes.values()):
            scale = max(scale, EPS**-0.5)  # so large are the terms that cancel in the gradient of a norm of one column
        error, allowed = _error(given, exact) / scale, RATIO * _error(reached, exact) / scale + FLOORS[dtype]
        if not error <= allowed:
            found.append(f"tensor {index}: error {error:.2e}, {allowed:.2e} allowed")
    return found


@cache
def _plain(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = loaded(name, proposal(name).source).candidate
    return function


def _error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value.double() - exact).abs().max())


def _lifted(reference: Callable[..., Any]) -> Callable[..., Any]:
    """The reference's own casts to float32 must not round the truth."""

    def function(*args: Any, **kwargs: Any) -> Any:
        plain = torch.Tensor.float
        torch.Tensor.float = torch.Tensor.double
        try:
            return reference(*args, **kwargs)
        finally:
            torch.Tensor.float = plain

    return function


def main() -> None:
    """Run every case."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    cases = json.loads(Path(sys.argv[1]).read_text())
    results: dict[str, dict[str, list[str]]] = {problem: {} for problem in cases}
    for problem, table in cases.items():
        for key, (name, sizes, dtype, leading, moved) in table.items():
            try:
                results[problem][key] = complaints(name, sizes, dtype, tuple(leading), moved=moved)
            except Exception as error:
                results[problem][key] = [f"{type(error).__name__}: {error}"[:2000]]
    Path(sys.argv[2]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
