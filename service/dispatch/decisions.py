"""A decision on its way to the checkpoint that it is meant for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from service.dispatch.desk import Inbox
from workers.contracts import Decision, DecisionOutcome, DecisionResult, JobState, JobView, LineComment

# GitHub gives times in whole seconds, and its clock is not this machine's.
SLACK = timedelta(seconds=3)


@dataclass(frozen=True)
class Given:
    """A decision as it was given; ``at`` is ISO 8601, empty where it is not known."""

    key: str
    decision: Decision
    sha: str
    by: str
    at: str
    feedback: str = ""
    lines: tuple[LineComment, ...] = ()


def decide(inbox: Inbox, job: JobView, given: Given) -> DecisionResult:
    """Carry a decision to the checkpoint that waits, unless it was given before that stage had even begun."""
    if was_for_an_earlier_stage(job, given.at):
        # Two checkpoints may stand on one commit; an approval of the first that comes late is none of the second.
        checkpoint = job.checkpoint
        stage, sha = (checkpoint.stage, checkpoint.sha) if checkpoint is not None else (None, None)
        return DecisionResult(DecisionOutcome.stale, job.job_id, stage, sha)
    return inbox.decide(job.job_id, None, given.sha, given.decision, given.feedback, given.lines, given.by, given.key)


def was_for_an_earlier_stage(job: JobView, given_at: str) -> bool:
    """Tell whether something was said before the stage began whose checkpoint waits now."""
    if job.state is not JobState.waiting or not job.stages or not given_at:
        return False
    began = _moment(job.stages[-1].started_at)
    said = _moment(given_at)
    if began is None or said is None or began > datetime.now(UTC) + SLACK:
        # A stage that begins in the future was begun by a clock that has been put back since: that says nothing about when.
        return False
    return said + SLACK < began


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
