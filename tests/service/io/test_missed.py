"""Deliveries that never arrived are asked for again, a few times at most."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from service.dispatch.routing import handles
from service.github.hook_log import HookAttempt, missed
from service.missed import Missed
from tests.service.io.conftest import CREATE, Bench

START = datetime(2026, 1, 1, tzinfo=UTC)


def attempt(minutes: int, delivery_id: str, status_code: int, event: str = "issue_comment") -> HookAttempt:
    return HookAttempt(minutes, delivery_id, event, START + timedelta(minutes=minutes), status_code)


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([attempt(1, "a", 202)], []),
        ([attempt(1, "a", 502)], [1]),
        ([attempt(1, "a", 0)], [1]),
        ([attempt(1, "a", 502), attempt(2, "a", 202)], []),
        ([attempt(3, "b", 502), attempt(1, "a", 502), attempt(2, "a", 502)], [2, 3]),
        ([attempt(n, "a", 502) for n in range(4)], []),
        ([attempt(1, "a", 502, "star")], []),
    ],
)
def test_only_what_never_arrived_is_asked_for(attempts: list[HookAttempt], expected: list[int]) -> None:
    assert [found.attempt_id for found in missed(attempts, handles)] == expected


def test_a_command_whose_delivery_was_lost_is_carried_out_after_all(bench: Bench) -> None:
    number = bench.issue()
    bench.hub.deliver_all()
    bench.say(number, CREATE)
    assert bench.hub.deliveries.lose_next() is not None
    bench.settle()
    assert bench.jobs() == ()
    looking = Missed(bench.parts.clients)
    looking.step()
    looking.step()
    bench.settle()
    assert len(bench.jobs()) == 1
    looking.step()
    assert bench.hub.deliveries.waiting() == []


def test_a_log_that_cannot_be_read_is_read_later(bench: Bench) -> None:
    bench.hub.faults.fail_next("list_hook_deliveries", 502)
    assert Missed(bench.parts.clients).step() is False
    assert bench.hub.faults.waiting() == {}


def test_a_repository_without_drafts_gets_an_open_pull_request(bench: Bench) -> None:
    message = "Draft pull requests are not supported in this repository."
    bench.hub.faults.fail_next("create_pull", 422, body={"message": message})
    bench.say(bench.issue(), CREATE)
    bench.persist()
    pull = bench.hub.issue(bench.repository, bench.job().pull_number or 0).pull
    assert pull is not None
    assert not pull.draft
