"""Runs the service until it is told to stop."""

from __future__ import annotations

import sys

import uvicorn
from starlette.types import ASGIApp

from service.app import create_app
from service.connections import BoundedProtocol
from service.settings import ConfigurationError, Settings, load_settings
from workers import observability

GRACE_S = 25


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; work that was begun is finished, or is carried on by the next start."""
    observability.configure(settings.log_level, json=True)
    # Threads that compute may hold the interpreter for 5 ms by default: each request would wait for that several times.
    sys.setswitchinterval(0.001)
    run(create_app(settings), settings.host, settings.port)


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
