"""What the questions of a recording took, from their records. Pure but for ``records_at``, which reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from workers.contracts import QuestionUse, RecordingUse, RequestUse, UseSum
from workers.models.pricing import Price, cost, price_of
from workers.models.protocol import Answer, Form, Part, Question, Trouble
from workers.models.recording import LINES, Record, Recording, RecordingError, Refusal, Tried, digest_of, read_record


def records_at(path: Path) -> tuple[Record, ...]:
    """Give the records of a recording, of one record that a job keeps, or of a folder of those, in their names' order.

    Raises:
        RecordingError: there is none, or one is damaged; the text says where.
    """
    if path.is_dir() and not (path / LINES).exists():
        found = [_kept(file) for file in sorted(path.rglob("*.json")) if _may_be_record(file)]
        if not found:
            raise RecordingError(f"there is no {LINES} and no record of a question in the folder {path}")
        return tuple(found)
    if path.suffix == ".json":
        return (_kept(path),)
    return Recording.read(path).records


def use_of(records: Sequence[Record], prices: Mapping[str, Price]) -> RecordingUse:
    """Give what the questions took; a request that had no price when it was made is priced by ``prices``."""
    questions = tuple(_question_use(record, prices) for record in records)
    purposes = dict.fromkeys(question.purpose for question in questions)
    sums = tuple((name, _sum([each for each in questions if each.purpose == name])) for name in purposes)
    return RecordingUse(questions, sums, _sum(questions))


def characters(question: Question) -> tuple[int, int]:
    """Give the characters of a question and those of its stable start, the form of the answer counted in both."""
    parts = (*question.system, *(part for message in question.messages for part in message.parts))
    form = 0 if question.form is None else _form_characters(question.form)
    last = max((number for number, part in enumerate(parts, 1) if part.stable), default=0)
    return form + _length(parts), form + _length(parts[:last]) if last else 0


def _kept(file: Path) -> Record:
    try:
        return read_record(file.read_bytes())
    except (OSError, RecordingError) as error:
        raise RecordingError(f"{file}: {error}") from error


def _may_be_record(file: Path) -> bool:
    try:
        form = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(form, dict) and {"digest", "question", "outcome"} <= form.keys()


def _question_use(record: Record, prices: Mapping[str, Price]) -> QuestionUse:
    whole, stable = characters(record.question)
    outcome = record.outcome
    return QuestionUse(
        purpose=record.question.purpose,
        digest=digest_of(record.question),
        characters=whole,
        stable_characters=stable,
        answer_characters=_answer_characters(outcome) if isinstance(outcome, Answer) else None,
        most_output_tokens=record.question.most_tokens,
        most_thinking_tokens=record.question.thinking_tokens,
        requests=tuple(_request_use(tried, prices) for tried in record.tried or _only(outcome)),
    )


def _only(outcome: Answer | Refusal) -> tuple[Tried, ...]:
    """The one attempt that a record without attempts tells of; none where nobody was asked in the end."""
    if isinstance(outcome, Answer):
        return (Tried(outcome.provider, outcome.model, "answered", outcome.usage),)
    if outcome.trouble is Trouble.not_needed:
        return ()
    return (Tried(outcome.provider, "", outcome.trouble.value, outcome.usage),)


def _request_use(tried: Tried, prices: Mapping[str, Price]) -> RequestUse:
    usage, paid = tried.usage, tried.micro_dollars
    if paid is None:
        paid = cost(usage, price_of(prices, tried.provider, tried.model))
    return RequestUse(
        tried.provider,
        tried.model,
        tried.outcome,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_written_tokens,
        paid,
        tried.duration_s,
    )


def _sum(questions: Sequence[QuestionUse]) -> UseSum:
    requests = [request for question in questions for request in question.requests]
    paid = [request.micro_dollars for request in requests if request.micro_dollars is not None]
    durations = [request.duration_s for request in requests if request.duration_s is not None]
    return UseSum(
        questions=len(questions),
        requests=len(requests),
        input_tokens=sum(request.input_tokens for request in requests),
        output_tokens=sum(request.output_tokens for request in requests),
        cache_read_tokens=sum(request.cache_read_tokens for request in requests),
        cache_written_tokens=sum(request.cache_written_tokens for request in requests),
        micro_dollars=sum(paid) if paid else None,
        unpriced_requests=len(requests) - len(paid),
        duration_s=sum(durations) if durations else None,
        characters=sum(question.characters for question in questions),
        stable_characters=sum(question.stable_characters for question in questions),
        answer_characters=sum(question.answer_characters or 0 for question in questions),
    )


def _answer_characters(answer: Answer) -> int:
    return len(answer.text) + (0 if answer.data is None else len(json.dumps(answer.data, ensure_ascii=False)))


def _form_characters(form: Form) -> int:
    return len(form.name) + len(form.description) + len(json.dumps(form.schema))


def _length(parts: Sequence[Part]) -> int:
    return sum(len(part.text) for part in parts)
