"""The table of docs/models.md that tells what the recorded jobs took, from the recordings alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.recorded.models.jobs import FOLDER, JOBS, RecordedCommand
from workers.models.ledger import Price
from workers.models.recording import Record, records_at, use_of

PAGE = Path(__file__).parents[3] / "docs" / "models.md"
BEGIN = "<!-- Written by `python -m tests.recorded.models`; a test holds it against the recordings. -->\n"
END = "<!-- The end of the table. -->\n"
# Of an example and of no provider, in dollars a million tokens.
PRICE = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
COLUMNS = (
    "questions",
    "tokens in",
    "of which from the cache",
    "to the cache",
    "tokens out",
    "thinking, at most",
    "dollars in the example",
)


def table(jobs: Sequence[RecordedCommand] = JOBS, folder: Path = FOLDER) -> str:
    """Give the table of recordings in a folder: a row a job, and one for each round of its questions."""
    head = f"| what was asked | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}\n"
    return head + "".join(row for job in jobs for row in _rows(job, folder))


def section(page: str) -> str:
    """Give what stands in the page for the table.

    Raises:
        ValueError: there is no such place.
    """
    start = page.index(BEGIN) + len(BEGIN)
    return page[start : page.index(END, start)]


def write() -> None:
    """Put the table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.replace(BEGIN + section(page) + END, BEGIN + table() + END), encoding="utf-8")


def _rows(job: RecordedCommand, folder: Path) -> Iterator[str]:
    left = records_at(job.recording(folder))
    yield _row(job.title, left)
    for each in job.rounds:
        yield _row(f"- of it: {each.title}", left[: each.questions])
        left = left[each.questions :]


def _row(title: str, records: Sequence[Record]) -> str:
    use = use_of(records, {tried.model: PRICE for record in records for tried in record.tried})
    took = use.total
    whole = took.input_tokens + took.cache_read_tokens + took.cache_written_tokens
    thinking = sum(each.most_thinking_tokens for each in use.questions)
    counts = (took.questions, whole, took.cache_read_tokens, took.cache_written_tokens, took.output_tokens, thinking)
    dollars = (took.micro_dollars or 0) / 1e6
    return f"| {title} | " + " | ".join(f"{count:,}" for count in counts) + f" | {dollars:.2f} |\n"
