"""A client for each piece of work, and the deliveries that GitHub has logged."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import structlog
from github import Auth, Github
from requests.utils import parse_header_links

from service.github.client import GitHubClient
from service.github.clock import GitHubClock
from service.github.credentials import (
    TIMEOUT_S,
    AppCredentials,
    Credential,
    CredentialLog,
    CredentialPurpose,
    Credentials,
    TokenCredentials,
)
from service.github.errors import GitHubError, TransientError, UnauthorizedError, translated
from service.github.session import GitHubSession, RateLimits

PAGE_ITEMS = 100
MAX_PAGES = 20
MAX_LIST_PAGES = 100  # of installations, and of the repositories of one
MOST_ATTEMPTS = 4  # of one delivery, the first one too
SUCCESS = range(200, 300)

log = structlog.get_logger(__name__)

# Verb and path to the headers and the JSON of the answer, asked with the App's own credentials.
Ask = Callable[[str, str], tuple[dict[str, Any], Any]]


@dataclass(frozen=True)
class HookAttempt:
    """One attempt of a delivery; attempts of the same delivery share its ``delivery_id``."""

    attempt_id: int
    delivery_id: str
    event: str
    delivered_at: datetime
    status_code: int


def last_attempts(ask: Ask, look_back: timedelta) -> Iterator[HookAttempt]:
    """The newest attempt, and those that were made so long before it at most, newest first; this machine's clock has no say."""
    path = f"/app/hook/deliveries?per_page={PAGE_ITEMS}"
    newest: datetime | None = None
    for _ in range(MAX_PAGES):
        headers, items = ask("GET", path)
        for item in items:
            attempt = _attempt(item)
            newest = newest or attempt.delivered_at
            if attempt.delivered_at < newest - look_back:
                return
            yield attempt
        cursor = _next_cursor(str(headers.get("link", "")))
        if cursor is None:
            return
        path = f"/app/hook/deliveries?{urlencode({'per_page': PAGE_ITEMS, 'cursor': cursor})}"


def missed(attempts: Iterable[HookAttempt], handles: Callable[[str], bool]) -> tuple[HookAttempt, ...]:
    """The last attempt of each delivery that never arrived and may be asked for again, oldest first. Pure."""
    tried: dict[str, list[HookAttempt]] = {}
    for attempt in attempts:
        tried.setdefault(attempt.delivery_id, []).append(attempt)
    lost = [
        max(tries, key=lambda attempt: attempt.delivered_at)
        for tries in tried.values()
        if handles(tries[0].event)
        and len(tries) < MOST_ATTEMPTS
        and not any(attempt.status_code in SUCCESS for attempt in tries)
    ]
    return tuple(sorted(lost, key=lambda attempt: attempt.delivered_at))


def ask_again(ask: Ask, attempt: HookAttempt) -> None:
    """Have GitHub deliver something once more, under the same delivery id."""
    ask("POST", f"/app/hook/deliveries/{attempt.attempt_id}/attempts")


def _next_cursor(link: str) -> str | None:
    url = next((item["url"] for item in parse_header_links(link) if item.get("rel") == "next"), "")
    return dict(parse_qsl(urlsplit(url).query)).get("cursor")


def _attempt(item: dict[str, Any]) -> HookAttempt:
    return HookAttempt(
        int(item["id"]),
        str(item["guid"]),
        str(item["event"]),
        datetime.fromisoformat(str(item["delivered_at"])),
        int(item["status_code"] or 0),
    )


def paged(ask: Ask, path: str) -> Iterator[Any]:
    """The answers of a list that has pages."""
    for page in range(1, MAX_LIST_PAGES + 1):
        headers, answer = ask("GET", f"{path}?{urlencode({'per_page': PAGE_ITEMS, 'page': page})}")
        yield answer
        if 'rel="next"' not in str(headers.get("link", "")):
            return


USER_AGENT = "kernelsmith"
CONNECTIONS = 16  # for each thread
CHECKED_FOR_S = 60.0


@dataclass(frozen=True)
class Installed:
    """A repository that the App is installed on. ``state`` is another after each push, and with another default branch."""

    full_name: str
    installation_id: int
    state: str


@dataclass(frozen=True)
class TokenCheck:
    """Whether the credentials work; not ``answered``: GitHub is out of reach or out of order, and says nothing of them."""

    ok: bool
    detail: str
    answered: bool = True


class GitHubConfiguration(Protocol):
    """The settings that say how GitHub is reached."""

    api_url: str
    bot_login: str | None
    app_id: int | None

    def private_key_text(self) -> str | None:
        """The App's private key in PEM form."""
        ...

    def token_text(self) -> str | None:
        """The plain token."""
        ...


class GitHubClients:
    """Clients for repositories. One for the whole service; what it gives belongs to the calling thread."""

    def __init__(self, configuration: GitHubConfiguration, limits: RateLimits | None = None) -> None:
        self.limits = limits or RateLimits()
        self.clock = GitHubClock(configuration.api_url)
        self._configuration = configuration
        self._outcomes = CredentialLog()
        self._credentials = self._make_credentials()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: set[Github] = set()
        self._login: str | None = configuration.bot_login
        self._checked: tuple[float, TokenCheck] | None = None

    def client(
        self,
        full_name: str,
        installation_id: int | None = None,
        purpose: CredentialPurpose = CredentialPurpose.intake,
        deadline_s: float | None = None,
    ) -> GitHubClient:
        """A client for a repository.

        Raises:
            GitHubError: no credentials could be had.
        """
        credential = self._credentials.give(full_name, installation_id, purpose)
        session = self._session(credential, lambda: self._credentials.forget(full_name, purpose))
        return GitHubClient(session, full_name, deadline_s)

    def bot_login(self) -> str:
        """The login under which the bot writes; asked of GitHub once where it is not configured."""
        if self._login is None:
            self._login = self._credentials.login()
        return self._login

    def check(self) -> TokenCheck:
        """Whether the credentials work; an answer is kept for a minute."""
        now_s = time.monotonic()
        if self._checked is not None and now_s - self._checked[0] <= CHECKED_FOR_S:
            return self._checked[1]
        checked = self._check()
        self._checked = (now_s, checked) if checked.answered else None
        return checked

    def ask_for_missed(self, look_back: timedelta, handles: Callable[[str], bool]) -> int:
        """Have GitHub deliver again what did not arrive lately; give how many. A plain token has no log to look at.

        Raises:
            GitHubError: the log could not be read.
        """
        if not isinstance(self._credentials, AppCredentials):
            return 0
        ask = self._credentials.ask
        attempts = missed(last_attempts(ask, look_back), handles)
        for attempt in attempts:
            ask_again(ask, attempt)
        return len(attempts)

    def installed(self) -> Iterator[Installed]:
        """The repositories that the App is installed on, but for forks and archived ones. A plain token has no such list.

        Raises:
            GitHubError: the installations could not be read. One whose repositories cannot be read is logged and left out.
        """
        if not isinstance(self._credentials, AppCredentials):
            return
        for installation in [item for page in paged(self._credentials.ask, "/app/installations") for item in page]:
            if not installation.get("suspended_at"):
                try:
                    yield from self._repositories(self._credentials, int(installation["id"]))
                except GitHubError as error:
                    log.warning("repositories_not_listed", installation=installation["id"], error=str(error))

    def _repositories(self, credentials: AppCredentials, installation_id: int) -> list[Installed]:
        credential = credentials.listing(installation_id)
        session = self._session(credential, partial(credentials.forget, str(installation_id), None))
        requester = session.github.requester

        def ask(verb: str, path: str) -> tuple[dict[str, Any], Any]:
            return session.call(lambda: requester.requestJsonAndCheck(verb, path))

        return [
            Installed(one["full_name"], installation_id, f"{one['default_branch']} {one['pushed_at']}")
            for page in paged(ask, "/installation/repositories")
            for one in page["repositories"]
            if not (one["fork"] or one["archived"] or one["disabled"])
        ]

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for github in self._open:
                github.close()
            self._open.clear()
        if isinstance(self._credentials, AppCredentials):
            self._credentials.close()

    def _check(self) -> TokenCheck:
        try:
            return TokenCheck(True, f"signed in as {self._credentials.login()}")
        except GitHubError as error:
            is_answer = isinstance(error, UnauthorizedError) or not isinstance(error, TransientError)
            return TokenCheck(False, f"signed as {self._credentials.label}: {error}", is_answer)

    def _make_credentials(self) -> Credentials:
        configuration = self._configuration
        key, token = configuration.private_key_text(), configuration.token_text()
        if configuration.app_id is not None and key is not None:
            return AppCredentials(configuration.app_id, key, configuration.api_url, self.clock, self._outcomes)
        assert token is not None, "the settings were checked at the start"
        return TokenCredentials(token, self._whose)

    def _session(self, credential: Credential, on_unauthorized: Callable[[], None]) -> GitHubSession:
        connection = self._connection(credential)
        return GitHubSession(connection, credential.label, self.limits, self.clock, self._outcomes, on_unauthorized)

    def _connection(self, credential: Credential) -> Github:
        held: OrderedDict[int, Github] = getattr(self._local, "held", None) or OrderedDict()
        self._local.held = held
        github = held.pop(id(credential.auth), None) or self._open_connection(credential.auth)
        held[id(credential.auth)] = github
        while len(held) > CONNECTIONS:
            _, oldest = held.popitem(last=False)
            self._close_connection(oldest)
        return github

    def _open_connection(self, auth: Auth.Auth) -> Github:
        # PyGithub would sleep between requests and retry by itself; whoever waits here holds a worker.
        github = Github(
            auth=auth,
            base_url=self._configuration.api_url,
            timeout=TIMEOUT_S,
            user_agent=USER_AGENT,
            per_page=100,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        )
        with self._lock:
            self._open.add(github)
        return github

    def _close_connection(self, github: Github) -> None:
        with self._lock:
            self._open.discard(github)
        github.close()

    def _whose(self, auth: Auth.Auth) -> str:
        github = self._open_connection(auth)
        try:
            with self._outcomes.watching(TokenCredentials.label), translated():
                return github.get_user().login
        finally:
            self._close_connection(github)
