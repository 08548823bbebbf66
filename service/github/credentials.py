"""Credentials: a GitHub App's installation tokens, narrowed to one repository and to what the work needs, or one plain token."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Protocol

import structlog
from github import Auth, GithubIntegration

from service.github.clock import GitHubClock
from service.github.errors import (
    SHORT_RETRY_S,
    ConflictError,
    ForbiddenError,
    GitHubError,
    TransientError,
    UnauthorizedError,
    translated,
)

log = structlog.get_logger(__name__)

JWT_S = 9 * 60  # GitHub refuses more than ten minutes
JWT_BACKDATED_S = 60  # GitHub takes none that was issued in its future
RENEW_BEFORE_S = 5 * 60
LONGEST_TOKEN_S = 3600  # that GitHub gives, whatever this host takes the time to be
TIMEOUT_S = 15


class CredentialPurpose(StrEnum):
    """What credentials are for."""

    intake = "intake"  # read commands and repositories, react, reply
    publish = "publish"  # commits, pull requests, comments, check runs
    workflow = "workflow"  # what `init` proposes; the service itself never asks for it


LISTING: dict[str, str] = {"metadata": "read"}  # of an installation's repositories
PERMISSIONS: dict[CredentialPurpose, dict[str, str]] = {
    CredentialPurpose.intake: {"metadata": "read", "contents": "read", "issues": "write", "pull_requests": "write"},
    CredentialPurpose.publish: {
        "metadata": "read",
        "contents": "write",
        "issues": "write",
        "pull_requests": "write",
        "checks": "write",
    },
    CredentialPurpose.workflow: {
        "metadata": "read",
        "contents": "write",
        "pull_requests": "write",
        "workflows": "write",
    },
}


@dataclass(frozen=True)
class Credential:
    """What requests are signed with; ``label`` is no secret: logs and metrics have it as ``signed_as``."""

    label: str
    auth: Auth.Auth


REFUSALS_IN_A_ROW = 2  # the first may be of a token that has just expired, or of a clock that was set
REFUSED_FIX = "replace the token, or the App's number and key, and restart; waiting work resumes by itself"


class CredentialLog:
    """Tells the operator once that GitHub refuses credentials, and once that it takes them again; outages say nothing of either."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refusals: dict[str, int] = {}  # in a row, by label

    @contextmanager
    def watching(self, label: str) -> Iterator[None]:
        """Note how a request that is signed with the credentials of that label ends."""
        try:
            yield
        except UnauthorizedError as error:
            self._refused(label, error)
            raise
        except TransientError:
            raise
        except GitHubError:
            self._taken(label)
            raise
        self._taken(label)

    def _refused(self, label: str, error: UnauthorizedError) -> None:
        with self._lock:
            count = self._refusals[label] = self._refusals.get(label, 0) + 1
        if count < REFUSALS_IN_A_ROW and error.status == HTTPStatus.UNAUTHORIZED:
            error.retry_after_s = SHORT_RETRY_S  # what has expired is asked for anew
        if count == REFUSALS_IN_A_ROW:
            log.error("credentials_refused", signed_as=label, error=str(error), fix=REFUSED_FIX)

    def _taken(self, label: str) -> None:
        with self._lock:
            count = self._refusals.pop(label, 0)
        if count >= REFUSALS_IN_A_ROW:
            log.warning("credentials_accepted", signed_as=label, refusals=count)


class Credentials(Protocol):
    """Where credentials come from. ``label`` names those that ask who the bot is."""

    label: str

    def give(self, full_name: str, installation_id: int | None, purpose: CredentialPurpose) -> Credential:
        """What requests to a repository are signed with."""
        ...

    def forget(self, full_name: str, purpose: CredentialPurpose) -> None:
        """Drop what was refused, so that the next request asks anew."""
        ...

    def login(self) -> str:
        """Ask GitHub who the bot is."""
        ...


class TokenCredentials:
    """One plain token for everything."""

    label = "token"

    def __init__(self, token: str, who: Callable[[Auth.Auth], str]) -> None:
        self._auth = Auth.Token(token)
        self._who = who

    def give(self, full_name: str, installation_id: int | None, purpose: CredentialPurpose) -> Credential:
        """The token."""
        return Credential(self.label, self._auth)

    def forget(self, full_name: str, purpose: CredentialPurpose) -> None:
        """Keep the token: there is no other."""

    def login(self) -> str:
        """Ask GitHub whose token it is."""
        return self._who(self._auth)


@dataclass(frozen=True)
class _Held:
    installation_id: int
    auth: Auth.Token
    renew_at_s: float  # of the monotonic clock


class AppCredentials:
    """Installation tokens of a GitHub App, each cached until shortly before it expires."""

    label = "app"

    def __init__(
        self, app_id: int, private_key: str, base_url: str, clock: GitHubClock, outcomes: CredentialLog
    ) -> None:
        sign = Auth.AppAuth.create_jwt_sign(private_key, "RS256")
        auth = Auth.AppAuth(app_id, sign_func=lambda claims: sign(claims | self._times()))
        self._clock = clock
        self._outcomes = outcomes
        self._integration = GithubIntegration(
            auth=auth,
            base_url=base_url,
            timeout=TIMEOUT_S,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
        )
        self._lock = threading.Lock()  # of the tokens held
        self._connection = threading.Lock()  # PyGithub's connection is not to be shared by threads
        self._held: dict[tuple[str, CredentialPurpose | None], _Held] = {}

    def give(self, full_name: str, installation_id: int | None, purpose: CredentialPurpose) -> Credential:
        """A token for one repository, from the cache where it is still good."""
        return self._give((full_name, purpose), lambda: self._ask(full_name, installation_id, purpose))

    def listing(self, installation_id: int) -> Credential:
        """A token that lists an installation's repositories, and reads nothing in them."""
        return self._give((str(installation_id), None), lambda: self._token(installation_id, {"permissions": LISTING}))

    def _give(self, key: tuple[str, CredentialPurpose | None], ask: Callable[[], _Held]) -> Credential:
        # One lock for all: a token is asked for once an hour, and two threads shall not ask for the same.
        with self._lock:
            held = self._held.get(key)
            if held is None or held.renew_at_s < time.monotonic():
                held = self._held[key] = ask()
        return Credential(f"installation {held.installation_id}", held.auth)

    def forget(self, full_name: str, purpose: CredentialPurpose | None) -> None:
        """Drop a token that was refused; without a purpose, the one that lists an installation's repositories."""
        with self._lock:
            self._held.pop((full_name, purpose), None)

    def login(self) -> str:
        """Ask GitHub for the App's own name as an author."""
        answer = self._request("GET", "/app")
        return f"{answer['slug']}[bot]"

    def close(self) -> None:
        """Close the connection."""
        self._integration.close()

    def _ask(self, full_name: str, installation_id: int | None, purpose: CredentialPurpose) -> _Held:
        if installation_id is None:
            installation_id = int(self._request("GET", f"/repos/{full_name}/installation")["id"])
        wanted = {"repositories": [full_name.partition("/")[2]], "permissions": PERMISSIONS[purpose]}
        try:
            return self._token(installation_id, wanted)
        except ConflictError as error:
            # The owner has not accepted a permission, or the App is not installed on this repository.
            raise ForbiddenError(f"no credentials for {full_name} ({purpose}): {error}", error.status) from error

    def _token(self, installation_id: int, wanted: dict[str, Any]) -> _Held:
        answer = self._request("POST", f"/app/installations/{installation_id}/access_tokens", wanted)
        expires_in_s = (datetime.fromisoformat(answer["expires_at"]) - self._clock.now()).total_seconds()
        lasts_s = min(expires_in_s, LONGEST_TOKEN_S) - RENEW_BEFORE_S
        return _Held(installation_id, Auth.Token(answer["token"]), time.monotonic() + lasts_s)

    def ask(self, verb: str, path: str, body: dict[str, Any] | None = None) -> tuple[dict[str, Any], Any]:
        """Make a request as the App itself; give the headers and the JSON of the answer.

        Raises:
            GitHubError: whatever went wrong.
        """
        try:
            with self._outcomes.watching(self.label), translated(), self._connection:
                return self._integration.requester.requestJsonAndCheck(verb, path, input=body)
        except UnauthorizedError:
            self._clock.forget()
            raise

    def _times(self) -> dict[str, int]:
        now_s = int(self._clock.now().timestamp())
        return {"iat": now_s - JWT_BACKDATED_S, "exp": now_s + JWT_S}

    def _request(self, verb: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        _, answer = self.ask(verb, path, body)
        assert isinstance(answer, dict)
        return answer
