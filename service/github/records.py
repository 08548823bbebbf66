"""What the bot reads from GitHub, as plain values. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RepositoryInfo:
    """A repository; ``full_name`` is ``owner/name``."""

    full_name: str
    default_branch: str
    private: bool
    html_url: str


@dataclass(frozen=True)
class CommentInfo:
    """A comment of the conversation of an issue or a pull request."""

    comment_id: int
    author: str
    body: str


@dataclass(frozen=True)
class IssueInfo:
    """An issue; pull requests are none."""

    number: int
    title: str
    body: str
    is_open: bool


@dataclass(frozen=True)
class PullInfo:
    """A pull request; ``head_repository`` is None where the fork was deleted."""

    number: int
    title: str
    body: str
    author: str
    state: str
    draft: bool
    head_branch: str
    head_sha: str
    head_repository: str | None
    base_branch: str
    html_url: str
    head_pushed_at: str | None = None  # when anything was last pushed to the head's repository, ISO 8601


@dataclass(frozen=True)
class CompareInfo:
    """Two commits and where their histories parted."""

    base_sha: str
    merge_base_sha: str


@dataclass(frozen=True)
class CommitInfo:
    """A commit of the Git data API."""

    sha: str
    tree_sha: str
    message: str
    parents: tuple[str, ...]


@dataclass(frozen=True)
class TreeEntry:
    """A file of a tree that is made; ``blob_sha`` None removes it."""

    path: str
    blob_sha: str | None
    executable: bool = False


@dataclass(frozen=True)
class CheckInfo:
    """A check run."""

    check_run_id: int
    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None
