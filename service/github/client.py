"""The bot's whole use of one repository, in groups of calls."""

from __future__ import annotations

from service.github.checks import Checks
from service.github.conversation import Conversation
from service.github.git_data import GitData
from service.github.issues import Issues
from service.github.pulls import Pulls
from service.github.repository import RepositoryReads
from service.github.session import Session
from service.github.snapshots import Snapshots


class GitHubClient:
    """One repository, with one set of credentials, for one piece of work of one thread.

    ``deadline_s`` (of ``time.monotonic``) is when the piece of work must have ended; later calls raise ``TransientError``.
    """

    def __init__(self, session: Session, full_name: str, deadline_s: float | None = None) -> None:
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

    def of(self, full_name: str) -> GitHubClient:
        """Give a client for another repository with the same credentials; an App's see only the public ones."""
        return GitHubClient(self._session, full_name, self._deadline_s)
