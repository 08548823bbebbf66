"""What the strategies of earlier jobs gained."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from gpu_runner.contracts import from_json, to_json
from workers.store.history import INSERT
from workers.store.models import StrategyTrial
from workers.strategies.gains import Trial

NEWEST = 5000


def add(session: Session, job_id: str, trials: Mapping[str, Trial]) -> None:
    """Keep a job's trials by variant; what is kept of a variant stays."""
    rows = [{"job_id": job_id, "variant": name, "trial": to_json(trial)} for name, trial in trials.items()]
    if rows:
        insert = INSERT[session.get_bind().dialect.name]
        session.execute(insert(StrategyTrial).values(rows).on_conflict_do_nothing())


def newest(session: Session) -> tuple[Trial, ...]:
    """The newest trials of all repositories, the newest first."""
    query = select(StrategyTrial.trial).order_by(StrategyTrial.id.desc()).limit(NEWEST)
    return tuple(from_json(Trial, form) for form in session.scalars(query))
