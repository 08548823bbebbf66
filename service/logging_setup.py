"""Logs: one JSON object a line, and never a secret in it."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_SECRET_NAMES = re.compile(r"token|secret|password|authorization|private_key|jwt|signature", re.IGNORECASE)
# GitHub's own token forms, a signed JWT, and credentials inside an address.
_SECRET_FORMS = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|eyJ[\w-]+\.[\w-]+\.[\w-]+|(?<=://)[^/\s@:]*:[^/\s@]+(?=@)"
    r"|(?<=[?&]token=)[^&\s]+"
)
HIDDEN = "***"


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace what is named or looks like a secret."""
    for name, value in event.items():
        if _SECRET_NAMES.search(name):
            event[name] = HIDDEN
        elif isinstance(value, str):
            event[name] = _SECRET_FORMS.sub(HIDDEN, value)
    return event


def configure_logging(level: str = "INFO") -> None:
    """Send every log, the libraries' too, to standard error as JSON."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,  # a logger kept would hold a stream that may be closed by then
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Below warnings PyGithub and its connections write down whole requests.
    root.setLevel(max(number, logging.INFO))
    for noisy in ("urllib3", "github", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
