"""The profiling: what a kernel has to move and compute, what bounds it, and where a GPU has counters, what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_runner.importing import uncollected

if TYPE_CHECKING:
    from gpu_runner.context import RunContext
    from gpu_runner.contracts.profiling import ProfileRequest, ProfileResult


def run(request: ProfileRequest, context: RunContext) -> ProfileResult:
    """Profile a candidate: by its roofline everywhere, by counters where Nsight Compute is and may be used.

    Raises:
        RunnerError: the problem or the GPU's name cannot be used, or the host is at fault.
    """
    with uncollected():
        from gpu_runner.profiler.examine import profile

    return profile(request, context)
