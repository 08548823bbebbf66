"""The problems of tests/suite, captured, compiled and run in Triton's interpreter against their models, at their own sizes.

``python -m tests.workers.compiler.suited RESULTS [NAME ...]``: a JSON file with the refused operator of each problem, or a list
of complaints.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from gpu_runner.capture import captured_model
from gpu_runner.child.capture import HANDLERS
from gpu_runner.child.handlers import ChildState
from gpu_runner.contracts import Graph, Problem, parse_problem
from gpu_runner.errors import ChildError
from gpu_runner.messages import Request
from tests.workers.compiler.captured import style
from tests.workers.compiler.interpreted import FLOORS, RATIO, loaded
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief

FOLDER = Path(__file__).parents[2] / "suite"
DTYPES = (torch.float32, torch.bfloat16)


class Widened(TorchDispatchMode):  # type: ignore[misc]
    """Each operator of torch in float32, its results rounded to a dtype.

    What a reference in that dtype may err by: torch's own kernels for it differ by CPU, some are missing on the host, and some gave
    NaN on one.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        narrow = any(isinstance(x, torch.Tensor) and x.dtype == self.dtype for x in tree_leaves((args, kwargs)))
        if not narrow or self.dtype == torch.float32 or func._schema.is_mutable or func.is_view or "dtype" in kwargs:
            return func(*args, **kwargs)
        args, kwargs = tree_map(lambda x: self._moved(x, self.dtype, torch.float32), (args, kwargs))
        return tree_map(lambda x: self._moved(x, torch.float32, self.dtype), func(*args, **kwargs))

    @staticmethod
    def _moved(x: Any, from_: torch.dtype, to: torch.dtype) -> Any:
        return x.to(to) if isinstance(x, torch.Tensor) and x.dtype == from_ else x


def problems() -> list[str]:
    """The names of the problems."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def graph_of(name: str) -> tuple[Problem, Graph, Callable[..., Any]]:
    """Capture a problem as the action does, in this process; also gives its reference."""
    problem, work = parse_problem((FOLDER / f"{name}.py").read_text()), Path(tempfile.mkdtemp())
    (work / "problem.py").write_text(problem.source)
    state = ChildState(work, work, False)

    def call(request: Request[Any]) -> Any:
        try:
            return HANDLERS[type(request)](state, request, [])[0]
        except Exception as error:
            raise ChildError(type(error).__name__, str(error)) from error

    sys.path.insert(0, str(work))
    importlib.invalidate_caches()
    sys.modules.pop("problem", None)
    result = captured_model(problem, call, whole=False)
    sys.path.pop(0)
    assert result.graph is not None
    assert result.problem_source is not None
    return parse_problem(result.problem_source), result.graph, state.values["problem"].reference


def judged(name: str) -> dict[str, Any]:
    """Compile a problem and compare it with its model, forward and backward."""
    problem, graph, reference = graph_of(name)
    answer = CompilerAuthor().propose(Brief(name, problem, graph, style(name)))
    if isinstance(answer, AuthorRefusal):
        return {"refused": answer.operator}
    candidate, complaints = loaded(name, answer.source).candidate, []
    for dtype in DTYPES:
        truth, got = _run(problem, reference, torch.float64, dtype), _run(problem, candidate, dtype, dtype)
        with Widened(dtype):
            own = _run(problem, reference, dtype, dtype)
        for index, (exact, reached, given) in enumerate(zip(truth, own, got, strict=True)):
            if (given.shape, given.dtype) != (reached.shape, reached.dtype):
                complaints.append(f"{dtype} tensor {index}: {given.dtype} {list(given.shape)}")
                continue
            exact = exact.double()  # of bool too
            if not torch.equal(given.isnan(), exact.isnan()):
                complaints.append(f"{dtype} tensor {index}: NaN in other places than the reference")
                continue
            given, reached, exact = (torch.where(exact.isnan(), 0, x.double()) for x in (given, reached, exact))
            scale = float(exact.abs().max()) + 1e-30
            error, allowed = (float((x.double() - exact).abs().max()) / scale for x in (given, reached))
            if not error <= RATIO * allowed + FLOORS[dtype]:
                complaints.append(f"{dtype} tensor {index}: error {error:.2e}, the reference's {allowed:.2e}")
    return {"complaints": complaints}


def _run(problem: Problem, function: Callable[..., Any], kind: torch.dtype, dtype: torch.dtype) -> list[torch.Tensor]:
    space: dict[str, Any] = {}
    exec(problem.source, space)  # the problem is a test's own file
    torch.manual_seed(3)
    given = iter([value for value in space["get_inputs"]() if isinstance(value, torch.Tensor)])
    own: list[torch.Tensor] = []
    for spec in problem.inputs:
        x = torch.rand([int(dim) for dim in spec.dims]) + 0.5 if spec.parameter else next(given)
        x = x.to(dtype).to(kind) if x.is_floating_point() else x
        own.append(x.detach().requires_grad_(spec.grad and x.is_floating_point()))
    found = function(*own, **{spec.name: spec.default for spec in problem.scalars})
    outputs = found if isinstance(found, tuple) else (found,)
    torch.manual_seed(1)
    ends = [out for out in outputs if out.requires_grad]
    upstream = [torch.randn(out.shape).to(dtype).to(out.dtype) for out in ends]
    wanted = [x for x in own if x.requires_grad]
    gradients = torch.autograd.grad(ends, wanted, upstream) if ends else ()
    return [out.detach() for out in (*outputs, *gradients)]


def main() -> None:
    """Judge every problem, or those that are named."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    results: dict[str, Any] = {}
    for name in sys.argv[2:] or problems():
        try:
            results[name] = judged(name)
        except Exception as error:
            results[name] = {"complaints": [f"{type(error).__name__}: {error}"[:2000]]}
    Path(sys.argv[1]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
