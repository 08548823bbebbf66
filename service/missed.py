"""Looks now and then for deliveries that GitHub made and that never arrived here, and has them made again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from service.dispatch.routing import handles
from service.github import GitHubClients, TransientError

FIRST_LOOK_BACK = timedelta(days=1)  # at the start: the service may have been down
LOOK_BACK = timedelta(hours=1)

log = structlog.get_logger(__name__)


class Missed:
    """Remembers how far to look back."""

    def __init__(self, clients: GitHubClients, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clients = clients
        self._clock = clock
        self._look_back = FIRST_LOOK_BACK

    def step(self) -> bool:
        """Look once; there is never more to do at once."""
        try:
            count = self._clients.ask_for_missed(self._clock() - self._look_back, handles)
        except TransientError as error:
            log.warning("missed_deliveries_unknown", error=str(error))
            return False
        self._look_back = LOOK_BACK
        if count:
            log.warning("deliveries_were_missed", count=count)
        return False
