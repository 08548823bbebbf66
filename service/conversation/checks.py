"""What a check run says of a commit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from service.conversation.conclusion import Conclusion
from service.conversation.failures import details, next_line, stopped_line
from service.conversation.markdown import fit, paragraphs
from service.conversation.telling import conclusion, sections, verdict
from service.escape import clip, plain
from workers.contracts import AnalyzeSummary, CheckpointUpdate, JobView, MeasureSummary, ProfileSummary, ReportUpdate

NAME = "Kernelsmith"
TITLE_LIMIT = 120
TITLES = {Conclusion.success: "passed", Conclusion.failure: "failed", Conclusion.neutral: "done"}
SUMMARY_LIMIT = 65_000  # Source: https://docs.github.com/en/rest/checks/runs, 65535 characters


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
    told, stage, ends = verdict(update.summary, job), update.stage.value, conclusion(update.summary, job)
    if isinstance(update.summary, AnalyzeSummary):
        return f"{stage}: the problem is understood", told, ends
    title = TITLES[ends] if not isinstance(update.summary, ProfileSummary) else "the kernel is measured"
    return f"{stage}: {title}", paragraphs(told, sections(update.summary, job, {})), ends


def _report(update: ReportUpdate, job: JobView) -> tuple[str, str, Conclusion]:
    if update.cancelled_by is not None:
        return "Cancelled", "The job was cancelled; what was pushed stays.", Conclusion.cancelled
    if update.failure is not None:
        told = paragraphs(stopped_line(update.failure, job), next_line(update.failure, job), details(update.failure))
        return f"Stopped: {plain(update.failure.message, 100)}", told, Conclusion.failure
    if update.summary is None:
        return "Done", "Every checkpoint was approved.", Conclusion.success
    told = paragraphs(verdict(update.summary, job), sections(update.summary, job, {}))
    if not isinstance(update.summary, MeasureSummary):
        # What stands against a merge was told at the checkpoint, and a person approved it all the same.
        return "Done", told, Conclusion.success
    ends = conclusion(update.summary, job)
    return f"{job.request.verb.value}: {TITLES[ends]}", told, ends
