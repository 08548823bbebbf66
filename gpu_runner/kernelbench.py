"""The KernelBench form of a problem, rewritten in the reference form."""

from __future__ import annotations

from gpu_runner.context import RunContext
from gpu_runner.contracts import Problem, ProblemError


def rewritten(problem: Problem, context: RunContext) -> str:
    raise ProblemError("x")
