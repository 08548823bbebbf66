"""The Python API: a hub on disk, its people, apps and repositories, and everything that a person could do on its pages."""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from service.localhub import state as stored
from service.localhub.faults import Faults
from service.localhub.hub_acts import HubActs
from service.localhub.hub_deliveries import Deliveries, Order
from service.localhub.hub_setup import HubSetup
from service.localhub.hub_views import HubViews
from service.localhub.state import Delivery
from service.localhub.world import RequestRecord, World, utc_now


class Hub(HubSetup, HubActs, HubViews):
    """GitHub on this machine. Methods may be called from any thread; ``repo`` is ``owner/name``, ``by`` a login."""

    def __init__(self, data_dir: Path | str, clock: Callable[[], datetime] = utc_now) -> None:
        folder = Path(data_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        state = stored.load(folder / "state.json")
        waiting = deque(one for one in state.deliveries if one.status_code is None)
        self.world = World(folder, state, clock, undelivered=waiting)
        self.deliveries = Deliveries(self.world)

    @property
    def faults(self) -> Faults:
        """What the next requests will meet."""
        return self.world.faults

    @property
    def errors(self) -> list[str]:
        """Tracebacks of what broke in the hub itself: a test that finds one has found a fault of the hub's."""
        with self.world.lock:
            return list(self.world.errors)

    @property
    def requests(self) -> list[RequestRecord]:
        """The API requests so far, oldest first."""
        with self.world.lock:
            return list(self.world.requests)

    def deliver_next(self, twice: bool = False) -> Delivery | None:
        """Deliver the webhook that happened first; more ways stand in ``deliveries``."""
        return self.deliveries.deliver_next(twice)

    def deliver_all(self, order: Order = "as_sent", twice: bool = False, seed: int = 0) -> list[Delivery]:
        """Deliver webhooks until none waits."""
        return self.deliveries.deliver_all(order, twice, seed)

    def save(self) -> None:
        """Write the state beside git's data, so that a new Hub on the same folder goes on from here."""
        with self.world.lock:
            stored.save(self.world.state, self.world.data_dir / "state.json")

    def remove(self) -> None:
        """Delete the data folder."""
        shutil.rmtree(self.world.data_dir, ignore_errors=True)
