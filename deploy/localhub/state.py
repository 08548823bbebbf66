"""All that a hub remembers besides git, as plain dataclasses that pydantic can write to JSON and read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter


@dataclass
class User:
    """A person, an organisation, or the bot of an app."""

    id: int
    login: str
    type: str  # User, Bot or Organization
    name: str
    email: str


@dataclass
class App:
    """A GitHub App; ``bot_login`` is the user that its installations write as."""

    id: int
    slug: str
    name: str
    owner: str
    public_key_pem: str
    permissions: dict[str, str]
    events: list[str]
    bot_login: str
    hook_url: str | None
    hook_secret: str
    created_at: datetime

    @property
    def client_id(self) -> str:
        """The app's other name, which may issue its JWT as well."""
        return f"Iv1.{self.id:016x}"


@dataclass
class Installation:
    """An app on an account; ``repository_ids`` None: all repositories of that account."""

    id: int
    app_id: int
    account: str
    permissions: dict[str, str]
    repository_ids: list[int] | None
    created_at: datetime


@dataclass
class Token:
    """A personal token (``login``) or an installation's (``installation_id``), perhaps narrowed; ``scopes`` None: all of them."""

    value: str
    login: str | None = None
    installation_id: int | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    repository_ids: list[int] | None = None
    expires_at: datetime | None = None
    scopes: list[str] | None = None


@dataclass
class Hook:
    """A webhook of a repository; ``events`` with ``*`` for all."""

    id: int
    url: str
    secret: str
    events: list[str]


@dataclass
class Delivery:
    """One webhook request; a redelivery has a new ``id`` and the same ``guid``. ``status_code`` 0: no answer came."""

    id: int
    guid: str
    event: str
    action: str | None
    url: str
    secret: str
    payload: str
    app_id: int | None
    installation_id: int | None
    repository_id: int | None
    created_at: datetime
    redelivery: bool = False
    status_code: int | None = None  # None: not delivered yet
    status: str = "pending"
    duration_s: float = 0.0
    request_headers: dict[str, str] = field(default_factory=dict)
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""


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
    submitted_at: datetime
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


@dataclass
class Label:
    """A label of a repository; ``color`` as six hexadecimal digits."""

    id: int
    name: str
    color: str
    description: str


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
    former_names: list[str] = field(default_factory=list)  # owner/name in lower case; each leads here

    @property
    def full_name(self) -> str:
        """``owner/name``."""
        return f"{self.owner}/{self.name}"


@dataclass
class State:
    """The whole of it."""

    last_id: int = 1000
    users: dict[str, User] = field(default_factory=dict)  # by lower-case login
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    repositories: dict[int, Repository] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)
    teams: dict[str, list[str]] = field(default_factory=dict)  # members by "organisation/team", all in lower case
    gists: dict[str, dict[str, str]] = field(default_factory=dict)  # texts by file name, by "id" and by "id/revision"

    def new_id(self) -> int:
        """A number that was never given before; larger means later."""
        self.last_id += 1
        return self.last_id


_ADAPTER = TypeAdapter(State)


def save(state: State, path: Path) -> None:
    """Write the state beside git's data; a reader sees the old file or the new one, never half of one."""
    partial = path.with_suffix(".partial")
    partial.write_bytes(_ADAPTER.dump_json(state))
    partial.replace(path)


def load(path: Path) -> State:
    """The saved state, or a new one where nothing was saved."""
    return _ADAPTER.validate_json(path.read_bytes()) if path.exists() else State()
