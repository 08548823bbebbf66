"""The hidden last line by which the bot finds its own comments again. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from service.conversation.markdown import fit

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
NO_JOB = "none"
PATTERN = re.compile(
    rf"<!-- kernelsmith:job=(?P<job>{WORD.pattern}) kind=(?P<kind>[a-z]+)(?: key=(?P<key>{WORD.pattern}))? -->"
)


class Kind(StrEnum):
    """What a message of the bot is."""

    status = "status"
    checkpoint = "checkpoint"
    report = "report"
    reminder = "reminder"
    pull = "pull"
    reply = "reply"
    regression = "regression"  # an issue that the nightly run opened, by its kernel and GPU


@dataclass(frozen=True)
class Marker:
    """Whose message it is: the job (``none`` for a reply to no job), the kind, and what tells two of a kind apart."""

    job_id: str
    kind: Kind
    key: str | None = None


def marker(job_id: str, kind: Kind, key: str | None = None) -> str:
    """Give the hidden line.

    Raises:
        ValueError: the job's id or the key holds something that could end the line.
    """
    for word in (job_id, key):
        if word is not None and (not WORD.fullmatch(word) or "--" in word):
            raise ValueError(f"{word[:80]!r} cannot stand in a marker")
    tail = f" key={key}" if key else ""
    return f"<!-- kernelsmith:job={job_id} kind={kind.value}{tail} -->"


def find_marker(body: str) -> Marker | None:
    """Give the marker of a message; only its last line counts, so that no text echoed in it can pose as one."""
    lines = body.rstrip().rsplit("\n", 1)
    found = PATTERN.fullmatch(lines[-1].strip())
    if found is None or found["kind"] not in set(Kind):
        return None
    return Marker(found["job"], Kind(found["kind"]), found["key"])


def signed(body: str, job_id: str, kind: Kind, key: str | None = None) -> str:
    """Give a message with its marker, shortened where GitHub would refuse it."""
    return fit(body, marker(job_id, kind, key))
