"""The verdict: says whether a candidate computes what the problem asks for. The parent judges, the children only compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_runner.importing import uncollected

if TYPE_CHECKING:
    from gpu_runner.context import RunContext
    from gpu_runner.contracts.verify import Verdict, VerifyRequest


def run(request: VerifyRequest, context: RunContext) -> Verdict:
    """Judge a candidate against a problem.

    Raises:
        RunnerError: the host, not the candidate, is at fault.
    """
    with uncollected():
        from gpu_runner.verify.judge import judge

    return judge(request, context)
