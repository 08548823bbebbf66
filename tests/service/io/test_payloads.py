"""Payloads: read in GitHub's documented form, and refused in one way where they are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.dispatch.events import ROUTES, handles, route
from service.dispatch.payloads import (
    MalformedPayloadError,
    Rerequest,
    SubmittedReview,
    WrittenText,
    comment_text,
    line_text,
    opening_text,
    rerequest_of,
    review_of,
)

READERS: tuple[Callable[[dict[str, Any]], object], ...] = (
    comment_text,
    opening_text,
    review_of,
    line_text,
    rerequest_of,
)
USER = {"login": "octocat", "type": "User"}
COMMENT: dict[str, Any] = {
    "action": "created",
    "issue": {"number": 7, "body": "the issue", "user": USER},
    "comment": {
        "id": 99,
        "body": "/kernel help",
        "user": USER,
        "author_association": "OWNER",
        "html_url": "https://github.com/octo/kernels/issues/7#issuecomment-99",
        "updated_at": "2026-01-02T03:04:05Z",
    },
    "repository": {"full_name": "octo/kernels"},
    "sender": USER,
    "installation": {"id": 5},
}


def test_a_comment_is_read_with_its_place() -> None:
    text = comment_text(COMMENT)
    assert (text.place.repository, text.place.number, text.place.is_pull) == ("octo/kernels", 7, False)
    assert (text.place.installation_id, text.comment_id, text.previous_body) == (5, 99, None)
    assert (text.actor.login, text.issue_body) == ("octocat", "the issue")


def test_a_comment_on_a_pull_request_is_known_as_one() -> None:
    pull = COMMENT | {"issue": COMMENT["issue"] | {"pull_request": {"url": "x"}}}
    assert comment_text(pull).place.is_pull


def test_an_edit_holds_what_stood_there_before() -> None:
    edited = COMMENT | {"action": "edited", "changes": {"body": {"from": "before"}}}
    assert comment_text(edited).previous_body == "before"


def test_an_edit_of_something_else_than_the_body_adds_no_line() -> None:
    edited = COMMENT | {"action": "edited", "changes": {"title": {"from": "x"}}}
    assert comment_text(edited).previous_body == "/kernel help"


def test_who_edits_answers_for_the_edit() -> None:
    edited = COMMENT | {"action": "edited", "changes": {}, "sender": {"login": "editor", "type": "User"}}
    assert comment_text(edited).actor.login == "editor"


def test_an_edit_of_a_bots_comment_is_the_bots() -> None:
    written = COMMENT | {"comment": COMMENT["comment"] | {"user": {"login": "x[bot]", "type": "Bot"}}}
    assert comment_text(written).actor.account_type == "Bot"


def test_a_body_that_is_null_is_empty() -> None:
    assert comment_text(COMMENT | {"comment": COMMENT["comment"] | {"body": None}}).body == ""


@pytest.mark.parametrize("field", ["comment", "issue", "repository", "sender"])
def test_a_missing_part_is_named(field: str) -> None:
    with pytest.raises(MalformedPayloadError, match=field):
        comment_text({name: value for name, value in COMMENT.items() if name != field})


@pytest.mark.parametrize("number", [10**25, 2**63, 0, -1, 1.5, True, None, "1"])
def test_a_number_that_github_does_not_give_is_refused(number: object) -> None:
    with pytest.raises(MalformedPayloadError, match="number is not"):
        comment_text(COMMENT | {"issue": COMMENT["issue"] | {"number": number}})


ANY_TEXT = st.text(st.characters(categories=["L", "N", "P", "Z", "C", "Cs", "Cf"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.integers(10**18, 10**30) | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*COMMENT, "body", "id", "number", "login", "full_name"]), inner, max_size=6)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from([*COMMENT, "review", "pull_request", "check_run"]), VALUES))
def test_whatever_comes_is_read_or_refused_and_nothing_else(payload: dict[str, Any]) -> None:
    for read in READERS:
        for form in (payload, COMMENT | payload):
            try:
                found = read(json.loads(json.dumps(form)))
            except MalformedPayloadError as error:
                assert str(error)
                continue
            assert isinstance(found, WrittenText | SubmittedReview | Rerequest)
            for value in parts(found):
                # What is read can be stored and sent.
                assert not isinstance(value, str) or value.encode().find(b"\0") < 0
                assert not isinstance(value, int) or value < 2**63


def parts(value: object) -> Iterator[object]:
    if is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            yield from parts(getattr(value, item.name))
    else:
        yield value


def test_only_events_that_something_is_done_with_are_kept() -> None:
    assert handles("issue_comment")
    assert not any(handles(event) for event in ("installation", "push", "star"))
    assert route("issue_comment", "deleted") is None
    assert all(route(event, action) is handler for (event, action), handler in ROUTES.items())
