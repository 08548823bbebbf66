"""Issues that the bot opens itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from service.github.records import IssueInfo
from service.github.session import RepositoryCalls

if TYPE_CHECKING:
    from github.NamedUser import NamedUser

MAX_ISSUES = 1_000


class Issues(RepositoryCalls):
    """Issues of one repository."""

    def by(self, login: str) -> list[IssueInfo]:
        """Give the issues that an account opened, open and closed, newest first, at most 1,000."""
        creator = cast("NamedUser", login)  # PyGithub takes a login as well; its annotation does not say so
        found = self._listed(lambda: self._repository.get_issues(state="all", creator=creator), MAX_ISSUES)
        issues = [issue for issue in found if issue.pull_request is None]
        return [IssueInfo(issue.number, issue.body or "", issue.state == "open") for issue in issues]

    def open(self, title: str, body: str) -> int:
        """Open an issue; give its number."""
        return self._call(lambda: self._repository.create_issue(title, body).number)

    def close(self, number: int) -> None:
        """Close an issue as done; a second time does nothing."""
        issue = self._repository.get_issue(number)
        self._call(lambda: issue.edit(state="closed", state_reason="completed"))

    def reopen(self, number: int) -> None:
        """Open a closed issue again; a second time does nothing."""
        issue = self._repository.get_issue(number)
        self._call(lambda: issue.edit(state="open"))
