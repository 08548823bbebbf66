"""The book of what a model proposed in one attempt of a stage: for the comment, and as an artifact that the job's page shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gpu_runner.contracts import to_json
from workers.authors.llm.protocol import Task
from workers.contracts import Attempt, StageName
from workers.engine.protocol import StageContext
from workers.models.protocol import ModelError, Trouble, Usage

MAX_EVIDENCE = 500
ASKED = "asked"
NOT_JUDGED = "not judged"
NOT_NEEDED = "not needed"
NOT_FASTER = "not faster"
DUPLICATE = "duplicate"


class Book:
    """Attempts in the order in which they were asked for; what is written down is kept at once."""

    def __init__(self, context: StageContext, stage: StageName) -> None:
        self._context = context
        self._name = f"attempts-{stage.value}-{context.attempt}.json"
        self._head: dict[str, Any] = {"stage": stage.value, "attempt": context.attempt}
        self._attempts: list[Attempt] = []

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Give all attempts so far."""
        return tuple(self._attempts)

    def add(self, task: Task, round_: int, variation: int, question: str, usage: Usage) -> int:
        """Write a new attempt down and give its number."""
        number = len(self._attempts) + 1
        self._attempts.append(
            Attempt(number, task.value, round_, variation, question, ASKED, tokens=tokens_of(usage) or None)
        )
        return number

    def unanswered(self, number: int, error: ModelError) -> None:
        """Say why there is no answer to an attempt."""
        needed = error.trouble is not Trouble.not_needed
        self.ended(number, error.trouble.value if needed else NOT_NEEDED, str(error))

    def ended(self, number: int, outcome: str, evidence: str = "") -> None:
        """Say what became of an attempt."""
        self._change(number, outcome=outcome, evidence=evidence[:MAX_EVIDENCE])

    def measured(self, number: int, median_us: float) -> None:
        """Say how fast an attempt is."""
        self._change(number, median_us=median_us)

    def chosen(self, number: int) -> None:
        """Say which one is taken; those that nobody has looked at by now were not needed."""
        for attempt in self.attempts:
            if attempt.outcome == ASKED:
                self._change(attempt.number, outcome=NOT_JUDGED)
        self._change(number, chosen=True)
        self.keep()

    def left(self, number: int, evidence: str) -> None:
        """Say that the one that a search chose is proved and yet not taken: it is no better than what there was."""
        self._change(number, outcome=NOT_FASTER, evidence=evidence[:MAX_EVIDENCE], chosen=False)
        self.keep()

    def keep(self) -> None:
        """Keep the book as the job's artifact."""
        form = self._head | {"attempts": [to_json(attempt) for attempt in self._attempts]}
        self._context.artifact(self._name, json.dumps(form, indent=2).encode(), "application/json")

    def sentences(self) -> tuple[str, ...]:
        """Give each attempt in a sentence."""
        return tuple(sentence_of(attempt) for attempt in self._attempts)

    def _change(self, number: int, **changes: Any) -> None:
        self._attempts[number - 1] = replace(self._attempts[number - 1], **changes)


def sentence_of(attempt: Attempt) -> str:
    """Give one attempt in a sentence."""
    when = f"repair {attempt.round}" if attempt.round else attempt.task
    told = f": {attempt.evidence}" if attempt.evidence else ""
    return f"attempt {attempt.number} ({when}) ended as `{attempt.outcome}`{told}"


def tokens_of(usage: Usage) -> int:
    """Give all tokens of an answer, read and written."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_written_tokens
