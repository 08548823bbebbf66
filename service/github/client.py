"""GitHub's REST interface as far as the bot uses it: issues, pull requests, comments, check runs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from github.GithubObject import GithubObject, NotSet
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from github.PullRequestComment import PullRequestComment

from service.github.records import CommentInfo, IssueInfo, PullInfo
from service.github.session import RepositoryCalls
from workers.contracts import LineComment

if TYPE_CHECKING:
    from github.NamedUser import NamedUser
from dataclasses import asdict, dataclass

from github.CheckRun import CheckRun

from service.github.downloads import Gists, Snapshots
from service.github.git_data import GitData, RepositoryReads
from service.github.records import CheckInfo
from service.github.session import GitHubSession

MAX_COMMENTS = 2_000


class Conversation(RepositoryCalls):
    """Comments and reactions of one repository."""

    def comments(self, number: int, since: datetime | None = None) -> list[CommentInfo]:
        """The comments of a conversation, oldest first, at most 2,000."""
        issue = self._repository.get_issue(number)
        comments = self._listed(lambda: issue.get_comments(since=since or NotSet), MAX_COMMENTS)
        return [CommentInfo(comment.id, login_of(comment.user), comment.body or "") for comment in comments]

    def written_since(self, since: datetime) -> list[dict[str, Any]]:
        """The comments of all conversations that were written or edited since a time, oldest first, as GitHub has them."""
        comments = self._listed(
            lambda: self._repository.get_issues_comments(sort="updated", direction="asc", since=since), MAX_COMMENTS
        )
        return [_as_listed(comment) for comment in comments]

    def who_reacted(self, comment_id: int, reaction: str) -> set[str]:
        """The logins of those who reacted to a comment in one way."""
        reactions = self._listed(lambda: self._comment(comment_id).get_reactions(), MAX_COMMENTS)
        return {login_of(each.user) for each in reactions if each.content == reaction}

    def updated_since(self, since: datetime) -> list[dict[str, Any]]:
        """The issues and pull requests in which something happened since a time, as GitHub has them among issues."""
        issues = self._listed(
            lambda: self._repository.get_issues(state="all", sort="updated", since=since), MAX_COMMENTS
        )
        return [_as_listed(issue) for issue in issues]

    def who_reacted_to_issue(self, number: int, reaction: str) -> set[str]:
        """The logins of those who reacted to the body of an issue or pull request in one way."""
        issue = self._repository.get_issue(number)
        reactions = self._listed(issue.get_reactions, MAX_COMMENTS)
        return {login_of(each.user) for each in reactions if each.content == reaction}

    def issue(self, number: int) -> dict[str, Any]:
        """An issue or a pull request, as GitHub has it among issues."""
        return self._call(lambda: self._repository.get_issue(number).raw_data)

    def comment(self, number: int, body: str) -> int:
        """Write a new comment; give its id."""
        issue = self._repository.get_issue(number)
        return self._call(lambda: issue.create_comment(body).id)

    def edit_comment(self, comment_id: int, body: str) -> None:
        """Replace a comment's text."""
        self._call(lambda: self._comment(comment_id).edit(body))

    def minimise_comment(self, comment_id: int) -> None:
        """Fold a comment away as outdated."""
        self._call(lambda: self._comment(comment_id).minimize("OUTDATED"))

    def react_to_comment(self, comment_id: int, reaction: str) -> None:
        """React to a comment; a second time does nothing."""
        self._call(lambda: self._comment(comment_id).create_reaction(reaction))

    def react_to_issue(self, number: int, reaction: str) -> None:
        """React to the body of an issue or pull request; a second time does nothing."""
        issue = self._repository.get_issue(number)
        self._call(lambda: issue.create_reaction(reaction))

    def _comment(self, comment_id: int) -> IssueComment:
        # PyGithub reaches a comment only through an issue; the number is not part of the comment's own address.
        return self._repository.get_issue(1).get_comment(comment_id)


def _as_listed(item: GithubObject) -> dict[str, Any]:
    """What a list of GitHub's says of an item. ``item.raw_data`` would make a request for each item that is not complete."""
    return cast("dict[str, Any]", cast("property", GithubObject.raw_data).__get__(item))


def login_of(user: object) -> str:
    # An account that was deleted is null.
    return str(getattr(user, "login", None) or "ghost")


MAX_REVIEW_COMMENTS = 200


class Pulls(RepositoryCalls):
    """Pull requests of one repository."""

    def get(self, number: int) -> PullInfo:
        """A pull request."""
        return self._call(lambda: _pull_info(self._repository.get_pull(number)))

    def find(self, branch: str) -> PullInfo | None:
        """The newest pull request, open or not, whose head is a branch of this repository; None where there is none."""
        owner = self.full_name.partition("/")[0]
        matches = self._listed(
            lambda: self._repository.get_pulls(state="all", head=f"{owner}:{branch}", sort="created", direction="desc"),
            10,
        )
        # GitHub ignores a head filter that it does not understand, and then lists every pull request.
        return next((info for info in map(_pull_info, matches) if info.head_branch == branch), None)

    def of_commit(self, sha: str) -> list[PullInfo]:
        """The pull requests that brought a commit."""
        commit = self._repository.get_commit(sha)
        return [_pull_info(pull) for pull in self._listed(commit.get_pulls, 10)]

    def create(self, title: str, body: str, head: str, base: str, *, draft: bool = True) -> PullInfo:
        """Open a pull request."""
        return self._call(
            lambda: _pull_info(self._repository.create_pull(title=title, body=body, head=head, base=base, draft=draft))
        )

    def edit(self, number: int, body: str, title: str) -> None:
        """Replace a pull request's body and title."""
        self._call(lambda: self._repository.get_pull(number).edit(body=body, title=title))

    def close(self, number: int) -> None:
        """Close a pull request without merging it."""
        self._call(lambda: self._repository.get_pull(number).edit(state="closed"))

    def request_review(self, number: int, login: str) -> None:
        """Ask a person for a review."""
        self._call(lambda: self._repository.get_pull(number).create_review_request(reviewers=[login]))

    def mark_ready(self, number: int) -> None:
        """Take a pull request out of draft; nothing happens where it is none."""

        def mark() -> None:
            pull = self._repository.get_pull(number)
            if pull.draft:
                pull.mark_ready_for_review()

        self._call(mark)

    def as_is(self, number: int) -> dict[str, Any]:
        """A pull request as GitHub has it."""
        return self._call(lambda: self._repository.get_pull(number).raw_data)

    def reviews(self, number: int) -> list[dict[str, Any]]:
        """The reviews of a pull request, oldest first, as GitHub has them."""
        pull = self._repository.get_pull(number)
        return [_as_listed(review) for review in self._listed(pull.get_reviews, MAX_COMMENTS)]

    def review_comments(self, number: int, review_id: int) -> tuple[LineComment, ...]:
        """What a review said on lines, at most 200 comments."""
        pull = self._repository.get_pull(number)
        comments = self._listed(lambda: pull.get_single_review_comments(review_id), MAX_REVIEW_COMMENTS)
        return self._call(lambda: tuple(_line_comment(comment) for comment in comments))


def _line_comment(comment: PullRequestComment) -> LineComment:
    # GitHub's list of one review leaves ``line`` out; PyGithub then reads the comment by itself.
    line = comment.line if comment.line is not None else comment.original_line
    return LineComment(comment.path, line, comment.body or "")


def _pull_info(pull: PullRequest) -> PullInfo:
    pushed_at = pull.head.repo.pushed_at if pull.head.repo is not None else None
    return PullInfo(
        number=pull.number,
        title=pull.title,
        body=pull.body or "",
        author=login_of(pull.user),
        state=pull.state,
        draft=bool(pull.draft),
        head_branch=pull.head.ref,
        head_sha=pull.head.sha,
        head_repository=pull.head.repo.full_name if pull.head.repo is not None else None,
        base_branch=pull.base.ref,
        html_url=pull.html_url,
        head_pushed_at=pushed_at.isoformat() if pushed_at is not None else None,
    )


MAX_ISSUES = 1_000


class Issues(RepositoryCalls):
    """Issues of one repository."""

    def by(self, login: str) -> list[IssueInfo]:
        """The issues that an account opened, open and closed, newest first, at most 1,000."""
        creator = cast("NamedUser", login)  # PyGithub takes a login as well; its annotation does not say so
        listed = self._listed(lambda: self._repository.get_issues(state="all", creator=creator), MAX_ISSUES)
        issues = [issue for issue in listed if issue.pull_request is None]
        return [IssueInfo(issue.number, issue.title, issue.body or "", issue.state == "open") for issue in issues]

    def open(self, title: str, body: str, labels: tuple[str, ...] = ()) -> int:
        """Open an issue; give its number."""
        return self._call(lambda: self._repository.create_issue(title, body, labels=list(labels)).number)

    def rename(self, number: int, title: str) -> None:
        """Give an issue another title."""
        issue = self._repository.get_issue(number)
        self._call(lambda: issue.edit(title=title))

    def close(self, number: int) -> None:
        """Close an issue as done; a second time does nothing."""
        issue = self._repository.get_issue(number)
        self._call(lambda: issue.edit(state="closed", state_reason="completed"))

    def reopen(self, number: int) -> None:
        """Open a closed issue again; a second time does nothing."""
        issue = self._repository.get_issue(number)
        self._call(lambda: issue.edit(state="open"))


MAX_CHECKS = 300


@dataclass(frozen=True)
class Button:
    """A button on a check run. GitHub takes 20 characters of the label and the identifier, and 40 of the description."""

    label: str
    description: str
    identifier: str


@dataclass(frozen=True)
class CheckText:
    """What a check run shows, and how it ended."""

    title: str
    summary: str
    conclusion: str
    details_url: str
    buttons: tuple[Button, ...] = ()


class Checks(RepositoryCalls):
    """Check runs of one repository."""

    def find(self, sha: str, external_id: str) -> CheckInfo | None:
        """The check run on a commit with an id of ours; None where there is none."""
        commit = self._repository.get_commit(sha)
        matches = self._listed(lambda: commit.get_check_runs(filter="all"), MAX_CHECKS)
        return next((info for info in map(_check_info, matches) if info.external_id == external_id), None)

    def create(self, name: str, sha: str, external_id: str, text: CheckText) -> int:
        """Make a check run; give its id."""
        return self._call(
            lambda: (
                self._repository.create_check_run(
                    name=name,
                    head_sha=sha,
                    external_id=external_id,
                    details_url=text.details_url or NotSet,
                    status="in_progress" if text.conclusion is None else "completed",
                    conclusion=NotSet if text.conclusion is None else text.conclusion,
                    output={"title": text.title, "summary": text.summary},
                    actions=[asdict(button) for button in text.buttons] or NotSet,
                ).id
            )
        )


def _check_info(check: CheckRun) -> CheckInfo:
    return CheckInfo(check.id, check.name, check.head_sha, check.external_id or "", check.status, check.conclusion)


class GitHubClient:
    """One repository, with one set of credentials, for one piece of work of one thread.

    ``deadline_s`` (of ``time.monotonic``) is when the piece of work must have ended; later calls raise ``TransientError``.
    """

    def __init__(self, session: GitHubSession, full_name: str, deadline_s: float | None = None) -> None:
        self.full_name = full_name
        self._session = session
        self._deadline_s = deadline_s
        self.repository = RepositoryReads(session, full_name, deadline_s)
        self.conversation = Conversation(session, full_name, deadline_s)
        self.issues = Issues(session, full_name, deadline_s)
        self.pulls = Pulls(session, full_name, deadline_s)
        self.git = GitData(session, full_name, deadline_s)
        self.checks = Checks(session, full_name, deadline_s)
        self.snapshots = Snapshots(session, full_name, deadline_s)
        self.gists = Gists(session, full_name, deadline_s)

    def of(self, full_name: str) -> GitHubClient:
        """A client for another repository with the same credentials; an App's see only the public ones."""
        return GitHubClient(self._session, full_name, self._deadline_s)
