"""Tuning: settings of a candidate's kernels, measured on the GPU that they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_runner.importing import uncollected

if TYPE_CHECKING:
    from gpu_runner.context import RunContext
    from gpu_runner.contracts.tuning import TuneRequest, TuneResult


def run(request: TuneRequest, context: RunContext) -> TuneResult:
    """Tune a candidate within its budget; without a GPU nothing is tuned, and the result says so.

    Raises:
        RunnerError: the problem or the candidate cannot be used, or the host is at fault.
    """
    with uncollected():
        from gpu_runner.tuning.tuner import tune

    return tune(request, context)
