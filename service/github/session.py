"""One session with GitHub: its requests, their retries, and the limits on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeVar

from github import Github
from github.Repository import Repository

from service.github.clock import GitHubClock
from service.github.errors import LONGEST_RETRY_S, GitHubError, TransientError, UnauthorizedError, translated


class RateLimits:
    """How long which credentials must rest, whatever the time of day does meanwhile, and how many requests they have left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until_s: dict[str, float] = {}
        self._remaining: dict[str, int] = {}
        self._closed = False

    def close(self) -> None:
        """Let no further request through: the service stops, and what it was at goes on after its next start."""
        self._closed = True

    def check(self, credentials: str) -> None:
        """Let a request through.

        Raises:
            TransientError: these credentials rest; it names for how long. Or the service stops.
        """
        if self._closed:
            raise TransientError("the service is being stopped", retry_after_s=0.0)
        with self._lock:
            rest_s = self._until_s.get(credentials, 0.0) - self._clock()
        if rest_s > 0:
            raise TransientError(f"GitHub's rate limit is used up for {rest_s:.0f} s", None, rest_s, limited=True)

    def observe(self, credentials: str, remaining: int, reset_in_s: float) -> None:
        """Note what an answer said of the primary limit, and in how long it is reset."""
        if remaining < 0:
            return
        with self._lock:
            self._remaining[credentials] = remaining
            if remaining == 0:
                rest_s = min(reset_in_s, LONGEST_RETRY_S)
                self._until_s[credentials] = max(self._until_s.get(credentials, 0.0), self._clock() + rest_s)

    def rest(self, credentials: str, wait_s: float) -> None:
        """Let every request with these credentials wait."""
        with self._lock:
            self._until_s[credentials] = max(self._until_s.get(credentials, 0.0), self._clock() + wait_s)

    def remaining(self) -> dict[str, int]:
        """The requests left, by credentials; those that nothing is known of are left out."""
        with self._lock:
            return dict(self._remaining)


T = TypeVar("T")


class GitHubSession:
    """PyGithub with one set of credentials. It belongs to one thread: PyGithub keeps a request's state on its connection."""

    def __init__(
        self,
        github: Github,
        credentials: str,
        limits: RateLimits,
        clock: GitHubClock,
        on_unauthorized: Callable[[], None],
    ) -> None:
        self.github = github
        self.credentials = credentials
        self._limits = limits
        self._clock = clock
        self._on_unauthorized = on_unauthorized

    def call(self, action: Callable[[], T]) -> T:
        """Make one request, or the few that one read of PyGithub takes.

        Raises:
            GitHubError: whatever went wrong, in the form that says what to do.
        """
        self._limits.check(self.credentials)
        try:
            with translated():
                return action()
        except GitHubError as meant:
            self._note(meant)
            raise
        finally:
            if self._answered():
                remaining, _ = self.github.rate_limiting
                reset_in_s = self.github.rate_limiting_resettime - self._clock.now().timestamp()
                self._limits.observe(self.credentials, remaining, reset_in_s)

    def close(self) -> None:
        """Close the connection."""
        self.github.close()

    def _answered(self) -> bool:
        # Asked before any answer came, PyGithub's property would itself make a request.
        return self.github.requester.rate_limiting[0] >= 0

    def _note(self, error: GitHubError) -> None:
        if isinstance(error, TransientError) and error.limited:
            self._limits.rest(self.credentials, error.retry_after_s)
        if isinstance(error, UnauthorizedError):
            self._on_unauthorized()


class RepositoryCalls:
    """What the groups of calls about one repository have in common."""

    def __init__(self, session: GitHubSession, full_name: str, deadline_s: float | None = None) -> None:
        self._session = session
        self.full_name = full_name
        self._deadline_s = deadline_s
        self._repository: Repository = session.github.get_repo(full_name)

    def _call(self, action: Callable[[], T]) -> T:
        # A lease that is about to run out must not be written under: another worker may hold it already.
        if self._deadline_s is not None and time.monotonic() > self._deadline_s:
            raise TransientError("the time for this piece of work ran out", retry_after_s=1.0)
        return self._session.call(action)

    def _listed(self, items: Callable[[], Iterable[T]], most: int) -> list[T]:
        return self._call(lambda: list(islice(items(), most)))
