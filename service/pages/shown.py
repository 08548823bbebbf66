"""What the page of a job shows: its timeline, its artifacts and what was tried. Pure."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token
from markupsafe import Markup, escape

from gpu_runner.contracts import from_json
from service.addresses import Addresses
from service.media_types import content_type
from workers.contracts import ArtifactView, Attempt, Failure, JobState, JobView, StageState, TimelineEvent

STATE_WORDS: dict[JobState, str] = {
    JobState.queued: "queued",
    JobState.running: "running",
    JobState.waiting: "waits for a review",
    JobState.done: "done",
    JobState.failed: "failed",
    JobState.cancelled: "cancelled",
}
STAGE_MARKS: dict[StageState, str] = {
    StageState.pending: "○",
    StageState.running: "◐",
    StageState.waiting: "◇",
    StageState.done: "●",
    StageState.revised: "↻",
    StageState.failed: "✕",
    StageState.cancelled: "–",
}
EVENT_WORDS: dict[str, str] = {
    "submitted": "asked",
    "checkpoint": "asked for a review",
    "decided": "review",
    "gpu_requested": "asked the runner",
    "gpu_finished": "the runner answered",
    "update_published": "published",
    "update_failed": "not published",
    "stage_retried": "stage tried again",
    "gpu_host_lost": "GPU host lost",
    "gpu_host_unusable": "GPU host unusable",
    "worker_lost": "worker lost",
}
UPDATE_WORDS = {"ReadyUpdate": "ready for review", "AssetsUpdate": "plots"}
SAID_BY_TEXT = frozenset({"done", "cancelled", "retried"})  # events whose text needs no heading
# What may be shown in the browser from this origin; an SVG or HTML file could carry a script.
INLINE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
TEXT_TYPES = frozenset({"application/json", "application/x-ndjson"})


@dataclass(frozen=True)
class JobRow:
    """One job in the list."""

    job_id: str
    title: str
    repository: str
    state: str
    state_word: str
    updated: str
    updated_iso: str


@dataclass(frozen=True)
class StageRow:
    """One attempt of a stage."""

    mark: str
    name: str
    state: str
    attempt: int
    note: str
    duration: str
    failure: Failure | None


@dataclass(frozen=True)
class EventRow:
    """One line of the timeline."""

    ago: str
    at: str
    heading: str
    text: str


@dataclass(frozen=True)
class Link:
    """A link out of the page."""

    text: str
    url: str


def row_of(job: JobView, now: datetime) -> JobRow:
    """A job as a line of the list."""
    return JobRow(
        job.job_id,
        f"{job.request.verb} {job.request.kernel}",
        job.request.origin.repository,
        job.state.value,
        STATE_WORDS[job.state],
        age(job.updated_at, now),
        job.updated_at,
    )


def stages_of(job: JobView, now: datetime) -> tuple[StageRow, ...]:
    """Every attempt, and the stages that are still to come."""
    rows = [
        StageRow(
            STAGE_MARKS[stage.state],
            stage.stage.value,
            stage.state.value,
            stage.attempt,
            stage.note if stage.state in (StageState.running, StageState.pending) else "",
            duration(stage.started_at, stage.ended_at, now),
            stage.failure,
        )
        for stage in job.stages
    ]
    begun = {stage.stage for stage in job.stages}
    rows += [StageRow("○", name.value, "to come", 0, "", "", None) for name in job.pipeline if name not in begun]
    return tuple(rows)


def mark_of(job: JobView) -> str:
    """A digest of what the job's page shows, but for the clock."""
    told = (
        job.state,
        job.stages,
        job.failure,
        job.checkpoint,
        job.queue_position,
        job.no_host_since,
        job.artifacts,
        job.timeline,
    )
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def links_of(job: JobView, addresses: Addresses) -> tuple[Link, ...]:
    """Where the job can be followed on GitHub; nowhere, if it was given by hand."""
    origin = job.request.origin
    if not origin.number:
        return ()
    kind = "pull" if origin.is_pull else "issues"
    links = [
        Link(
            f"where it was asked, #{origin.number}", f"{addresses.html_url}/{origin.repository}/{kind}/{origin.number}"
        )
    ]
    if job.pull_number is not None:
        links.append(Link(f"pull request #{job.pull_number}", addresses.pull(origin.repository, job.pull_number)))
    if job.head_sha is not None:
        url = f"{addresses.html_url}/{origin.repository}/commit/{job.head_sha}"
        links.append(Link(f"commit {job.head_sha[:10]}", url))
    return tuple(links)


def served_type(artifact: ArtifactView) -> tuple[str, bool]:
    """The content type with which an artifact is safe to serve, and whether the browser may show it."""
    kind = content_type(artifact.media_type)
    if kind in INLINE_TYPES:
        return kind, True
    if kind.startswith("text/") or kind in TEXT_TYPES:
        return "text/plain; charset=utf-8", True
    return "application/octet-stream", False


def events_of(job: JobView, now: datetime) -> tuple[EventRow, ...]:
    """The timeline, newest first, each with its age."""
    return tuple(_event(event, age(event.at, now)) for event in reversed(job.timeline))


def _event(event: TimelineEvent, ago: str) -> EventRow:
    heading = "" if event.kind in SAID_BY_TEXT else EVENT_WORDS.get(event.kind, event.kind.replace("_", " "))
    text = _update_words(event.text) if event.kind == "update_published" else event.text
    return EventRow(ago, event.at, heading, text)


def _update_words(kind: str) -> str:
    """The name of an update as words: ``PullRequestUpdate`` is a pull request."""
    return UPDATE_WORDS.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("Update")).lower()


def age(at: str | None, now: datetime) -> str:
    """How long ago a time was."""
    moment = _moment(at)
    return f"{_words((now - moment).total_seconds())} ago" if moment is not None else ""


def duration(start: str | None, end: str | None, now: datetime) -> str:
    """How long something took, or has taken until now."""
    began = _moment(start)
    return _words(((_moment(end) or now) - began).total_seconds()) if began is not None else ""


def with_code(text: str) -> Markup:
    """A text as HTML, escaped, with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is one
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def with_markdown(text: str) -> Markup:
    """A sentence of a comment as HTML: code spans, references and escapes; of tags only ``<code>`` without attributes."""
    return Markup(_sentences().renderInline(text))  # noqa: S704 - html_inline is shown as text, and links are off


@functools.cache
def _sentences() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).disable(["link", "image", "autolink"])
    parser.add_render_rule("html_inline", _as_code_or_text)
    return parser


def _as_code_or_text(_: RendererProtocol, tokens: Sequence[Token], place: int, *__: object) -> str:
    content = tokens[place].content
    return content if content in ("<code>", "</code>") else str(escape(content))


def size(count: int) -> str:
    """A number of bytes as people read it."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _words(seconds: float) -> str:
    seconds = max(0, int(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min" if seconds < 86400 else f"{seconds // 86400} d"


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
    """What was tried, by stage; what cannot be read is left out."""
    digests = {artifact.name: artifact.digest for artifact in job.artifacts}
    books = [name for name in digests if name.startswith(PREFIX) and name.endswith(".json")][:MOST_STAGES]
    records, left = [], MOST_RECORDS
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
            records.append(TriedStage(f"{stage}, attempt {number}", name, tuple(rows)))
    return tuple(records)


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
