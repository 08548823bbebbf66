"""Serves the application until it is told to stop, over connections with bounds."""

from __future__ import annotations

import asyncio
import errno
import gc
import math
import socket
import sys

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.app import create_app
from service.health import Ask
from service.metrics import CONNECTIONS_DROPPED
from service.settings import ConfigurationError, ServiceSettings, load_settings
from workers import observability

RECEIVE_S = 10.0  # from the start of a connection, or its last answer, to the next whole request header
MAX_CONNECTIONS = 512  # well below the 1,024 open files that a process may have by default


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, which by itself waits for ever for the rest of a header.

    Time: a connection on which no request is being answered is dropped after ``RECEIVE_S``, unless it is still taking in its last
    answer. The body of a request that is being answered is the application's to bound.
    Number: beyond ``MAX_CONNECTIONS`` the one that has been sending its request for longest makes room for the new one.
    """

    _timer: asyncio.TimerHandle
    _unsent = math.inf
    waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > MAX_CONNECTIONS:
            bounded = [other for other in self.connections if isinstance(other, BoundedProtocol) and other.is_sending]
            min(bounded, key=lambda other: other.waiting_since).drop("too_many")

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._timer.cancel()
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._timer.cancel()
        super().connection_lost(exc)

    @property
    def is_sending(self) -> bool:
        """Whether the other side has still to send its request, or a part of it."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def drop(self, reason: str) -> None:
        """End the connection at once, whatever has not been sent yet."""
        CONNECTIONS_DROPPED.labels(reason=reason).inc()
        self.transport.abort()

    def _wait(self) -> None:
        self.waiting_since, self._unsent = self.loop.time(), math.inf
        self._timer = self.loop.call_later(RECEIVE_S, self._late)

    def _late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            return  # a request came in time; its answer starts the wait anew
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < self._unsent:
            self._unsent = unsent
            self._timer = self.loop.call_later(RECEIVE_S, self._late)
        else:
            self.drop("late")


GRACE_S = 25


def serve(settings: ServiceSettings, workers: Ask | None = None) -> None:
    """Serve until SIGTERM or SIGINT; work that was begun is finished, or is carried on by the next start."""
    observability.configure(settings.log_level, json=True)
    # Threads that compute may hold the interpreter for 5 ms by default: each request would wait for that several times.
    sys.setswitchinterval(0.001)
    app = create_app(settings, workers=workers)
    keep_loaded()
    run(app, settings.host, settings.port)


def keep_loaded() -> None:
    """Leave what this process has loaded out of all later garbage collections.

    Modules and the application stay until the end. A full collection that goes through them takes a tenth of a second, in
    the middle of somebody's answer.
    """
    gc.collect()
    gc.freeze()


def check_address(host: str, port: int) -> None:
    """Listen for a moment where the service will.

    Raises:
        AddressError: that cannot be done; the text says the fix.
    """
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        why = "it is in use" if error.errno == errno.EADDRINUSE else str(error)
        fix = f"stop what listens there (`ss -ltnp 'sport = :{port}'` names it), or set KERNELSMITH_PORT and KERNELSMITH_HOST"
        raise AddressError(f"port {port} of {host} cannot be listened on ({why}): {fix}") from error


class AddressError(Exception):
    """The service cannot listen at its address."""


def run(app: ASGIApp, host: str, port: int) -> None:
    """Serve an application until a signal ends it."""
    uvicorn.run(
        app,
        host=host,
        port=port,
        http=BoundedProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )


def main() -> int:
    """Serve with the settings of the environment; give the exit status."""
    try:
        settings = load_settings()
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    serve(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
