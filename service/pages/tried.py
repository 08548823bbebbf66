"""What a model tried in a job, as its page shows it, read from the job's artifacts. Pure but for ``load``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import from_json
from workers.contracts import Attempt, JobView

PREFIX = "attempts-"
MOST_STAGES = 24
MOST_RECORDS = 128  # that are looked into for what they cost


@dataclass(frozen=True)
class TriedRow:
    """One attempt. ``record`` is the artifact of its question and answer, None where there is none."""

    attempt: Attempt
    how: str
    record: str | None
    cost: str  # in dollars, empty where nobody knows


@dataclass(frozen=True)
class TriedStage:
    """The attempts of one attempt of a stage, with the artifact that they were read from."""

    title: str
    artifact: str
    rows: tuple[TriedRow, ...]


def tried_of(job: JobView, load: Callable[[str], bytes]) -> tuple[TriedStage, ...]:
    """Give what was tried, by stage; what cannot be read is left out."""
    digests = {artifact.name: artifact.digest for artifact in job.artifacts}
    books = [name for name in digests if name.startswith(PREFIX) and name.endswith(".json")][:MOST_STAGES]
    found, left = [], MOST_RECORDS
    for name in books:
        book = _read(digests[name], load)
        stage, number = str(book.get("stage", "")), book.get("attempt", 0)
        rows = []
        for attempt in _attempts(book):
            record = f"models/{stage}-{number}/{attempt.question}.json"
            known = record in digests
            cost = _cost(digests[record], load) if known and left > 0 else ""
            left -= known
            rows.append(TriedRow(attempt, _how(attempt), record if known else None, cost))
        if rows:
            found.append(TriedStage(f"{stage}, attempt {number}", name, tuple(rows)))
    return tuple(found)


def _attempts(book: dict[str, Any]) -> tuple[Attempt, ...]:
    try:
        return tuple(from_json(Attempt, form) for form in book.get("attempts", ()))
    except (ValueError, TypeError, LookupError):
        return ()


def _how(attempt: Attempt) -> str:
    return f"repair {attempt.round}" if attempt.round else f"{attempt.task}, variation {attempt.variation + 1}"


def _cost(digest: str, load: Callable[[str], bytes]) -> str:
    tried = _read(digest, load).get("tried", ())
    known = [item["micro_dollars"] for item in tried if isinstance(item.get("micro_dollars"), int)]
    return f"${sum(known) / 1e6:.4f}" if known else ""


def _read(digest: str, load: Callable[[str], bytes]) -> dict[str, Any]:
    try:
        form = json.loads(load(digest))
    except (ValueError, LookupError, OSError):
        return {}
    return form if isinstance(form, dict) else {}
