"""Contracts, text and time as the store keeps them. Pure."""

from __future__ import annotations

import typing
from typing import Any

from gpu_runner.contracts import from_json, to_json
from workers.authors.protocol import Feedback
from workers.contracts import Effect, Failure, JobRequest, Update
from workers.redaction import redact

MAX_TEXT = 20_000


def storable(text: str, limit: int = MAX_TEXT) -> str:
    """Text that every database takes and everybody may read: no NUL, no lone surrogate, no secret, bounded."""
    cleaned = redact(text).replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Update)}


def update_form(update: Update) -> dict[str, Any]:
    """An update's JSON form."""
    return typing.cast(dict[str, Any], to_json(update))


def read_update(form: dict[str, Any]) -> Update:
    """Build an update.

    Raises:
        ValueError: it is none of the kinds.
    """
    kind = KINDS.get(form.get("$", ""))
    if kind is None:
        raise ValueError(f"{form.get('$')!r} is no kind of update")
    return typing.cast(Update, from_json(kind, form))


def read_request(form: dict[str, Any]) -> JobRequest:
    """Build a job's request."""
    return from_json(JobRequest, form)


def read_failure(form: dict[str, Any] | None) -> Failure | None:
    """Build a failure, None where there is none."""
    return None if form is None else from_json(Failure, form)


def read_effect(form: dict[str, Any]) -> Effect:
    """Build an effect."""
    return from_json(Effect, form)


def read_feedback(form: list[Any]) -> tuple[Feedback, ...]:
    """Build the feedback of an attempt."""
    return tuple(from_json(Feedback, item) for item in form)
