"""The measuring: candidate, eager and torch.compile side by side on a GPU; without one, the floor of a named GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_runner.context import RunContext
    from gpu_runner.contracts.benchmark import BenchmarkRequest, BenchmarkResult


def run(request: BenchmarkRequest, context: RunContext) -> BenchmarkResult:
    """Time a candidate against its baselines.

    Raises:
        RunnerError: the host is at fault, or the problem or candidate cannot be run at all; verify gives the reason.
    """
    from gpu_runner.benchmark.bench import benchmark

    return benchmark(request, context)
