"""The conversation of an issue or a pull request: comments, reactions, and what hides an outdated comment."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from github.GithubObject import NotSet
from github.IssueComment import IssueComment

from service.github.records import CommentInfo
from service.github.session import RepositoryCalls

MAX_COMMENTS = 2_000


class Conversation(RepositoryCalls):
    """Comments and reactions of one repository."""

    def comments(self, number: int, since: datetime | None = None) -> list[CommentInfo]:
        """Give the comments of a conversation, oldest first, at most 2,000."""
        issue = self._repository.get_issue(number)
        found = self._listed(lambda: issue.get_comments(since=since or NotSet), MAX_COMMENTS)
        return [CommentInfo(comment.id, login_of(comment.user), comment.body or "") for comment in found]

    def written_since(self, since: datetime) -> list[dict[str, Any]]:
        """Give the comments of all conversations that were written or edited since a time, oldest first, as GitHub has them."""
        found = self._listed(
            lambda: self._repository.get_issues_comments(sort="updated", direction="asc", since=since), MAX_COMMENTS
        )
        return [comment.raw_data for comment in found]

    def who_reacted(self, comment_id: int, reaction: str) -> set[str]:
        """Give the logins of those who reacted to a comment in one way."""
        found = self._listed(lambda: self._comment(comment_id).get_reactions(), MAX_COMMENTS)
        return {login_of(each.user) for each in found if each.content == reaction}

    def issue(self, number: int) -> dict[str, Any]:
        """Give an issue or a pull request, as GitHub has it among issues."""
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


def login_of(user: object) -> str:
    # An account that was deleted is null.
    return str(getattr(user, "login", None) or "ghost")
