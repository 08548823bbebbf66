"""The queue of webhooks: stepped by a test, or emptied by a thread."""

from __future__ import annotations

import random
import threading
from typing import Literal

from service.localhub import webhooks
from service.localhub.state import Delivery
from service.localhub.webhooks import Transport
from service.localhub.world import World

_ROUNDS = 500
_IDLE_S = 0.02

Order = Literal["as_sent", "reversed", "shuffled"]


class Deliveries:
    """What waits to be delivered, what was, and the ways in which it goes wrong."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.transport: Transport = webhooks.post
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_the_way: list[Delivery] = []

    def waiting(self) -> list[Delivery]:
        """What has not arrived yet, in the order in which it happened; what is just being sent as well."""
        with self._world.lock:
            return [*self._on_the_way, *self._world.undelivered]

    def log(self) -> list[Delivery]:
        """All deliveries, those that wait as well."""
        with self._world.lock:
            return list(self._world.state.deliveries)

    def deliver_next(self, twice: bool = False) -> Delivery | None:
        """Deliver what happened first, perhaps two times in a row; None where nothing waits."""
        with self._world.lock:
            if not self._world.undelivered:
                return None
            delivery = self._world.undelivered.popleft()
            self._on_the_way.append(delivery)
        return self._send(delivery, twice)

    def deliver_all(self, order: Order = "as_sent", twice: bool = False, seed: int = 0) -> list[Delivery]:
        """Deliver until nothing waits, also what the receiver causes meanwhile; ``order`` mixes what waits at one moment."""
        done: list[Delivery] = []
        mixer = random.Random(seed)  # noqa: S311 - an order that a seed repeats, not a secret
        for _ in range(_ROUNDS):
            with self._world.lock:
                batch = list(self._world.undelivered)
                self._world.undelivered.clear()
                self._on_the_way += batch
            if not batch:
                return done
            if order == "reversed":
                batch.reverse()
            elif order == "shuffled":
                mixer.shuffle(batch)
            done += [self._send(delivery, twice) for delivery in batch]
        message = f"the receiver still causes webhooks after {_ROUNDS} rounds: is it answering itself?"
        raise RuntimeError(message)

    def lose_next(self) -> Delivery | None:
        """Let what happened first never arrive; it stays in the log as failed, where a bot can find it."""
        with self._world.lock:
            if not self._world.undelivered:
                return None
            delivery = self._world.undelivered.popleft()
            webhooks.lose(delivery)
            return delivery

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Queue a delivery again under the same delivery id, as the button in an app's settings does."""
        with self._world.lock:
            return webhooks.redeliver(self._world, delivery)

    def start(self) -> None:
        """Deliver from now on by a thread, in order."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="localhub-webhooks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the delivery that is on its way."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=webhooks.TIMEOUT_S + 5)
            self._thread = None

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.deliver_next() is None:
                self._stop.wait(_IDLE_S)

    def _send(self, delivery: Delivery, twice: bool) -> Delivery:
        try:
            for one in [delivery, webhooks.again(delivery)] if twice else [delivery]:
                webhooks.send(one, self.transport)
        finally:
            with self._world.lock:
                self._on_the_way.remove(delivery)
        return delivery
