"""From a webhook's payload to what happened, as typed values. Pure.

Source: https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Payload = dict[str, Any]


class MalformedPayloadError(Exception):
    """A payload without a field that GitHub documents; it would be the same at every further try."""


@dataclass(frozen=True)
class Actor:
    """Who did it."""

    login: str
    account_type: str  # User, Bot, Organization or Mannequin


@dataclass(frozen=True)
class Place:
    """Where it happened."""

    repository: str  # owner/name
    number: int
    is_pull: bool
    installation_id: int | None


@dataclass(frozen=True)
class Text:
    """Something a person wrote that may hold commands.

    ``source`` names it uniquely within the repository; ``comment_id`` is None for the body of an issue, pull request or review.
    """

    place: Place
    actor: Actor
    source: str
    body: str
    previous_body: str | None
    comment_id: int | None
    url: str
    given_at: str  # when it was written or edited last, ISO 8601; empty where the payload does not say
    issue_body: str = ""  # of the issue or pull request that it belongs to
    can_react: bool = True  # GitHub has no reactions to the body of a review
    commit_sha: str = ""  # of a review, or of a pull request that was opened: the head commit that its writer saw


@dataclass(frozen=True)
class Review:
    """A submitted review; ``state`` is ``approved``, ``changes_requested`` or ``commented``."""

    text: Text
    review_id: int
    state: str
    commit_sha: str


@dataclass(frozen=True)
class Rerequest:
    """Somebody pressed the re-run button of a check run."""

    repository: str
    installation_id: int | None
    actor: Actor
    external_id: str


def comment_text(payload: Payload) -> Text:
    """Read ``issue_comment`` created and edited."""
    comment, issue = _object(payload, "comment"), _object(payload, "issue")
    place = _place(payload, issue, is_pull=issue.get("pull_request") is not None)
    comment_id = _int(comment, "id")
    return Text(
        place,
        _actor(payload, comment),
        f"comment-{comment_id}",
        _text(comment, "body"),
        _previous(payload),
        comment_id,
        _text(comment, "html_url"),
        _text(comment, "updated_at"),
        _text(issue, "body"),
    )


def opening_text(payload: Payload) -> Text:
    """Read ``issues`` and ``pull_request``, opened and edited."""
    is_pull = "pull_request" in payload
    item = _object(payload, "pull_request" if is_pull else "issue")
    place = _place(payload, item, is_pull=is_pull)
    return Text(
        place,
        _actor(payload, item),
        f"body-{place.number}",
        _text(item, "body"),
        _previous(payload),
        None,
        _text(item, "html_url"),
        _text(item, "updated_at"),
        _text(item, "body"),
        commit_sha=_text(_object(item, "head"), "sha") if is_pull else "",
    )


def pull_place(payload: Payload) -> Place:
    """Read where a ``pull_request`` event happened."""
    return _place(payload, _object(payload, "pull_request"), is_pull=True)


def review_of(payload: Payload) -> Review:
    """Read ``pull_request_review`` submitted."""
    review, pull = _object(payload, "review"), _object(payload, "pull_request")
    review_id = _int(review, "id")
    text = Text(
        _place(payload, pull, is_pull=True),
        _actor(payload, review),
        f"review-{review_id}",
        _text(review, "body"),
        None,
        None,
        _text(review, "html_url"),
        _text(review, "submitted_at"),
        _text(pull, "body"),
        can_react=False,
        commit_sha=_text(review, "commit_id"),
    )
    return Review(text, review_id, _text(review, "state").lower(), text.commit_sha)


def rerequest_of(payload: Payload) -> Rerequest:
    """Read ``check_run`` rerequested."""
    check = _object(payload, "check_run")
    return Rerequest(
        _repository(payload),
        _installation(payload),
        _actor(payload, {}),
        _text(check, "external_id"),
    )


def _place(payload: Payload, item: Payload, *, is_pull: bool) -> Place:
    return Place(_repository(payload), _int(item, "number"), is_pull, _installation(payload))


def _repository(payload: Payload) -> str:
    name = _text(_object(payload, "repository"), "full_name")
    if name.count("/") != 1:
        raise MalformedPayloadError("repository.full_name is not owner/name")
    return name


def _installation(payload: Payload) -> int | None:
    installation = payload.get("installation")
    return _int(installation, "id") if isinstance(installation, dict) else None


def _actor(payload: Payload, written: Payload) -> Actor:
    # The sender is who did this; who edits a comment need not be who wrote it, and answers for the edit.
    sender = _object(payload, "sender")
    author = written.get("user")
    author_is_bot = isinstance(author, dict) and author.get("type") == "Bot"
    return Actor(_text(sender, "login"), "Bot" if author_is_bot else _text(sender, "type"))


def _previous(payload: Payload) -> str | None:
    if payload.get("action") != "edited":
        return None
    changes = payload.get("changes")
    body = changes.get("body") if isinstance(changes, dict) else None
    if not isinstance(body, dict):
        # Only the title was edited: every line was there before.
        item = payload.get("comment") or payload.get("pull_request") or payload.get("issue") or {}
        return str(item.get("body") or "")
    return str(body.get("from") or "")


def _object(payload: Payload, name: str) -> Payload:
    value = payload.get(name)
    if not isinstance(value, dict):
        raise MalformedPayloadError(f"{name} is not an object")
    return value


def _int(payload: Payload, name: str) -> int:
    value = payload.get(name)
    if type(value) is not int:
        raise MalformedPayloadError(f"{name} is not a whole number")
    return value


def _text(payload: Payload, name: str) -> str:
    value = payload.get(name)
    if value is not None and not isinstance(value, str):
        raise MalformedPayloadError(f"{name} is not a text")
    return value or ""
