"""A conversation as a person would read it: what was written and what happened, in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deploy.localhub.git import BareRepository, CommitData
from deploy.localhub.state import Comment, Event, Issue, Review, ReviewComment


@dataclass(frozen=True)
class OpeningEntry:
    """The issue or pull request itself."""

    id: int
    by: str
    at: datetime
    title: str
    body: str
    reactions: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommentEntry:
    """A comment; ``reactions`` as ``eyes by somebody``; ``minimized`` holds the reason."""

    id: int
    by: str
    at: datetime
    body: str
    edited: bool = False
    minimized: str | None = None
    reactions: tuple[str, ...] = ()


@dataclass(frozen=True)
class LineNote:
    """A comment on a line, inside a review."""

    id: int
    by: str
    path: str
    line: int | None
    body: str
    diff_hunk: str


@dataclass(frozen=True)
class ReviewEntry:
    """A review with its line comments."""

    id: int
    by: str
    at: datetime
    state: str
    body: str
    commit_id: str
    notes: tuple[LineNote, ...] = ()
    minimized: str | None = None


@dataclass(frozen=True)
class CommitEntry:
    """A commit that came onto the branch; ``id`` is that of the push."""

    id: int
    by: str
    at: datetime
    sha: str
    message: str


@dataclass(frozen=True)
class EventEntry:
    """Anything else: closed, labeled, review_requested, ready_for_review, force_pushed, merged, ..."""

    id: int
    by: str
    at: datetime
    kind: str
    detail: str


Entry = OpeningEntry | CommentEntry | ReviewEntry | CommitEntry | EventEntry


def conversation(git: BareRepository, issue: Issue) -> list[Entry]:
    """Everything in the order in which it came."""
    reactions = _reactions(issue)
    entries: list[Entry] = [
        OpeningEntry(issue.id, issue.login, issue.created_at, issue.title, issue.body or "", reactions)
    ]
    later: list[Entry] = [_comment(comment) for comment in issue.comments]
    if issue.pull is not None:
        later += [_review(item, issue.pull.review_comments) for item in issue.pull.reviews]
    for event in issue.events:
        later += _commits(git, event) if event.kind == "pushed" else [_event(event)]
    return entries + sorted(later, key=lambda entry: entry.id)


def _reactions(item: Issue | Comment) -> tuple[str, ...]:
    return tuple(f"{reaction.content} by {reaction.login}" for reaction in item.reactions)


def _comment(item: Comment) -> CommentEntry:
    edited = item.updated_at > item.created_at
    return CommentEntry(item.id, item.login, item.created_at, item.body, edited, item.minimized, _reactions(item))


def _review(item: Review, notes: list[ReviewComment]) -> ReviewEntry:
    mine = tuple(
        LineNote(note.id, note.login, note.path, note.line, note.body, note.diff_hunk)
        for note in notes
        if note.review_id == item.id
    )
    return ReviewEntry(
        item.id, item.login, item.submitted_at, item.state, item.body, item.commit_id, mine, item.minimized
    )


def _commits(git: BareRepository, event: Event) -> list[Entry]:
    shas = git.history(event.detail["after"], exclude=event.detail["before"] or None)
    return [_commit(event, git.commit(sha)) for sha in reversed(shas)]


def _commit(event: Event, commit: CommitData) -> CommitEntry:
    return CommitEntry(event.id, commit.author.name, event.at, commit.sha, commit.message)


def _event(event: Event) -> EventEntry:
    detail = ", ".join(value for key, value in event.detail.items() if key != "before")
    return EventEntry(event.id, event.login, event.at, event.kind, detail)
