"""What questions to language models came to, under the keys of an attempt. Each function is part of one transaction."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from workers.contracts import FailureCode, StageState
from workers.models.recording import is_record
from workers.store import attempts
from workers.store.codec import read_failure
from workers.store.models import Artifact, ModelAnswer, StageAttempt

# An attempt that ended for one of these ended through no fault of the answers that it had.
BLAMELESS = (FailureCode.budget, FailureCode.model, FailureCode.environment)


def find(session: Session, row: StageAttempt, key: str, question: str) -> ModelAnswer | None:
    """Give what was kept under a key, in this attempt or in those right before it that the answers were not to blame for.

    What an earlier attempt kept serves only as an answer to the very same question, by its digest, and is this attempt's then.
    """
    own = _kept(session, row.id, key)
    if own is not None:
        return own
    for earlier in _blameless(session, row):
        kept = _kept(session, earlier.id, key)
        if kept is not None and kept.question == question and kept.answered:
            return keep(session, row, key, question, kept.record, answered=True)
    return None


def keep(session: Session, row: StageAttempt, key: str, question: str, record: str, *, answered: bool) -> ModelAnswer:
    """Keep the record of a question; that is progress, so errors are counted anew."""
    kept = ModelAnswer(attempt_id=row.id, key=key, question=question, record=record, answered=answered)
    session.add(kept)
    attempts.progressed(row)
    return kept


def artifacts_of(session: Session, job_id: str) -> tuple[tuple[str, str], ...]:
    """Give the records of a job's questions, by artifact name and digest, in the order in which they were kept first."""
    rows = session.scalars(select(Artifact).where(Artifact.job_id == job_id).order_by(Artifact.id))
    return tuple((row.name, row.digest) for row in rows if is_record(row.name))


def _kept(session: Session, attempt_id: int, key: str) -> ModelAnswer | None:
    return session.scalar(select(ModelAnswer).where(ModelAnswer.attempt_id == attempt_id, ModelAnswer.key == key))


def _blameless(session: Session, row: StageAttempt) -> list[StageAttempt]:
    query = (
        select(StageAttempt)
        .where(
            StageAttempt.job_id == row.job_id,
            StageAttempt.generation == row.generation,
            StageAttempt.stage == row.stage,
            StageAttempt.id < row.id,
        )
        .order_by(StageAttempt.id.desc())
    )
    found: list[StageAttempt] = []
    for earlier in session.scalars(query):
        failure = read_failure(earlier.failure)
        blames = failure is not None and failure.code not in BLAMELESS
        if blames or earlier.state not in (StageState.failed, StageState.cancelled):
            break
        found.append(earlier)
    return found
