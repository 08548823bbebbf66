"""What GitHub answers when it does not do what was asked, and what to do about it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

import requests
from github import GithubException

SHORT_RETRY_S = 5.0
SECONDARY_RETRY_S = 60.0  # GitHub asks for a minute at least where a secondary limit names no time
CREDENTIALS_RETRY_S = 60.0
LONGEST_RETRY_S = 3600.0  # the primary limit's window
TOO_MANY_LOGINS = "login attempts exceeded"  # what GitHub answers for a while after several 401


class GitHubError(Exception):
    """The root; ``status`` is None where no answer came."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TransientError(GitHubError):
    """It may work later: an outage, or a rate limit."""

    def __init__(
        self, message: str, status: int | None = None, retry_after_s: float = SHORT_RETRY_S, limited: bool = False
    ) -> None:
        super().__init__(message, status)
        self.retry_after_s = retry_after_s
        self.limited = limited  # a rate limit, so every other request with the same credentials waits as well


class UnauthorizedError(TransientError):
    """The credentials are wrong or were revoked; it works again once the operator has replaced them."""


class MissingError(GitHubError):
    """There is no such thing, or it cannot be seen with these credentials."""


class ForbiddenError(GitHubError):
    """The credentials do not allow it."""


class ConflictError(GitHubError):
    """What was asked does not fit what is there: it exists already, it moved, or GitHub refused the values."""


# PyGithub has its own root and lets through what requests raises, and what json makes of an answer that was cut off.
FOREIGN = (GithubException, requests.RequestException, json.JSONDecodeError)


def translate(error: GithubException | requests.RequestException | json.JSONDecodeError, now_s: float) -> GitHubError:
    """What an error of PyGithub or of the connection means.

    Units: ``now_s`` is Unix time, to which ``x-ratelimit-reset`` is compared where the answer has no ``Date``.
    """
    if isinstance(error, GithubException):
        return from_answer(error.status, _message(error), error.headers or {}, now_s)
    if isinstance(error, requests.RequestException):
        return TransientError(f"no answer from GitHub: {type(error).__name__}")
    return TransientError("GitHub's answer was cut off or is no JSON")


def from_answer(status: int, message: str, headers: Mapping[str, str], now_s: float) -> GitHubError:
    """What an answer with an error status means.

    Source: https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api and
    https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api
    """
    headers = {key.lower(): value for key, value in headers.items()}
    text = f"GitHub answered {status}: {message}"
    now_s = _unix_s(headers.get("date", ""), now_s)
    if status == 401 or (status == 403 and TOO_MANY_LOGINS in message.lower()):
        return UnauthorizedError(text, status, CREDENTIALS_RETRY_S)
    if status in (403, 429):
        wait_s = _limit_wait_s(status, message, headers, now_s)
        return ForbiddenError(text, status) if wait_s is None else TransientError(text, status, wait_s, limited=True)
    if status in (404, 410):
        return MissingError(text, status)
    if status == 408 or status >= 500:
        return TransientError(text, status, _retry_after_s(headers, now_s, SHORT_RETRY_S))
    if status == 451:
        return ForbiddenError(text, status)
    return ConflictError(text, status)


def _limit_wait_s(status: int, message: str, headers: Mapping[str, str], now_s: float) -> float | None:
    if "retry-after" in headers:
        return _retry_after_s(headers, now_s, SECONDARY_RETRY_S)
    if headers.get("x-ratelimit-remaining") == "0" and "x-ratelimit-reset" in headers:
        return _bounded(headers["x-ratelimit-reset"], SECONDARY_RETRY_S, minus=now_s)
    if status == 429 or "rate limit" in message.lower() or "abuse detection" in message.lower():
        return SECONDARY_RETRY_S
    return None


def _retry_after_s(headers: Mapping[str, str], now_s: float, otherwise: float) -> float:
    # It is a number of seconds, or a date.
    text = headers.get("retry-after", "")
    until_s = _unix_s(text, math.nan)
    return _bounded(text, otherwise) if math.isnan(until_s) else _bounded(str(until_s), otherwise, minus=now_s)


def _unix_s(date: str, otherwise: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return otherwise


def _bounded(text: str | None, otherwise: float, minus: float = 0.0) -> float:
    try:
        wait_s = float(text) - minus if text is not None else otherwise
    except ValueError:
        wait_s = otherwise
    return min(max(wait_s, 1.0), LONGEST_RETRY_S) if wait_s == wait_s else SECONDARY_RETRY_S


def _message(error: GithubException) -> str:
    data = error.data
    if not isinstance(data, dict):
        return str(error.message or "")[:300]
    details = [
        str(item.get("message") or item.get("code")) for item in data.get("errors") or [] if isinstance(item, dict)
    ]
    return "; ".join([str(data.get("message") or ""), *details])[:300]


@contextmanager
def translated() -> Iterator[None]:
    """Raise what goes wrong inside as a ``GitHubError``; what has nothing to do with GitHub goes on as it is.

    Raises:
        GitHubError: GitHub, or the way to it, is at fault.
    """
    try:
        yield
    except FOREIGN as error:
        raise translate(error, time.time()) from error
