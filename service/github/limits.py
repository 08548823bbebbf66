"""Rate limits as all threads of the service see them: who has to wait is told so at once and never sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from service.github.errors import LONGEST_RETRY_S, TransientError


class RateLimits:
    """How long which credentials must rest, whatever the time of day does meanwhile, and how many requests they have left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until_s: dict[str, float] = {}
        self._remaining: dict[str, int] = {}

    def check(self, credentials: str) -> None:
        """Let a request through.

        Raises:
            TransientError: these credentials rest; it names for how long.
        """
        with self._lock:
            rest_s = self._until_s.get(credentials, 0.0) - self._clock()
        if rest_s > 0:
            raise TransientError(f"GitHub's rate limit is used up for {rest_s:.0f} s", None, rest_s, limited=True)

    def observe(self, credentials: str, remaining: int, reset_in_s: float) -> None:
        """Note what an answer said of the primary limit, and in how long it is reset, by the clock of this host."""
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
        """Give the requests left, by credentials; those that nothing is known of are left out."""
        with self._lock:
            return dict(self._remaining)
