"""What a check run says of a commit. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.conversation.checkpoint import checkpoint_holds, checkpoint_verdict
from service.conversation.failures import details, next_line, stopped_line
from service.conversation.markdown import fit, paragraphs
from service.conversation.report import report_sections, report_verdict
from service.conversation.verdicts import verdict_section
from service.escape import clip, plain
from workers.contracts import AnalyzeSummary, CheckpointUpdate, GenerateSummary, JobView, ReportUpdate

NAME = "Kernelsmith"
TITLE_LIMIT = 120
SUMMARY_LIMIT = 65_000  # Source: https://docs.github.com/en/rest/checks/runs, 65535 characters


class Conclusion(StrEnum):
    """How a check run ends, in GitHub's words."""

    success = "success"
    failure = "failure"
    neutral = "neutral"
    cancelled = "cancelled"


@dataclass(frozen=True)
class CheckRunOutput:
    """The texts and the conclusion; ``title`` is plain text, ``summary`` markdown."""

    name: str
    title: str
    summary: str
    conclusion: Conclusion


def check_run_output(update: CheckpointUpdate | ReportUpdate, job: JobView) -> CheckRunOutput:
    """Give what the check run on the head commit says after an update."""
    if isinstance(update, CheckpointUpdate):
        title, summary, conclusion = _checkpoint(update, job)
    else:
        title, summary, conclusion = _report(update, job)
    return CheckRunOutput(NAME, clip(title, TITLE_LIMIT), fit(summary, limit=SUMMARY_LIMIT), conclusion)


def _checkpoint(update: CheckpointUpdate, job: JobView) -> tuple[str, str, Conclusion]:
    # A check run is never edited, so its title says nothing that a review changes, such as what waits.
    verdict, stage = checkpoint_verdict(update, job), update.stage.value
    if isinstance(update.summary, AnalyzeSummary):
        return f"{stage}: the problem is understood", verdict, Conclusion.neutral
    found = verdict_section(update.summary.verdict) if isinstance(update.summary, GenerateSummary) else ""
    if not isinstance(update.summary, GenerateSummary):
        found = report_sections(update.summary, {})
    if checkpoint_holds(update):
        return f"{stage}: passed", paragraphs(verdict, found), Conclusion.success
    return f"{stage}: failed", paragraphs(verdict, found), Conclusion.failure


def _report(update: ReportUpdate, job: JobView) -> tuple[str, str, Conclusion]:
    if update.cancelled_by is not None:
        return "Cancelled", "The job was cancelled; what was pushed stays.", Conclusion.cancelled
    if update.failure is not None:
        told = paragraphs(stopped_line(update.failure, job), next_line(update.failure, job), details(update.failure))
        return f"Stopped: {plain(update.failure.message, 100)}", told, Conclusion.failure
    if update.summary is None:
        return "Done", "Every checkpoint was approved.", Conclusion.success
    told = paragraphs(report_verdict(update.summary, job), report_sections(update.summary, {}))
    return "Done", told, Conclusion.success
