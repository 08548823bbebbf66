"""The commit that a job starts from: the base branch's head, or that of the pull request under which the command was given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from service.dispatch.decisions import SLACK
from service.dispatch.hearing import Hearing
from service.dispatch.problem import AnswerError
from service.github import PullInfo
from service.permissions import Refused
from service.report.measure import reply_fork_needs_writer
from service.report.replies import reply_configuration, reply_failure, reply_moved
from workers.contracts import Failure, FailureCode, Verb

ON_HEAD = (
    Verb.optimize,
    Verb.tune,
    Verb.profile,
    Verb.modify,
)  # what a pull request changes is there on its head alone
OPEN = "open"


@dataclass(frozen=True)
class Start:
    """A commit to start from. ``ref`` is the branch that the result goes to; nothing is pushed where it is ``read_only``."""

    ref: str
    sha: str
    read_only: bool = False
    pull: PullInfo | None = None


def start_of(hearing: Hearing, verb: Verb, number: int, *, is_pull: bool, bound: str = "") -> Start:
    """Give where a job starts that was asked for under an issue or a pull request; ``bound`` is the head that its writer saw.

    Raises:
        AnswerError: there is nothing to start from, or this person may not start from it.
    """
    if not is_pull or verb not in ON_HEAD:
        return Start(*base(hearing))
    pull = hearing.github.pulls.get(number)
    if pull.state != OPEN:
        return Start(*base(hearing))
    check_head(hearing, pull, bound)
    if is_own(hearing, pull):
        return Start(pull.head_branch, pull.head_sha, pull=pull)
    # The branch of a fork is nobody's to push to, and pushed to a branch here its code would run with this repository's secrets.
    owner = (pull.head_repository or "unknown").partition("/")[0]
    return Start(f"{owner}:{pull.head_branch}", pull.head_sha, read_only=True, pull=pull)


def base(hearing: Hearing) -> tuple[str, str]:
    """Give the branch that pull requests go to, and its head at this moment.

    Raises:
        AnswerError: there is no such branch.
    """
    configured = hearing.config.base_branch
    branch = configured or hearing.repository.default_branch
    sha = hearing.github.git.head(branch)
    if sha is not None:
        return branch, sha
    if configured is not None:
        cure = "Correct `base_branch`, or leave it out: then it is the default branch."
        raise AnswerError(reply_configuration(None, f"there is no branch `{configured}`", cure))
    raise AnswerError(reply_failure(Failure(FailureCode.layout, "the repository is empty", "Push a first commit.")))


def is_own(hearing: Hearing, pull: PullInfo) -> bool:
    """Tell whether a pull request's branch is in this repository."""
    return (pull.head_repository or "").lower() == hearing.repository.full_name.lower()


def check_head(hearing: Hearing, pull: PullInfo, bound: str) -> None:
    """Make sure that a pull request's head may be run, and is what the person saw; ``bound`` is that commit where it is known.

    Raises:
        AnswerError: it moved, or it is a fork's and the person has no write permission.
    """
    if bound and bound != pull.head_sha:
        raise AnswerError(reply_moved(bound, pull.head_sha))
    if is_own(hearing, pull):
        return
    if isinstance(hearing.may_decide(), Refused):
        raise AnswerError(reply_fork_needs_writer(hearing.text.actor.login))
    # Whoever owns the fork can push after a maintainer has read the code and before the command is heard.
    if not bound and _pushed_since(pull, hearing.text.given_at):
        raise AnswerError(reply_moved("", pull.head_sha))


def _pushed_since(pull: PullInfo, given_at: str) -> bool:
    if not given_at or pull.head_pushed_at is None:
        return False
    return datetime.fromisoformat(pull.head_pushed_at) > datetime.fromisoformat(given_at) + SLACK
