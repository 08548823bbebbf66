"""The time of day at GitHub, by which tokens, comments and rate limits are dated, whatever this machine's clock says."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import requests
import structlog

KEPT_S = 600.0
AGAIN_S = 60.0  # after a request that was not answered
TIMEOUT_S = 5.0
WORTH_A_WARNING_S = 60.0
ROUNDED_S = 0.5  # a Date has whole seconds, without their fraction

log = structlog.get_logger(__name__)


class GitHubClock:
    """GitHub's time: the ``Date`` of an answer, and the monotonic clock since; this machine's own while there is no answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._start_s: float | None = None  # GitHub's Unix time when the monotonic clock was zero
        self._ask_at_s = -1.0

    def now(self) -> datetime:
        """GitHub's time, to about a second."""
        with self._lock:
            if time.monotonic() >= self._ask_at_s:
                self._ask()
            unix_s = time.time() if self._start_s is None else self._start_s + time.monotonic()
        return datetime.fromtimestamp(unix_s, UTC)

    def forget(self) -> None:
        """Ask again before the next use: GitHub refused what was dated by this, as after a machine slept."""
        with self._lock:
            self._ask_at_s = -1.0

    def _ask(self) -> None:
        date = _date_of(self._url)
        self._ask_at_s = time.monotonic() + (AGAIN_S if date is None else KEPT_S)
        if date is None:
            return
        self._start_s = date.timestamp() + ROUNDED_S - time.monotonic()
        ahead_s = round(time.time() - date.timestamp())
        if abs(ahead_s) > WORTH_A_WARNING_S:
            log.warning("clock_differs", ahead_of_github_s=ahead_s, fix="set this machine's clock, by NTP for example")


def _date_of(url: str) -> datetime | None:
    """The ``Date`` of any answer to a request without credentials, an error too; None where none came."""
    try:
        # ``auth`` keeps requests from looking for credentials of this host in a .netrc file.
        answer = requests.head(url, timeout=TIMEOUT_S, allow_redirects=False, auth=lambda request: request)
        return parsedate_to_datetime(answer.headers["date"])
    except (requests.RequestException, KeyError, ValueError) as error:
        log.warning("time_of_github_unknown", error=type(error).__name__, fix="this machine's clock is used meanwhile")
        return None
