"""A hub behind a real socket on this machine's loopback."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Self

import uvicorn

from service.localhub.app import make_app
from service.localhub.hub import Hub

_START_S = 20.0
HOST = "127.0.0.1"


class HubServer:
    """Serve a hub in a thread: ``with HubServer(hub) as server: Github(base_url=server.api_url)``.

    With ``deliver`` webhooks go out by a thread; without it they wait for ``hub.deliveries.deliver_next()``.
    """

    def __init__(self, hub: Hub, port: int = 0, deliver: bool = False) -> None:
        self.hub = hub
        self._deliver = deliver
        # asyncio turns off the 40 ms wait of Nagle's algorithm only where the protocol is named.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, port))
        self.port: int = self._socket.getsockname()[1]
        hub.world.base_url = self.url
        config = uvicorn.Config(
            make_app(hub.world), log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=2
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="localhub", daemon=True)

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"http://{HOST}:{self.port}"

    @property
    def api_url(self) -> str:
        """What PyGithub takes as ``base_url``."""
        return f"{self.url}/api/v3"

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + _START_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                message = f"localhub did not start on {self.url} within {_START_S:.0f} s"
                raise RuntimeError(message)
            time.sleep(0.01)
        if self._deliver:
            self.hub.deliveries.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.hub.deliveries.stop()
        self._server.should_exit = True
        self._thread.join(timeout=_START_S)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])
