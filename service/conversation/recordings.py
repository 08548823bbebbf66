"""What a recording's questions took, as tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from service.conversation.markdown import paragraphs, table
from service.conversation.quantities import DASH, counted
from service.escape import code
from workers.contracts import QuestionUse, RecordingUse, RequestUse, UseSum

DIGITS = 12  # of a digest, as a replay shows it
TOKENS = ("tokens in", "from the cache", "to the cache", "tokens out", "seconds", "dollars")
SIZES = ("characters", "of which stable", "answered")


def recording_section(use: RecordingUse) -> str:
    """Give a row a request, and the sums by purpose; an empty recording is told in a sentence."""
    if not use.questions:
        return "The recording holds no question."
    header = ("question", "purpose", "provider", "model", "outcome", *TOKENS, *SIZES)
    rows = [row for question in use.questions for row in _rows(question)]
    sums = [_sum_row(name, each) for name, each in (*use.purposes, ("all", use.total))]
    sum_header = ("purpose", "questions", "requests", *TOKENS, *SIZES)
    return paragraphs(
        table(header, rows, numeric=range(5, len(header))),
        "In sums:",
        table(sum_header, sums, numeric=range(1, len(sum_header))),
        _words(use),
    )


def _rows(question: QuestionUse) -> Iterator[tuple[str, ...]]:
    answered = DASH if question.answer_characters is None else f"{question.answer_characters:,}"
    for number, request in enumerate(question.requests, 1):
        last = number == len(question.requests)
        sizes = (f"{question.characters:,}", f"{question.stable_characters:,}", answered if last else DASH)
        named = (question.digest[:DIGITS], code(question.purpose, 40))
        yield (*named, *_named(request), *_tokens(request), *sizes)


def _named(request: RequestUse) -> tuple[str, str, str]:
    provider, model, outcome = (
        code(text, 60) if text else DASH for text in (request.provider, request.model, request.outcome)
    )
    return provider, model, outcome


def _tokens(use: RequestUse | UseSum) -> tuple[str, ...]:
    counts = (use.input_tokens, use.cache_read_tokens, use.cache_written_tokens, use.output_tokens)
    seconds = DASH if use.duration_s is None else f"{use.duration_s:.1f}"
    return (*(f"{count:,}" for count in counts), seconds, _dollars(use.micro_dollars))


def _sum_row(name: str, use: UseSum) -> tuple[str, ...]:
    sizes = (use.characters, use.stable_characters, use.answer_characters)
    label = name if name == "all" else code(name, 40)
    return (label, f"{use.questions:,}", f"{use.requests:,}", *_tokens(use), *(f"{size:,}" for size in sizes))


def _words(use: RecordingUse) -> str:
    told = [
        "Tokens are those that the providers counted, and tokens out hold thinking; what a cache gave or took is not in tokens in. "
        "Stable characters are the start of a question that others of the job repeat."
    ]
    room = max(question.most_thinking_tokens for question in use.questions)
    if room:
        number = sum(question.most_thinking_tokens > 0 for question in use.questions)
        told.append(
            f"{counted(number, 'question')} of {len(use.questions)} left room for up to {room:,} tokens of thinking."
        )
    missing = use.total.unpriced_requests
    if missing == use.total.requests:
        told.append("No model has a price: set `KERNELSMITH_MODEL_PRICES`.")
    elif missing:
        told.append(
            f"{counted(missing, 'request')} without a price {'is' if missing == 1 else 'are'} not in the dollars."
        )
    return " ".join(told)


def _dollars(micro_dollars: int | None) -> str:
    return DASH if micro_dollars is None else f"{micro_dollars / 1_000_000:.4f}"
