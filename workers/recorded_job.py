"""A job as its recording holds it: what was asked for and decided, what the runner said, and what it came to.

The runner draws its inputs anew each time, so that the figures of a failing verdict are other ones in every run; so are times on a
GPU. They stand in the questions that follow, and settings and choices hang on them. So failing results and what was measured are
kept, and given again for the very same request; so is what the job knew of gains that earlier jobs measured. A verdict that passed
is never taken from here: it is proved anew.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from gpu_runner.contracts import Action, GpuRequest, GpuResult, Status, from_json, to_json
from workers.authors.protocol import Feedback
from workers.contracts import Decision, JobOptions, JobRequest, ProblemText, Verb
from workers.models.recording import RecordingError
from workers.store.codec import read_feedback, read_request
from workers.store.models import GpuWork, Job, ReviewDecision, StageAttempt, StageMemo

NAME = "job.json"
VERSION = 1
MEASURED_BEFORE = "measured_before"  # the memo that holds what earlier jobs gained
# Whether a result comes from a GPU. What is computed for a machine without one is the same each time.
MEASURING: dict[Action, Callable[[dict[str, Any]], bool]] = {
    Action.benchmark: lambda payload: payload.get("predicted") is False,
    Action.profile: lambda payload: bool((payload.get("gpu") or {}).get("measured") or payload.get("counters")),
    Action.tune: lambda payload: payload.get("architecture") is not None,
}


@dataclass(frozen=True)
class Decided:
    """What a person decided at a checkpoint, in the order of the job."""

    decision: Decision
    feedback: tuple[Feedback, ...] = ()


@dataclass(frozen=True)
class Held:
    """A result that another run would not give: it spoke against what was asked about, or was measured.

    ``request`` is the digest of what was asked.
    """

    request: str
    action: Action
    payload: dict[str, Any]


@dataclass(frozen=True)
class RecordedJob:
    """What it takes to carry a job out again."""

    verb: Verb
    kernel: str
    problem: ProblemText
    options: JobOptions
    base_sha: str
    words: str = ""
    decisions: tuple[Decided, ...] = ()
    held: tuple[Held, ...] = ()
    trees: tuple[str, ...] | None = (
        None  # git's names of the trees of the job's commits, oldest first; None: nobody said
    )
    version: int = VERSION
    measured_before: dict[str, Any] = field(default_factory=dict)  # by attempt of a stage, such as "profile 1"

    @property
    def measured(self) -> int:
        """How many of the kept results are measurements."""
        return sum(kept.action in MEASURING for kept in self.held)


class Before:
    """Kept results, given again by what is asked: the same request a second time gets its second result, and the last one stays."""

    def __init__(self, job: RecordedJob | None = None) -> None:
        self._left: dict[str, list[Held]] = {}
        self._guard = threading.Lock()
        self._measured_before = None if job is None else job.measured_before
        for each in () if job is None else job.held:
            self._left.setdefault(each.request, []).append(each)

    def memo(self, stage: str, attempt: int, key: str) -> Any:
        """The kept memo of an attempt; None where a memo is computed anew."""
        if self._measured_before is None or key != MEASURED_BEFORE:
            return None
        return self._measured_before.get(f"{stage} {attempt}", {})

    def answer(self, request: GpuRequest) -> GpuResult | None:
        """The kept result of a request, None where there is none."""
        if not self._left:
            return None
        with self._guard:
            kept = self._left.get(digest_of(request), [])
            if not kept:
                return None
            result = kept.pop(0) if len(kept) > 1 else kept[0]
        return GpuResult(request.request_id, request.action, result.payload)


def recorded_job(session: Session, job_id: str, trees: tuple[str, ...] | None = None) -> RecordedJob:
    """A job as it is recorded; ``trees`` are of its commits, oldest first.

    Raises:
        LookupError: there is none.
    """
    job = session.scalar(select(Job).where(Job.job_id == job_id))
    if job is None:
        raise LookupError(f"there is no job {job_id}")
    request: JobRequest = read_request(job.request)
    return RecordedJob(
        request.verb,
        request.kernel,
        request.problem,
        request.options,
        request.base_sha,
        request.words,
        _decisions(session, job_id),
        _held(session, job_id),
        trees,
        measured_before=_measured_before(session, job_id),
    )


def write_job(job: RecordedJob) -> bytes:
    """A recorded job as JSON."""
    return json.dumps(to_json(job), indent=1, sort_keys=True).encode() + b"\n"


def read_job(content: bytes) -> RecordedJob:
    """Read a recorded job.

    Raises:
        RecordingError: it is none, or of another version.
    """
    try:
        job = from_json(RecordedJob, json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordingError(f"{NAME} is no recorded job: {error}") from error
    if job.version != VERSION:
        raise RecordingError(f"{NAME} is of version {job.version}, and this program reads {VERSION}")
    return job


def digest_of(request: GpuRequest) -> str:
    """The SHA-256 of what is asked of a runner: the action and its request, whoever asks and whenever."""
    form = json.dumps([request.action.value, to_json(request.payload)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(form.encode()).hexdigest()


def _decisions(session: Session, job_id: str) -> tuple[Decided, ...]:
    query = select(ReviewDecision).where(ReviewDecision.job_id == job_id).order_by(ReviewDecision.id)
    attempts = {
        (row.stage, row.attempt): row
        for row in session.scalars(select(StageAttempt).where(StageAttempt.job_id == job_id).order_by(StageAttempt.id))
    }
    decisions = []
    for row in session.scalars(query):
        before, after = attempts.get((row.stage, row.attempt)), attempts.get((row.stage, row.attempt + 1))
        new = list(after.feedback)[len(before.feedback) :] if before is not None and after is not None else []
        decisions.append(Decided(Decision(row.decision), read_feedback(new)))
    return tuple(decisions)


def _measured_before(session: Session, job_id: str) -> dict[str, Any]:
    query = (
        select(StageAttempt.stage, StageAttempt.attempt, StageMemo.value)
        .join(StageMemo, StageMemo.attempt_id == StageAttempt.id)
        .where(StageAttempt.job_id == job_id, StageMemo.key == MEASURED_BEFORE)
        .order_by(StageAttempt.id)
    )
    return {f"{stage} {attempt}": value for stage, attempt, value in session.execute(query)}


def _held(session: Session, job_id: str) -> tuple[Held, ...]:
    query = select(GpuWork).where(GpuWork.job_id == job_id, GpuWork.state == "done").order_by(GpuWork.id)
    results = []
    for work in session.scalars(query):
        request, result = from_json(GpuRequest, work.request), from_json(GpuResult, work.result or {})
        if result.payload is not None and _differs_each_time(request.action, result.payload):
            results.append(Held(digest_of(request), request.action, result.payload))
    return tuple(results)


def _differs_each_time(action: Action, payload: dict[str, Any]) -> bool:
    if action is Action.verify:
        return payload.get("status") != Status.passed.value
    if action is Action.tests:
        return payload.get("passed") is False
    return action in MEASURING and MEASURING[action](payload)
