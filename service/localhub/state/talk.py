"""What people and bots write: issues, pull requests, comments, reviews, reactions, and what happened to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class Reaction:
    """An emoji that somebody left."""

    id: int
    content: str
    login: str
    created_at: datetime


@dataclass
class Comment:
    """A comment on an issue or in a pull request's conversation; ``minimized`` holds the reason."""

    id: int
    login: str
    body: str
    created_at: datetime
    updated_at: datetime
    app_id: int | None = None
    reactions: list[Reaction] = field(default_factory=list)
    minimized: str | None = None


@dataclass
class Event:
    """Something that happened in a conversation and is no comment: closed, labeled, pushed, ..."""

    id: int
    kind: str
    login: str
    at: datetime
    detail: dict[str, str] = field(default_factory=dict)


@dataclass
class ReviewComment:
    """A comment on a line of the changes."""

    id: int
    review_id: int
    login: str
    body: str
    path: str
    line: int | None
    side: str
    commit_id: str
    diff_hunk: str
    created_at: datetime
    updated_at: datetime
    start_line: int | None = None
    in_reply_to_id: int | None = None
    app_id: int | None = None
    reactions: list[Reaction] = field(default_factory=list)
    minimized: str | None = None


@dataclass
class Review:
    """A review; ``state`` is APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED or PENDING."""

    id: int
    login: str
    state: str
    body: str
    commit_id: str
    submitted_at: datetime | None
    app_id: int | None = None
    minimized: str | None = None


@dataclass
class Pull:
    """What makes an issue a pull request; ``head_sha`` follows the head branch while the pull request is open."""

    id: int
    base_ref: str
    base_sha: str
    head_repository_id: int
    head_ref: str
    head_sha: str
    draft: bool
    requested_reviewers: list[str] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    review_comments: list[ReviewComment] = field(default_factory=list)
    merged_at: datetime | None = None
    merged_by: str | None = None
    merge_commit_sha: str | None = None


@dataclass
class Issue:
    """An issue, or with ``pull`` a pull request."""

    id: int
    number: int
    login: str
    title: str
    body: str | None
    created_at: datetime
    updated_at: datetime
    state: str = "open"
    closed_at: datetime | None = None
    state_reason: str | None = None
    app_id: int | None = None
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    pull: Pull | None = None
