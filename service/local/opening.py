"""Files of a repository at GitHub, proposed by a pull request from a branch of its own. Done again, it changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from service.github.client import GitHubClient
from service.github.clients import GitHubClients, GitHubConfiguration
from service.github.credentials import CredentialPurpose
from service.github.errors import (
    ConflictError,
    ForbiddenError,
    GitHubError,
    MissingError,
    TransientError,
    UnauthorizedError,
)
from service.github.git_data import GitData
from service.github.records import PullInfo, TreeEntry
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError

PERMISSIONS_FIX = (
    "A classic token needs the scopes `repo` and `workflow`, a fine-grained one or a GitHub App write permission "
    "for Contents, Pull requests and Workflows, which the owner has to accept. Or commit it to a checkout's branch with `--local`, "
    "and push that."
)
T = TypeVar("T")


@dataclass(frozen=True)
class PullRequestContent:
    """What a pull request brings, and where from."""

    branch: str
    changes: tuple[FileChange, ...]
    message: str
    title: str
    body: str
    purpose: CredentialPurpose = CredentialPurpose.publish


@dataclass(frozen=True)
class OpenedPullRequest:
    """The pull request with what was done: ``opened``, ``updated``, or ``open`` already. None: all is there as it would be."""

    pull: PullInfo | None
    done: str


def repository_at(remote: str, html_url: str) -> str | None:
    """The owner/name that the address of a git remote has at GitHub; None where it is elsewhere."""
    host = re.escape(re.sub(r"^https?://", "", html_url))
    match = re.fullmatch(rf"(?:https?://(?:[^@/]+@)?|ssh://git@|git@){host}[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?", remote)
    return match[1] if match else None


def propose(configuration: GitHubConfiguration, repository: str, proposal: PullRequestContent) -> OpenedPullRequest:
    """Open the pull request, or bring the one that is open up to date.

    Raises:
        UserFacingError: GitHub could not be reached, or refused; it says which permission is missing.
    """
    clients = GitHubClients(configuration)
    try:
        return _propose(clients, repository, proposal)
    except (UnauthorizedError, TransientError) as error:
        raise _unanswered(error) from error
    finally:
        clients.close()


def _propose(clients: GitHubClients, repository: str, proposal: PullRequestContent) -> OpenedPullRequest:
    what = "workflows" if proposal.purpose is CredentialPurpose.workflow else "files"
    refused = f"GitHub does not let these credentials write {what} in {repository}"
    github = _allowed(refused, lambda: clients.client(repository, purpose=proposal.purpose))
    info = _allowed(f"{repository} is not there, or these credentials do not see it", github.repository.info)
    branch = proposal.branch
    if _holds(github, info.default_branch, proposal):
        return OpenedPullRequest(None, "there")
    existing = github.pulls.find(branch)
    pull = existing if existing is not None and existing.state == "open" else None
    moved = _allowed(refused, lambda: _commit(github, info.default_branch, proposal, is_open=pull is not None))
    if pull is not None:
        return OpenedPullRequest(pull, "updated" if moved else "open")
    made = _allowed(
        f"the branch `{branch}` is at {repository}, and GitHub does not let these credentials open its pull request",
        lambda: github.pulls.create(proposal.title, proposal.body, branch, info.default_branch, draft=False),
    )
    return OpenedPullRequest(made, "opened")


def _commit(github: GitHubClient, base_branch: str, proposal: PullRequestContent, *, is_open: bool) -> bool:
    """Commit the files to the branch; False where they stand there already."""
    git = github.git
    head = git.head(proposal.branch)
    if head is not None and _holds(github, proposal.branch, proposal):
        return False
    base = git.head(base_branch)
    if base is None:
        raise MissingError(f"there is no branch {base_branch}")
    # A branch that is left from an earlier pull request, merged or closed, is brought up to the default branch.
    parents = tuple(dict.fromkeys(one for one in (head, None if is_open else base) if one is not None))
    _point(git, proposal, head, git.make_commit(proposal.message, _tree(git, proposal, parents[-1]), parents))
    return True


def _holds(github: GitHubClient, ref: str, proposal: PullRequestContent) -> bool:
    return all(github.repository.text(change.path, ref) == change.text for change in proposal.changes)


def _tree(git: GitData, proposal: PullRequestContent, on_top_of: str) -> str:
    entries = (TreeEntry(change.path, git.blob((change.text or "").encode())) for change in proposal.changes)
    return git.tree(tuple(entries), git.commit(on_top_of).tree_sha)


def _point(git: GitData, proposal: PullRequestContent, head: str | None, sha: str) -> None:
    if head is None:
        git.create_branch(proposal.branch, sha)
    else:
        git.forward_branch(proposal.branch, sha)


def _allowed(refused: str, action: Callable[[], T]) -> T:
    """Raises: UserFacingError where the credentials do not do; GitHub hides with 404 what a token's scopes leave out."""
    try:
        return action()
    except (ForbiddenError, MissingError) as error:
        raise UserFacingError(Failure(FailureCode.forbidden, refused, PERMISSIONS_FIX, log=str(error))) from error
    except ConflictError as error:
        fix = "See what GitHub said, put it right, and give the command again."
        raise UserFacingError(Failure(FailureCode.forbidden, "GitHub refused it", fix, log=str(error))) from error


def _unanswered(error: GitHubError) -> UserFacingError:
    if isinstance(error, UnauthorizedError):
        fix = "Set KERNELSMITH_TOKEN, or the App's settings, to credentials that are valid."
        return UserFacingError(
            Failure(FailureCode.forbidden, "GitHub does not know these credentials", fix, log=str(error))
        )
    return UserFacingError(
        Failure(FailureCode.environment, "GitHub did not answer", "Give the command again in a while.", log=str(error))
    )
