"""Log lines of the production: one event with its facts a line, for people or as JSON, from our code and from libraries alike."""

from __future__ import annotations

import logging
import sys

import structlog

CHATTY = ("alembic", "celery.worker.strategy", "celery.app.trace")


def configure(level: str = "INFO", *, json: bool = False) -> None:
    """Send every log line of this process to standard error."""
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if json
        # Plain tracebacks: rich ones print local variables, and those may hold what strangers wrote, or a secret.
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    ending = [structlog.processors.format_exc_info, last] if json else [last]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These tell of every tick and of every message; what a task did is told by our own events.
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
