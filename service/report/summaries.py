"""How each kind of result is told: one table from a summary to its verdict, its sections, what is next and how its check ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import Status
from service.escape import code
from service.report.create import (
    analyzed_sections,
    analyzed_verdict,
    faults,
    generated_sections,
    generated_verdict,
    validated_sections,
    validated_verdict,
)
from service.report.fused import fused_conclusion, fused_sections, fused_verdict
from service.report.layout import Links
from service.report.measure import measured_after, measured_conclusion, measured_sections, measured_verdict
from service.report.modify import (
    confirmed_faults,
    confirmed_sections,
    confirmed_verdict,
    modified_holds,
    modified_sections,
    modified_verdict,
)
from service.report.nightly import (
    bisected_after,
    bisected_sections,
    bisected_verdict,
    nightly_after,
    nightly_conclusion,
    nightly_sections,
    nightly_verdict,
)
from service.report.optimize import (
    finalized_after,
    finalized_faults,
    finalized_sections,
    finalized_verdict,
    fork_after,
    optimized_sections,
    optimized_verdict,
)
from service.report.port import ported_holds, ported_sections, ported_verdict
from service.report.profiled import profiled_holds, profiled_sections, profiled_verdict
from service.report.status import pull_link
from service.report.verdicts import Conclusion
from service.report.verify import proved_after, proved_conclusion, proved_sections, proved_verdict
from workers.contracts import (
    AnalyzeSummary,
    BisectSummary,
    ConfirmSummary,
    FinalizeSummary,
    FuseSummary,
    GenerateSummary,
    JobView,
    MeasureSummary,
    ModifySummary,
    NightlySummary,
    OptimizeSummary,
    PortSummary,
    ProfileSummary,
    Summary,
    ValidateSummary,
    Verb,
)


def _profiled_after(summary: ProfileSummary, job: JobView, _links: Links) -> str:
    if summary.nothing_to_gain or not summary.strategies:
        return "nothing. No strategy is worth a try on it."
    return f"{code(f'/kernel optimize {job.request.kernel}')} tries what is listed below, each proved and measured."


def _merge(_summary: object, job: JobView, links: Links) -> str:
    if job.request.read_only:
        return fork_after(job)
    return f"merge {pull_link(job, links)} when you are satisfied. The bot never merges."


def _passed(holds: bool) -> Conclusion:
    return Conclusion.success if holds else Conclusion.failure


@dataclass(frozen=True)
class Telling:
    """The sentences of one kind of summary."""

    verdict: Callable[[Any, JobView], str]
    sections: Callable[[Any, JobView, Mapping[str, str]], str]
    conclusion: Callable[[Any], Conclusion]
    after: Callable[[Any, JobView, Links], str] = _merge


TELLINGS: dict[type, Telling] = {
    AnalyzeSummary: Telling(
        analyzed_verdict, lambda s, _job, _urls: analyzed_sections(s), lambda _: Conclusion.neutral
    ),
    GenerateSummary: Telling(
        generated_verdict,
        lambda s, _job, _urls: generated_sections(s),
        lambda s: _passed(s.verdict.status is Status.passed),
    ),
    ValidateSummary: Telling(
        validated_verdict, lambda s, _job, urls: validated_sections(s, urls), lambda s: _passed(not faults(s))
    ),
    ProfileSummary: Telling(
        profiled_verdict,
        lambda s, _job, urls: profiled_sections(s, urls),
        lambda s: Conclusion.neutral if profiled_holds(s) else Conclusion.failure,
        _profiled_after,
    ),
    OptimizeSummary: Telling(
        optimized_verdict, lambda s, _job, urls: optimized_sections(s, urls), lambda _: Conclusion.neutral
    ),
    FinalizeSummary: Telling(
        finalized_verdict,
        lambda s, _job, urls: finalized_sections(s, urls),
        lambda s: _passed(not finalized_faults(s)) if s.applied else Conclusion.neutral,
        finalized_after,
    ),
    ModifySummary: Telling(
        modified_verdict,
        lambda s, _job, _urls: modified_sections(s),
        lambda s: Conclusion.success if modified_holds(s) else Conclusion.neutral,
    ),
    ConfirmSummary: Telling(
        confirmed_verdict, lambda s, _job, urls: confirmed_sections(s, urls), lambda s: _passed(not confirmed_faults(s))
    ),
    PortSummary: Telling(ported_verdict, lambda s, _job, _urls: ported_sections(s), lambda s: _passed(ported_holds(s))),
    FuseSummary: Telling(fused_verdict, lambda s, _job, urls: fused_sections(s, urls), fused_conclusion),
    NightlySummary: Telling(
        nightly_verdict, lambda s, _job, _urls: nightly_sections(s), nightly_conclusion, nightly_after
    ),
    BisectSummary: Telling(
        lambda s, _job: bisected_verdict(s),
        lambda s, _job, urls: bisected_sections(s, urls),
        lambda s: Conclusion.neutral if s.suspects else Conclusion.success,
        lambda s, _job, _links: bisected_after(s),
    ),
}
MEASURED = Telling(measured_verdict, measured_sections, measured_conclusion, measured_after)
PROVED = Telling(proved_verdict, proved_sections, proved_conclusion, proved_after)


def verdict(summary: Summary, job: JobView) -> str:
    """What was found, in one line."""
    return _telling(summary, job).verdict(summary, job)


def sections(summary: Summary, job: JobView, image_urls: Mapping[str, str]) -> str:
    """Everything below the first two lines."""
    return _telling(summary, job).sections(summary, job, image_urls)


def after(summary: Summary, job: JobView, links: Links) -> str:
    """What a maintainer does next, once the job has ended."""
    return _telling(summary, job).after(summary, job, links)


def conclusion(summary: Summary, job: JobView) -> Conclusion:
    """How a check run with this result ends."""
    return _telling(summary, job).conclusion(summary)


def _telling(summary: Summary, job: JobView) -> Telling:
    if isinstance(summary, MeasureSummary):
        return PROVED if job.request.verb is Verb.verify else MEASURED
    return TELLINGS[type(summary)]
