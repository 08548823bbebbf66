"""What strategies gained in earlier jobs, for a kernel, and what they gained in this one."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.contracts import BenchmarkResult, Workload, from_json
from gpu_runner.peaks import find
from workers.contracts import Variant
from workers.engine.protocol import StageContext
from workers.recorded_job import MEASURED_BEFORE
from workers.store import gains
from workers.strategies.gains import Evidence, evidence, trials_of


def measured_before(
    context: StageContext, kernel: str, gpu: str | None, workloads: Sequence[Workload]
) -> dict[str, Evidence]:
    """What earlier jobs measured of each strategy, the same in every run of the attempt."""

    def known() -> dict[str, Evidence]:
        trials = context.history(gains.newest)
        return evidence(trials, _architecture(gpu or context.request.options.gpu), _named(context, kernel), workloads)

    return {name: from_json(Evidence, form) for name, form in context.memo(MEASURED_BEFORE, known).items()}


def keep_trials(context: StageContext, kernel: str, measured: BenchmarkResult, variants: Sequence[Variant]) -> None:
    """Keep what a job's variants came to, where they were timed on a GPU."""
    if measured.predicted:
        return
    scope, job_id = context.request.options.scope, context.job.job_id
    trials = trials_of(variants, scope, _architecture(measured.gpu), _named(context, kernel))
    context.history(lambda session: gains.add(session, job_id, trials))


def _named(context: StageContext, kernel: str) -> str:
    return f"{context.request.origin.repository} {kernel}"


def _architecture(gpu: str | None) -> str:
    known = find(gpu or "")
    return known.architecture if known else gpu or ""
