"""Questions to models without secrets. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from workers.models.protocol import Message, Part, Question
from workers.redaction import redacted


@dataclass(frozen=True)
class Redacted:
    """A question without secrets, and how many of each kind were in it."""

    question: Question
    counts: Mapping[str, int] = field(hash=False)


def redacted_question(question: Question, secrets: Iterable[str] = ()) -> Redacted:
    """Give the question with every part of it redacted. The form is the program's own and stays as it is."""
    known = tuple(secrets)
    counts: Counter[str] = Counter()

    def clean(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        kept = []
        for part in parts:
            text, found = redacted(part.text, known)
            counts.update(found)
            kept.append(replace(part, text=text))
        return tuple(kept)

    system = clean(question.system)
    messages = tuple(Message(message.role, clean(message.parts)) for message in question.messages)
    return Redacted(replace(question, system=system, messages=messages), dict(counts))
