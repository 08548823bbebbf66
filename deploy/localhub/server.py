"""The hub as an ASGI application, served on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
import traceback
from email.utils import format_datetime
from types import TracebackType
from typing import Self

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deploy.localhub.api import api_routes
from deploy.localhub.downloads import download_routes
from deploy.localhub.hub import Hub
from deploy.localhub.pages import page_routes
from deploy.localhub.world import World

# A page on the internet whose name was made to point to 127.0.0.1 sends its own name as Host.
_HOSTS = ["127.0.0.1", "localhost"]
_LOG = logging.getLogger(__name__)


def make_app(world: World) -> Starlette:
    """API, git and pages over one world."""
    routes = [*api_routes(world), *download_routes(world), *page_routes(world)]

    async def broken(request: Request, error: Exception) -> JSONResponse:
        world.errors.append("".join(traceback.format_exception(error)))
        _LOG.error("localhub broke on %s %s", request.method, request.url.path, exc_info=error)
        return JSONResponse({"message": "Server Error", "status": "500"}, 500)

    async def gone(_request: Request, _error: Exception) -> Response:
        # Nobody reads the answer; a client that is killed while it sends is no fault of this server.
        return Response(status_code=400)

    return Starlette(
        routes=routes,
        middleware=[Middleware(_Dated, world=world), Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)],
        exception_handlers={ClientDisconnect: gone, Exception: broken},
    )


class _Dated:
    """Dates answers by the hub's clock, which a test may move."""

    def __init__(self, app: ASGIApp, world: World) -> None:
        self._app = app
        self._world = world

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["date"] = format_datetime(self._world.clock(), usegmt=True)
            await send(message)

        await self._app(scope, receive, dated)


_START_S = 20.0
_LAST_ANSWERS_S = 2.0
HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    """One that ends when it is asked to: uvicorn looks for that ten times a second, and then waits a tenth more."""

    _loop: asyncio.AbstractEventLoop
    _asked: asyncio.Event

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # in which they close
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=_LAST_ANSWERS_S)

    def stop(self) -> None:
        """End, from another thread."""
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._asked.set)


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
            make_app(hub.world), log_level="critical", access_log=False, lifespan="off", date_header=False
        )
        self._server = _Server(config)
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
        self._server.stop()
        self._thread.join(timeout=_START_S)
        self._socket.close()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])
