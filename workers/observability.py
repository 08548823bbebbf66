"""A door: log lines of every process, one event with its facts a line, for people or as JSON, and no secret in any of them."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

import structlog

from workers.redaction import know, redacted_event
from workers.settings import secret_values

# These tell of every tick and of every message, or write down whole requests; what was done is told by our own events.
CHATTY = ("alembic", "celery.worker.strategy", "celery.app.trace", "github", "urllib3", "uvicorn.access")

log = structlog.get_logger(__name__)


def configure(level: str = "INFO", *, json: bool = False) -> None:
    """Send every log line of this process to standard error: ours, the libraries', warnings, and errors that nobody caught."""
    know(secret_values())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            # Plain tracebacks: rich ones print local variables, and those may hold what strangers wrote.
            structlog.processors.format_exc_info,
            structlog.processors.StackInfoRenderer(),
            _without_secrets,
            last,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    # A line that cannot be written is printed by logging itself, arguments and all.
    logging.raiseExceptions = False
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def _without_secrets(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    clean = redacted_event(event)
    assert isinstance(clean, dict)
    return clean


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    log.error("uncaught", exc_info=(kind, error, trace))


def _uncaught_in_thread(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None and not isinstance(what.exc_value, SystemExit):
        thread = what.thread.name if what.thread is not None else None
        log.error("uncaught", thread=thread, exc_info=what.exc_value)
