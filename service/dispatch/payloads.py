"""From a webhook's payload to what happened, as typed values. Pure.

Source: https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Payload = dict[str, Any]
LARGEST_NUMBER = 2**63 - 1  # of what the database keeps, and GitHub gives
REPOSITORY = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9_.-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}")
LOGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\[bot\])?")
# JSON can spell both, and neither can be sent or stored: half of a character, and NUL.
NO_TEXT = re.compile("[\ud800-\udfff\x00]")


class MalformedPayloadError(Exception):
    """A payload without a field that GitHub documents; it would be the same at every further try."""


@dataclass(frozen=True)
class Sender:
    """Who did it."""

    login: str
    account_type: str  # User, Bot, Organization or Mannequin


@dataclass(frozen=True)
class EventPlace:
    """Where it happened."""

    repository: str  # owner/name
    number: int
    is_pull: bool
    installation_id: int | None


@dataclass(frozen=True)
class WrittenText:
    """Something a person wrote that may hold commands.

    ``source`` names it uniquely within the repository; ``comment_id`` is None for the body of an issue, pull request or review.
    """

    place: EventPlace
    actor: Sender
    source: str
    body: str
    previous_body: str | None
    comment_id: int | None
    url: str
    given_at: str  # when it was written or edited last, ISO 8601; empty where the payload does not say
    issue_body: str = ""  # of the issue or pull request that it belongs to
    can_react: bool = True  # GitHub has no reactions to the body of a review; those to comments on lines lie elsewhere
    commit_sha: str = ""  # of a review, or of a pull request that was opened: the head commit that its writer saw


@dataclass(frozen=True)
class SubmittedReview:
    """A submitted review; ``state`` is ``approved``, ``changes_requested`` or ``commented``."""

    text: WrittenText
    review_id: int
    state: str
    commit_sha: str


@dataclass(frozen=True)
class PullRequestLine:
    """A comment on a line of a pull request: the first one, which belongs to a review, or a reply to it."""

    text: WrittenText
    is_reply: bool


@dataclass(frozen=True)
class PullEvent:
    """A pull request got commits, or was closed."""

    place: EventPlace
    actor: Sender
    merged: bool


@dataclass(frozen=True)
class Rerequest:
    """Somebody pressed the re-run button of a check run, or one of the bot's own; ``button`` is the latter's identifier."""

    repository: str
    installation_id: int | None
    actor: Sender
    external_id: str
    head_sha: str
    button: str = ""


def comment_text(payload: Payload) -> WrittenText:
    """Read ``issue_comment`` created and edited."""
    comment, issue = _object(payload, "comment"), _object(payload, "issue")
    place = _place(payload, issue, is_pull=issue.get("pull_request") is not None)
    comment_id = _int(comment, "id")
    return WrittenText(
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


def opening_text(payload: Payload) -> WrittenText:
    """Read ``issues`` and ``pull_request``, opened and edited."""
    is_pull = "pull_request" in payload
    item = _object(payload, "pull_request" if is_pull else "issue")
    place = _place(payload, item, is_pull=is_pull)
    return WrittenText(
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


def review_of(payload: Payload) -> SubmittedReview:
    """Read ``pull_request_review`` submitted."""
    review, pull = _object(payload, "review"), _object(payload, "pull_request")
    review_id = _int(review, "id")
    text = WrittenText(
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
    return SubmittedReview(text, review_id, _text(review, "state").lower(), text.commit_sha)


def line_text(payload: Payload) -> PullRequestLine:
    """Read ``pull_request_review_comment`` created and edited."""
    comment, pull = _object(payload, "comment"), _object(payload, "pull_request")
    text = WrittenText(
        _place(payload, pull, is_pull=True),
        _actor(payload, comment),
        f"line-{_int(comment, 'id')}",
        _text(comment, "body"),
        _previous(payload),
        None,
        _text(comment, "html_url"),
        _text(comment, "updated_at"),
        _text(pull, "body"),
        can_react=False,
        commit_sha=_text(_object(pull, "head"), "sha"),
    )
    return PullRequestLine(text, is_reply=comment.get("in_reply_to_id") is not None)


def pull_event_of(payload: Payload) -> PullEvent:
    """Read ``pull_request`` synchronize and closed."""
    pull = _object(payload, "pull_request")
    return PullEvent(_place(payload, pull, is_pull=True), _actor(payload, {}), pull.get("merged") is True)


def moved_of(payload: Payload) -> tuple[str, str]:
    """Read ``repository`` renamed and transferred: what the repository was called, and what it is called now."""
    now = _repository(payload)
    owner, _, name = now.partition("/")
    changes = _object(payload, "changes")
    if payload.get("action") == "renamed":
        name = _text(_object(_object(changes, "repository"), "name"), "from")
    else:
        before = _object(_object(changes, "owner"), "from")
        owner = _text(
            _object(before, "organization" if isinstance(before.get("organization"), dict) else "user"), "login"
        )
    return f"{owner}/{name}", now


def rerequest_of(payload: Payload) -> Rerequest:
    """Read ``check_run`` rerequested and requested_action."""
    check = _object(payload, "check_run")
    pressed = payload.get("requested_action")
    return Rerequest(
        _repository(payload),
        _installation(payload),
        _actor(payload, {}),
        _text(check, "external_id"),
        _text(check, "head_sha"),
        _text(pressed, "identifier") if isinstance(pressed, dict) else "",
    )


def _place(payload: Payload, item: Payload, *, is_pull: bool) -> EventPlace:
    return EventPlace(_repository(payload), _int(item, "number"), is_pull, _installation(payload))


def _repository(payload: Payload) -> str:
    name = _text(_object(payload, "repository"), "full_name")
    if not REPOSITORY.fullmatch(name):
        raise MalformedPayloadError("repository.full_name is not owner/name")
    return name


def _installation(payload: Payload) -> int | None:
    installation = payload.get("installation")
    return _int(installation, "id") if isinstance(installation, dict) else None


def _actor(payload: Payload, written: Payload) -> Sender:
    # The sender is who did this; who edits a comment need not be who wrote it, and answers for the edit.
    sender = _object(payload, "sender")
    author = written.get("user")
    author_is_bot = isinstance(author, dict) and author.get("type") == "Bot"
    login = _text(sender, "login")
    if not LOGIN.fullmatch(login):
        raise MalformedPayloadError("sender.login is not a login")
    return Sender(login, "Bot" if author_is_bot else _text(sender, "type"))


def _previous(payload: Payload) -> str | None:
    if payload.get("action") != "edited":
        return None
    changes = payload.get("changes")
    body = changes.get("body") if isinstance(changes, dict) else None
    if not isinstance(body, dict):
        # Only the title was edited: every line was there before.
        changed = next(name for name in ("comment", "pull_request", "issue") if payload.get(name))
        return _text(_object(payload, changed), "body")
    return _text(body, "from")


def _object(payload: Payload, name: str) -> Payload:
    value = payload.get(name)
    if not isinstance(value, dict):
        raise MalformedPayloadError(f"{name} is not an object")
    return value


def _int(payload: Payload, name: str) -> int:
    value = payload.get(name)
    if type(value) is not int or not 0 < value <= LARGEST_NUMBER:
        raise MalformedPayloadError(f"{name} is not a whole number that GitHub gives")
    return value


def _text(payload: Payload, name: str) -> str:
    value = payload.get(name)
    if value is not None and not isinstance(value, str):
        raise MalformedPayloadError(f"{name} is not a text")
    return NO_TEXT.sub("\ufffd", value or "")
