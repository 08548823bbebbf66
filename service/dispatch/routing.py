"""Which handler an event goes to: one table. What is not in it is answered and forgotten."""

from __future__ import annotations

from collections.abc import Callable

from service.dispatch.commander import carry_out
from service.dispatch.desk import Desk
from service.dispatch.payloads import Payload, comment_text, opening_text, pull_event_of, rerequest_of, review_of
from service.dispatch.pull_events import carry_out_close, carry_out_push
from service.dispatch.rerun import carry_out_rerequest
from service.dispatch.reviews import carry_out_review

Handler = Callable[[Desk, Payload], str]


def _comment(desk: Desk, payload: Payload) -> str:
    return carry_out(desk, comment_text(payload))


def _opening(desk: Desk, payload: Payload) -> str:
    return carry_out(desk, opening_text(payload))


def _review(desk: Desk, payload: Payload) -> str:
    return carry_out_review(desk, review_of(payload))


def _rerequest(desk: Desk, payload: Payload) -> str:
    return carry_out_rerequest(desk, rerequest_of(payload))


def _push(desk: Desk, payload: Payload) -> str:
    return carry_out_push(desk, pull_event_of(payload))


def _close(desk: Desk, payload: Payload) -> str:
    event = pull_event_of(payload)
    desk.inbox.pull_closed(event.place.repository, event.place.number, closed=True)
    return carry_out_close(desk, event)


def _reopen(desk: Desk, payload: Payload) -> str:
    place = pull_event_of(payload).place
    desk.inbox.pull_closed(place.repository, place.number, closed=False)
    return "noted"


# None: nothing is to be done. The line comments of a review come one by one as
# pull_request_review_comment; they are read with their review, when it is submitted. That somebody pushed to the bot's
# branch is seen when the bot wants to commit.
ROUTES: dict[tuple[str, str], Handler | None] = {
    ("issue_comment", "created"): _comment,
    ("issue_comment", "edited"): _comment,
    ("issues", "opened"): _opening,
    ("issues", "edited"): _opening,
    ("pull_request", "opened"): _opening,
    ("pull_request", "edited"): _opening,
    ("pull_request", "synchronize"): _push,
    ("pull_request", "closed"): _close,
    ("pull_request", "reopened"): _reopen,
    ("pull_request_review", "submitted"): _review,
    ("pull_request_review_comment", "created"): None,
    ("check_run", "rerequested"): _rerequest,
    ("check_run", "requested_action"): _rerequest,
    ("installation", "created"): None,
    ("installation_repositories", "added"): None,
}
EVENTS = frozenset(event for (event, _), handler in ROUTES.items() if handler is not None)


def handles(event: str) -> bool:
    """Tell whether deliveries of an event are kept."""
    return event in EVENTS


def route(event: str, action: str) -> Handler | None:
    """Give the handler of an event; None where nothing is to be done."""
    return ROUTES.get((event, action))
