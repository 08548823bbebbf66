"""`python -m deploy.localhub --data DIR --port 8900`: GitHub on this machine until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer

_SAVE_EVERY_S = 5.0


def main(arguments: list[str] | None = None) -> None:
    """Serve the hub of a folder; what happens is saved every few seconds and at the end."""
    parser = argparse.ArgumentParser(prog="python -m deploy.localhub", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds git's data and the state")
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--admin", action="store_true", help="list people and tokens on the first page")
    given = parser.parse_args(arguments)
    hub = Hub(given.data)
    hub.world.admin_page = given.admin
    with HubServer(hub, port=given.port, deliver=True) as server:
        print(f"localhub: pages on {server.url}, PyGithub's base_url is {server.api_url}")
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        while not stop.wait(_SAVE_EVERY_S):
            hub.save()
    hub.save()


if __name__ == "__main__":
    main()
