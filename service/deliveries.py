"""Stored deliveries become commands and decisions: one a step, tried again with growing pauses, never lost in silence."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from service.dispatch.desk import Desk
from service.dispatch.payloads import MalformedPayloadError
from service.dispatch.routing import route
from service.github import GitHubError, TransientError
from service.metrics import DELIVERIES, DELIVERY_SECONDS
from workers.inbox import trouble_of

FAULT_TRIES = 5  # of a fault of ours, or of a refusal that may be a replica's
TRANSIENT_TRIES = 200  # of outages, GitHub's or the store's, and of rate limits: more than a day
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 600.0
MOST_DOUBLINGS = 10  # by then a pause is at its longest

log = structlog.get_logger(__name__)


class Delivery(Protocol):
    """A delivery that was claimed."""

    @property
    def delivery_id(self) -> str:
        """Give GitHub's id."""
        ...

    @property
    def event(self) -> str:
        """Give the event's name."""
        ...

    @property
    def payload(self) -> bytes:
        """Give the body."""
        ...

    @property
    def tries(self) -> int:
        """Give how often it was claimed, this time too: the number of this claim."""
        ...

    @property
    def received_at(self) -> float:
        """Give when it came, as Unix time."""
        ...

    @property
    def refusals(self) -> int:
        """Give how often it was refused, or met a fault of the bot's own."""
        ...

    @property
    def outages(self) -> int:
        """Give how often it met an outage or a rate limit of GitHub's."""
        ...


class DeliveryStore(Protocol):
    """Where deliveries are kept."""

    def claim_delivery(self, worker: str, lease_s: float) -> Delivery | None:
        """Take the next delivery."""
        ...

    def finish_delivery(self, delivery_id: str, outcome: str) -> bool:
        """Mark it as handled."""
        ...

    def give_up_delivery(self, delivery_id: str, tries: int, outcome: str) -> bool:
        """Mark it as one that nobody will handle; False where the claim of that number was lost."""
        ...

    def release_delivery(self, delivery_id: str, tries: int, error: str, retry_at: float, *, refused: bool) -> bool:
        """Put it back and count why; False where the claim of that number was lost."""
        ...


@dataclass(frozen=True)
class DeliveryProcessor:
    """Handles deliveries, one a step."""

    store: DeliveryStore
    desk: Desk
    worker: str
    lease_s: float
    clock: Callable[[], float] = time.time

    def step(self) -> bool:
        """Handle one delivery; False where there is none."""
        claimed = self.store.claim_delivery(f"{self.worker}/{threading.get_ident()}", self.lease_s)
        if claimed is None:
            return False
        with structlog.contextvars.bound_contextvars(
            delivery_id=claimed.delivery_id, github_event=claimed.event, tries=claimed.tries
        ):
            outcome = self._settle(claimed)
        DELIVERIES.labels(event=claimed.event, outcome=outcome).inc()
        DELIVERY_SECONDS.observe(max(0.0, self.clock() - claimed.received_at))
        return True

    def _settle(self, claimed: Delivery) -> str:
        try:
            outcome = handle(self.desk, claimed.event, claimed.payload)
        except MalformedPayloadError as error:
            log.error("delivery_malformed", error=str(error))
            self.store.finish_delivery(claimed.delivery_id, f"malformed: {error}")
            return "malformed"
        except TransientError as error:
            return self._again(claimed, error, error.retry_after_s, refused=False)
        except GitHubError as error:
            return self._again(claimed, error, 0.0, refused=True)
        # The boundary of deliveries: what a payload meets in our own code may be any fault, and must not stop the others.
        except Exception as error:
            trouble = trouble_of(error)
            if trouble is not None:
                log.error("store_unusable", error=trouble.detail, cure=trouble.cure)
                return self._again(claimed, error, 0.0, refused=False)
            log.exception("delivery_fault")
            return self._again(claimed, error, 0.0, refused=True)
        self.store.finish_delivery(claimed.delivery_id, outcome)
        log.info("delivery_handled", outcome=outcome)
        return "handled"

    def _again(self, claimed: Delivery, error: Exception, retry_after_s: float, *, refused: bool) -> str:
        text = f"{type(error).__name__}: {error}"
        # Each kind against its own limit: one refusal after a night of outages, or after kills, is still the first one.
        count, most = (claimed.refusals, FAULT_TRIES) if refused else (claimed.outages, TRANSIENT_TRIES)
        if count + 1 >= most:
            if not self.store.give_up_delivery(claimed.delivery_id, claimed.tries, f"error: {text}"):
                return _lost(text)
            log.error("delivery_given_up", error=text, cure="have the command given again")
            return "error"
        pause_s = max(retry_after_s, min(FIRST_PAUSE_S * 2.0 ** min(count, MOST_DOUBLINGS), LONGEST_PAUSE_S))
        retry_at = self.clock() + pause_s
        if not self.store.release_delivery(claimed.delivery_id, claimed.tries, text, retry_at, refused=refused):
            return _lost(text)
        log.warning("delivery_postponed", error=text, pause_s=pause_s)
        return "postponed"


def _lost(text: str) -> str:
    log.warning("delivery_lost", error=text, reason="its lease ran out, and another worker has taken it")
    return "lost"


def handle(desk: Desk, event: str, body: bytes) -> str:
    """Handle one payload; give what came of it in a few words.

    Raises:
        MalformedPayloadError: it is not what GitHub documents.
    """
    try:
        payload: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedPayloadError("it is no JSON") from error
    if not isinstance(payload, dict):
        raise MalformedPayloadError("it is no object")
    handler = route(event, str(payload.get("action") or ""))
    return "nothing to do" if handler is None else handler(desk, payload)
