"""GitHub as the bot uses it: authentication, a thin typed client over PyGithub, and errors that say what to do next."""

from service.github.client import GitHubClient
from service.github.clients import GitHubClients, TokenCheck
from service.github.errors import (
    ConflictError,
    ForbiddenError,
    GitHubError,
    MissingError,
    TransientError,
    UnauthorizedError,
)
from service.github.limits import RateLimits
from service.github.records import (
    CheckInfo,
    CommentInfo,
    CommitInfo,
    CompareInfo,
    IssueInfo,
    PullInfo,
    RepositoryInfo,
    TreeEntry,
)

__all__ = [
    "CheckInfo",
    "CommentInfo",
    "CommitInfo",
    "CompareInfo",
    "ConflictError",
    "ForbiddenError",
    "GitHubClient",
    "GitHubClients",
    "GitHubError",
    "IssueInfo",
    "MissingError",
    "PullInfo",
    "RateLimits",
    "RepositoryInfo",
    "TokenCheck",
    "TransientError",
    "TreeEntry",
    "UnauthorizedError",
]
