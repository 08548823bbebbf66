"""Keeps deliveries: one thread writes all that came while it wrote the last ones, in one transaction (group commit)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from workers.inbox import NewDelivery

BATCH_BYTES = 32_000_000  # of one transaction, where more than one delivery waits
QUIET_S = 0.02  # after which no more deliveries are expected to come at once
GIVE_WAY_S = 0.5  # the longest that anything else waits for that

Waiting = tuple[NewDelivery, Future[bool]]


class Recorder:
    """Many threads and tasks ask it to keep deliveries; its one thread is the only one that waits for the disk."""

    def __init__(self, write: Callable[[Sequence[NewDelivery]], Sequence[bool]]) -> None:
        self.name = "recorder"
        self._write = write
        self._waiting: deque[Waiting] = deque()
        self._some = threading.Condition()
        self._closed = False
        self._asked_s = -QUIET_S
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Write what waits, and end; tell whether that came in time."""
        with self._some:
            self._closed = True
            self._some.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._thread.is_alive()

    def record(self, delivery: NewDelivery) -> Future[bool]:
        """Have a delivery kept; whether it is new is told once it is durable. What is cancelled in time is left out."""
        future: Future[bool] = Future()
        with self._some:
            self._asked_s = time.monotonic()
            self._waiting.append((delivery, future))
            self._some.notify()
        return future

    def give_way(self) -> None:
        """Wait for a pause in what comes, though not for long: who handles deliveries competes with those that still arrive."""
        end_s = time.monotonic() + GIVE_WAY_S
        while (now_s := time.monotonic()) < min(end_s, self._asked_s + QUIET_S):
            time.sleep(min(end_s, self._asked_s + QUIET_S) - now_s)

    def _run(self) -> None:
        while batch := self._next():
            try:
                new = self._write([delivery for delivery, _ in batch])
            # The boundary of the thread: each of those who wait hears of it, and says so with its answer.
            except Exception as error:  # noqa: BLE001
                for _, future in batch:
                    future.set_exception(error)
            else:
                for (_, future), is_new in zip(batch, new, strict=True):
                    future.set_result(is_new)

    def _next(self) -> list[Waiting]:
        """Give what waits, as far as its senders still do; nothing at the end."""
        batch: list[Waiting] = []
        size = 0
        with self._some:
            while not batch and not (self._closed and not self._waiting):
                self._some.wait_for(lambda: self._waiting or self._closed)
                while self._waiting and (not batch or size + len(self._waiting[0][0].payload) <= BATCH_BYTES):
                    delivery, future = self._waiting.popleft()
                    if future.set_running_or_notify_cancel():
                        batch.append((delivery, future))
                        size += len(delivery.payload)
        return batch
