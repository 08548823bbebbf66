"""A machine whose clock is hours ahead of GitHub's, or behind it, works all the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from service.deliveries import Unheard
from service.dispatch.context import moment
from service.github.clock import GitHubClock
from service.github.errors import from_answer
from tests.few import few
from tests.service.io.conftest import CREATE, Bench
from workers import inbox, runtime
from workers.contracts import JobState

HOURS = (-5.0, 5.0, 30.0)  # by which GitHub is ahead of this machine


@pytest.fixture(params=few(HOURS, (-5.0, 30.0)))
def hub(hub: Hub, request: pytest.FixtureRequest, clock: list[float]) -> Iterator[Hub]:
    hub.world.clock = lambda: datetime.now(UTC) + timedelta(seconds=clock[0], hours=request.param)
    return hub


def reviewed(bench: Bench) -> None:
    bench.hub.review(bench.repository, bench.job().pull_number or 0, "maintainer", "APPROVE")
    bench.settle()


def test_a_job_is_asked_for_approved_and_done(bench: Bench) -> None:
    bench.say(bench.issue(), CREATE)
    bench.settle()
    for _ in range(3):
        assert bench.job().state is JobState.waiting
        reviewed(bench)
    assert bench.job().state is JobState.done


def test_an_approval_from_before_the_stage_that_waits_is_none_of_it(bench: Bench) -> None:
    bench.say(bench.issue(), CREATE)
    bench.settle()
    reviewed(bench)
    waits = bench.job().checkpoint
    given = bench.hub.world.clock
    bench.hub.world.clock = lambda: given() - timedelta(minutes=10)
    reviewed(bench)
    assert bench.job().checkpoint == waits


def test_the_clock_that_dates_jobs_may_be_neither_github_s_nor_this_machine_s(bench: Bench) -> None:
    made = runtime.current()
    runtime.install(replace(made, clock=lambda: made.clock() + 7 * 3600.0))
    bench.say(bench.issue(), CREATE)
    bench.settle()
    reviewed(bench)
    waits, given = bench.job().checkpoint, bench.hub.world.clock
    bench.hub.world.clock = lambda: given() - timedelta(minutes=10)
    reviewed(bench)
    assert bench.job().checkpoint == waits, "it was given before the stage began"
    bench.hub.world.clock = given
    reviewed(bench)
    assert bench.job().checkpoint != waits


def test_a_comment_that_no_delivery_brought_is_found_by_reading_once_its_delivery_is_late(bench: Bench) -> None:
    bench.hub.deliver_all()
    bench.say(bench.issue(), CREATE)
    while bench.hub.deliveries.lose_next() is not None:
        pass
    looking = Unheard(bench.parts.desk, lambda: ((bench.repository, None),), inbox.record_deliveries, lambda: None)
    looking.step()
    bench.settle()
    assert bench.jobs() == ()
    bench.later(200)
    looking.step()
    bench.settle()
    assert len(bench.jobs()) == 1


def test_a_job_that_was_cancelled_before_is_said_to_be_and_one_reply_is_given(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    for count in (1, 2):
        bench.later(60)
        bench.say(number, "/kernel cancel")
        bench.twice = True
        bench.settle()
        assert len(bench.comments(number)) == count
    assert bench.job().state is JobState.cancelled


def test_the_clock_is_asked_for_once_and_says_how_far_this_machine_is_off(hub: Hub) -> None:
    with HubServer(hub) as server, structlog.testing.capture_logs() as logs:
        clock = GitHubClock(server.api_url)
        for _ in range(2):
            assert abs(clock.now() - hub.world.clock()) < timedelta(seconds=2)
        assert [entry["event"] for entry in logs] == ["clock_differs"]
        hub.world.clock = lambda: datetime.now(UTC)
        clock.forget()
        assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=2)


def test_where_github_does_not_answer_this_machines_clock_is_used_and_github_is_asked_later() -> None:
    clock = GitHubClock("http://127.0.0.1:9/")
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=2)
    assert [entry["event"] for entry in logs] == ["time_of_github_unknown"]


@pytest.mark.parametrize("text", [None, "", "yesterday", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "99999-01-01"])
def test_a_time_that_nobody_can_reckon_with_is_none(text: str | None) -> None:
    assert moment(text) is None
    assert moment("2026-01-01T00:00:00") == moment("2026-01-01T00:00:00Z")


def test_a_reset_is_as_far_off_as_the_answers_own_date_says() -> None:
    date = "Tue, 14 Nov 2023 22:13:20 GMT"  # 1,700,000,000
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000090", "Date": date}
    error = from_answer(403, "API rate limit exceeded", headers, time.time())
    assert getattr(error, "retry_after_s", None) == 90
