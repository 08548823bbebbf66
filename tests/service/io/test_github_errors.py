"""GitHub's answers get the meaning that decides what is done next."""

from __future__ import annotations

import json
import time

import pytest
import requests
from github import GithubException

from service.github.errors import (
    ConflictError,
    ForbiddenError,
    GitHubError,
    MissingError,
    TransientError,
    UnauthorizedError,
    from_answer,
    translate,
    translated,
)
from service.github.session import RateLimits

NOW_S = 1_700_000_000.0


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, MissingError),
        (408, TransientError),
        (409, ConflictError),
        (410, MissingError),
        (422, ConflictError),
        (451, ForbiddenError),
        (500, TransientError),
        (502, TransientError),
        (503, TransientError),
    ],
)
def test_every_status_has_its_meaning(status: int, kind: type[GitHubError]) -> None:
    error = from_answer(status, "no", {}, NOW_S)
    assert type(error) is kind
    assert error.status == status


def wait_s(status: int, message: str, **headers: str) -> float:
    error = from_answer(status, message, {name.replace("_", "-"): value for name, value in headers.items()}, NOW_S)
    assert isinstance(error, TransientError)
    assert error.limited
    return error.retry_after_s


def test_the_primary_limit_is_waited_for_until_its_reset() -> None:
    text = "API rate limit exceeded for installation ID 7."
    reset = str(int(NOW_S) + 1234)
    assert wait_s(403, text, X_RateLimit_Remaining="0", X_RateLimit_Reset=reset) == 1234


def test_the_secondary_limit_is_waited_for_as_long_as_it_says() -> None:
    assert wait_s(403, "You have exceeded a secondary rate limit.", Retry_After="77") == 77


@pytest.mark.parametrize("status", [403, 429])
def test_a_limit_that_names_no_time_is_waited_for_a_minute(status: int) -> None:
    assert wait_s(status, "You have exceeded a secondary rate limit.") == 60


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Tue, 14 Nov 2023 22:15:00 GMT", 100),
        ("Tuesday, 14-Nov-23 22:15:00 GMT", 100),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 1),
        ("Wed, 21 Oct 2026 07:28:00 GMT", 3600),
    ],
    ids=["a date", "an old form of dates", "a date in the past", "a date in years"],
)
def test_a_wait_may_be_told_as_a_date(value: str, expected: float) -> None:
    assert wait_s(429, "slow down", Retry_After=value) == expected


@pytest.mark.parametrize("value", ["tomorrow", "Wed, 99 Oct 2026 07:28:00 GMT", "nan", ""])
def test_a_time_that_cannot_be_read_is_a_minute(value: str) -> None:
    assert wait_s(403, "slow down", Retry_After=value) == 60


@pytest.mark.parametrize(("value", "expected"), [("0", 1), ("-5", 1), ("999999999", 3600), ("inf", 3600)])
def test_a_wait_is_never_none_and_never_longer_than_an_hour(value: str, expected: float) -> None:
    assert wait_s(429, "slow down", Retry_After=value) == expected


def test_a_plain_403_is_no_rate_limit() -> None:
    error = from_answer(403, "Resource not accessible by integration", {"x-ratelimit-remaining": "4999"}, NOW_S)
    assert isinstance(error, ForbiddenError)


def test_what_github_found_wrong_is_in_the_text() -> None:
    data = {
        "message": "Validation Failed",
        "errors": [{"message": "A pull request already exists"}, {"code": "custom"}],
    }
    error = translate(GithubException(422, data, {}), NOW_S)
    assert isinstance(error, ConflictError)
    assert "A pull request already exists" in str(error)


@pytest.mark.parametrize(
    "error", [requests.ConnectionError("x"), requests.Timeout("x"), json.JSONDecodeError("x", "", 0)]
)
def test_no_answer_or_half_an_answer_is_tried_again(error: Exception) -> None:
    with pytest.raises(TransientError) as told, translated():
        raise error
    assert told.value.__cause__ is error


def test_a_fault_of_ours_is_not_taken_for_github() -> None:
    fault = KeyError("x")
    with pytest.raises(KeyError) as told, translated():
        raise fault
    assert told.value is fault


def test_who_has_used_up_its_limit_rests_and_others_do_not() -> None:
    now = [100.0]
    limits = RateLimits(lambda: now[0])
    limits.observe("installation 1", 0, 60.0)
    limits.observe("installation 2", 10, 60.0)
    with pytest.raises(TransientError) as caught:
        limits.check("installation 1")
    assert caught.value.retry_after_s == 60
    limits.check("installation 2")
    now[0] = 160.5
    limits.check("installation 1")
    assert limits.remaining() == {"installation 1": 0, "installation 2": 10}


def test_a_secondary_limit_makes_every_thread_wait() -> None:
    now = [100.0]
    limits = RateLimits(lambda: now[0])
    limits.rest("token", 30)
    limits.observe("token", 4000, 60.0)
    with pytest.raises(TransientError):
        limits.check("token")
    now[0] = 131.0
    limits.check("token")


def test_limits_take_no_notice_of_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RateLimits()
    limits.rest("token", 30)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with pytest.raises(TransientError) as caught:
        limits.check("token")
    assert 29 < caught.value.retry_after_s <= 30


def test_a_reset_in_the_far_future_does_not_stop_the_bot_for_ever() -> None:
    now = [100.0]
    limits = RateLimits(lambda: now[0])
    limits.observe("token", 0, 1e12)
    with pytest.raises(TransientError) as caught:
        limits.check("token")
    assert caught.value.retry_after_s <= 3600
