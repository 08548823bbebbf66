"""Tells how far compiled attention and eager mode are from float64 where scores are large, in Triton's interpreter.

``python -m tests.workers.compiler.distant CASES RESULTS``: both JSON files. A case is a captured problem, a kind of values and a
dtype; a result is, for each output and gradient, the error of the candidate and of eager mode, relative to the truth's root mean
square.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from tests.workers.compiler.captured import captured, proposal
from tests.workers.compiler.interpreted import loaded

SIZES = {"B": 2, "T": 50, "S": 50, "H": 2, "D": 64}


def _rows(values: torch.Tensor) -> torch.Tensor:
    """Every fifth token, 30,000 times as large."""
    place = torch.arange(SIZES["T"]).reshape([-1, *[1] * (values.dim() - 2)])
    return torch.where(place % 5 == 0, 3e4, 1.0) * values


def _elements(values: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.rand(values.shape) < 0.02, 64.0, 1.0) * values


def _column(values: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.arange(values.shape[-1]) == 3, 30.0, 1.0) * values


KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ordinary": lambda values: values,
    "scores near 300": lambda values: 4 * values,
    "a large column": _column,
    "elements of 64": _elements,
    "rows of 30,000": _rows,
}


def errors(name: str, kind: str, narrow: str) -> list[tuple[float, float]]:
    """The errors of a candidate and of eager mode for queries and keys of some kind."""
    own_dtype = getattr(torch, narrow)
    problem, _ = captured(name)
    space: dict[str, Callable[..., torch.Tensor]] = {}
    exec(problem.source, space)  # the problem is a test's own
    torch.manual_seed(0)
    q, k, v, upstream = (torch.randn([SIZES[dim] for dim in problem.inputs[0].dims]) for _ in range(4))
    inputs, upstream = [x.to(own_dtype) for x in (KINDS[kind](q), KINDS[kind](k), v)], upstream.to(own_dtype)

    def run(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        given = function(*leaves)
        return [given, *torch.autograd.grad(given, leaves, upstream.to(dtype))]

    reference, candidate = space["reference"], loaded(name, proposal(name).source).candidate
    truth, eager, own = (
        run(function, dtype)
        for function, dtype in ((reference, torch.float64), (reference, own_dtype), (candidate, own_dtype))
    )

    def error(value: torch.Tensor, exact: torch.Tensor) -> float:
        return float((value - exact).norm() / exact.norm())

    return [(error(value, exact), error(near, exact)) for value, near, exact in zip(own, eager, truth, strict=True)]


def main() -> None:
    """Run every case."""
    from gpu_runner.child.interpreter import teach_interpreter

    teach_interpreter()
    cases = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps({key: errors(*case) for key, case in cases.items()}))


if __name__ == "__main__":
    main()
