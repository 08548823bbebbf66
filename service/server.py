"""Runs the service until it is told to stop."""

from __future__ import annotations

import sys

import uvicorn

from service.app import create_app
from service.settings import ConfigurationError, Settings, load_settings
from workers import observability

CONCURRENT_REQUESTS = 64  # a webhook may hold up to 25 MB in memory
GRACE_S = 25


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; work that was begun is finished, or is carried on by the next start."""
    observability.configure(settings.log_level, json=True)
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=CONCURRENT_REQUESTS,
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
