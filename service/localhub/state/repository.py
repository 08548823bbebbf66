"""A repository besides its git data: who may do what, its conversations, labels and check runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from service.localhub.state.accounts import Hook
from service.localhub.state.talk import Issue


@dataclass
class Label:
    """A label of a repository; ``color`` as six hexadecimal digits."""

    id: int
    name: str
    color: str
    description: str


@dataclass
class Annotation:
    """A remark of a check run on lines of a file; ``level`` is notice, warning or failure."""

    path: str
    start_line: int
    end_line: int
    level: str
    message: str
    title: str | None = None
    raw_details: str | None = None


@dataclass
class CheckRun:
    """A check on a commit."""

    id: int
    app_id: int
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    started_at: datetime
    completed_at: datetime | None
    external_id: str
    details_url: str | None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[Annotation] = field(default_factory=list)
    actions: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Repository:
    """A repository; ``collaborators`` maps a login to read, triage, write, maintain or admin."""

    id: int
    owner: str
    name: str
    private: bool
    default_branch: str
    description: str
    created_at: datetime
    pushed_at: datetime
    collaborators: dict[str, str] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    check_runs: list[CheckRun] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    parent_id: int | None = None  # of a fork

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.name}"
