"""Faults as state: what the next request of an operation meets instead of, before, or after its effect."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from service.localhub.operations import operation_names

PRIMARY_MESSAGE = "API rate limit exceeded for installation."
SECONDARY_MESSAGE = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. "
    "If you reach out to GitHub Support for help, please include the request ID."
)


class FaultKind(StrEnum):
    """When a fault strikes."""

    answer = "answer"  # instead of the effect
    drop = "drop"  # after the effect: 502 in the place of the answer
    disconnect = "disconnect"  # after the effect: the connection breaks in the middle of the answer
    delay = "delay"  # before the effect, which then happens
    race = "race"  # somebody else acts just before the effect


@dataclass(frozen=True)
class Fault:
    """One fault of one request."""

    kind: FaultKind
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    action: Callable[[], object] | None = None


class Faults:
    """The faults that wait, in order, for each operation; ``*`` as the operation stands for any."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._lock = threading.Lock()

    def fail_next(
        self,
        operation: str,
        status: int,
        times: int = 1,
        headers: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
    ) -> None:
        """The next ``times`` requests are answered with ``status`` and have no effect."""
        message = {"message": "Server Error" if status >= 500 else "Injected fault", "status": str(status)}
        self._add(operation, Fault(FaultKind.answer, status, body or message, headers or {}), times)

    def rate_limit_next(
        self,
        operation: str,
        kind: Literal["primary", "secondary"] = "primary",
        retry_after: int = 60,
        times: int = 1,
    ) -> None:
        """The next requests meet a rate limit. Units: ``retry_after`` in seconds. Source: GitHub's REST rate limits."""
        if kind == "primary":
            reset = str(int(time.time()) + retry_after)
            headers = {"x-ratelimit-remaining": "0", "x-ratelimit-used": "5000", "x-ratelimit-reset": reset}
            self.fail_next(operation, 403, times, headers, {"message": PRIMARY_MESSAGE})
        else:
            self.fail_next(operation, 403, times, {"retry-after": str(retry_after)}, {"message": SECONDARY_MESSAGE})

    def missing_then_found(self, operation: str, times: int = 1) -> None:
        """GitHub's replicas lag: 404 ``times`` times, then what is there."""
        self.fail_next(operation, 404, times, body={"message": "Not Found", "status": "404"})

    def drop_response_next(self, operation: str, times: int = 1, how: Literal["502", "disconnect"] = "502") -> None:
        """The effect happens and the caller never learns of it: 502, or the connection breaks."""
        kind = FaultKind.drop if how == "502" else FaultKind.disconnect
        self._add(operation, Fault(kind, 502, {"message": "Server Error"}), times)

    def delay_next(self, operation: str, delay_s: float, times: int = 1) -> None:
        """The next requests take this much longer."""
        self._add(operation, Fault(FaultKind.delay, delay_s=delay_s), times)

    def before_next(self, operation: str, action: Callable[[], object]) -> None:
        """Run ``action`` just before the next request takes effect: a person who pushes at the same moment."""
        self._add(operation, Fault(FaultKind.race, action=action), 1)

    def meet(self, operation: str) -> Fault | None:
        """Let a request wait or be raced, and give what spoils its answer, if anything does."""
        spoiled = None
        for fault in self.take(operation):
            if fault.kind is FaultKind.delay:
                time.sleep(fault.delay_s)
            elif fault.kind is FaultKind.race and fault.action is not None:
                fault.action()
            else:
                spoiled = fault
        return spoiled

    def take(self, operation: str) -> list[Fault]:
        """The faults of the request that is being answered: delays and races, then at most one that spoils the answer."""
        taken: list[Fault] = []
        with self._lock:
            for queue in (self._waiting[operation], self._waiting["*"]):
                while queue:
                    taken.append(queue.popleft())
                    if taken[-1].kind not in (FaultKind.delay, FaultKind.race):
                        return taken
        return taken

    def waiting(self) -> dict[str, int]:
        """How many faults no request has met yet, by operation: a test that leaves some has not tested them."""
        with self._lock:
            return {operation: len(queue) for operation, queue in self._waiting.items() if queue}

    def clear(self) -> None:
        """Forget the faults that wait."""
        with self._lock:
            self._waiting.clear()

    def _add(self, operation: str, fault: Fault, times: int) -> None:
        if operation not in operation_names():
            message = f"no operation {operation!r}; the names stand in service/localhub/operations.py"
            raise ValueError(message)
        with self._lock:
            self._waiting[operation].extend([fault] * times)
