"""What was answered counts against the limit of its kind, and what was only claimed counts against none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import update

from service import deliveries
from service.github.errors import MissingError, TransientError
from service.github.git_data import GitData
from service.publisher import publisher
from tests.service.io.conftest import CREATE, Bench
from tests.service.io.test_faults import assert_clean, play
from workers import inbox, runtime
from workers.contracts import JobState
from workers.store.models import Delivery, OutboxUpdate

OUTAGE, REFUSAL = TransientError("GitHub answered 502", 502), MissingError("GitHub answered 404", 404)
FAULT = ValueError("a fault of the bot's own")
MIXED = {
    "outages, then a refusal": [*[OUTAGE] * 9, REFUSAL],
    "outages, then a fault": [*[OUTAGE] * 9, FAULT],
    "by turns": [OUTAGE, REFUSAL, OUTAGE, FAULT, OUTAGE, REFUSAL, OUTAGE, OUTAGE, REFUSAL],
}
KILLS = 7  # more than there may be refusals


def failing(errors: Sequence[Exception], really: Callable[..., Any]) -> Callable[..., Any]:
    left = list(errors)

    def act(*arguments: Any) -> Any:
        if left:
            raise left.pop(0)
        return really(*arguments)

    return act


def claimed_before(table: type[Delivery | OutboxUpdate]) -> None:
    """Have everything that waits been claimed by processes that were killed then."""
    with runtime.current().database.write() as session:
        session.execute(update(table).where(table.state == "pending", table.tries < KILLS).values(tries=KILLS))


@pytest.mark.parametrize("errors", MIXED.values(), ids=MIXED)
def test_a_command_survives_refusals_among_outages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, errors: list[Exception]
) -> None:
    number = bench.issue()
    bench.settle()
    bench.say(number, "/kernel help")
    bench.hub.deliver_all()
    monkeypatch.setattr(deliveries, "handle", failing(errors, deliveries.handle))
    for _ in range(len(errors) + 1):
        assert bench.parts.processor.step()
        bench.later(deliveries.LONGEST_PAUSE_S)
    bench.settle()
    assert len(bench.comments(number)) == 1


@pytest.mark.parametrize("errors", MIXED.values(), ids=MIXED)
def test_a_job_survives_refusals_among_outages_of_an_update(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, errors: list[Exception]
) -> None:
    bench.say(bench.issue(), CREATE)
    bench.settle()
    bench.hub.review(bench.repository, bench.job().pull_number or 0, "maintainer", "APPROVE")
    bench.handle()
    # Of the stage that is approved the first update that is no status comment, which may be left out.
    really, left = publisher.publish, list(errors)

    def act(publication: Any) -> Any:
        if left and publication.claimed.job.head_sha and "Commit" in type(publication.claimed.update).__name__:
            raise left.pop(0)
        return really(publication)

    monkeypatch.setattr(publisher, "publish", act)
    for _ in range(len(errors) + 1):
        bench.settle()
        bench.later(publisher.LONGEST_PAUSE_S)
    assert left == []
    assert bench.job().failure is None
    assert set(inbox.counts()["updates"]) == {"published"}


def test_claims_of_killed_processes_are_no_tries(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.say(bench.issue(), CREATE)
    bench.hub.deliver_all()
    claimed_before(Delivery)
    monkeypatch.setattr(deliveries, "handle", failing([REFUSAL], deliveries.handle))
    bench.handle()
    bench.later(60)
    bench.handle()
    assert bench.job().state is JobState.queued


def test_a_branch_that_a_replica_does_not_show_yet_is_waited_for_whoever_was_killed_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, hidden, publish = GitData.head, 2, publisher.publish

    def head(self: GitData, branch: str) -> str | None:
        nonlocal hidden
        known = really(self, branch)
        if known is not None and hidden:
            hidden -= 1
            return None
        return known

    def act(publication: Any) -> Any:
        claimed_before(OutboxUpdate)
        return publish(publication)

    monkeypatch.setattr(publisher, "publish", act)
    bench.say(bench.issue(), CREATE)
    bench.persist()
    monkeypatch.setattr(GitData, "head", head)
    bench.hub.review(bench.repository, bench.job().pull_number or 0, "maintainer", "APPROVE")
    bench.persist()
    assert hidden == 0
    assert bench.job().failure is None


def test_one_refusal_of_each_update_that_killed_processes_have_claimed_fails_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: set[str] = set()
    really = publisher.publish

    def act(publication: Any) -> Any:
        claimed_before(OutboxUpdate)
        if publication.claimed.update_id not in met:
            met.add(publication.claimed.update_id)
            raise REFUSAL
        return really(publication)

    monkeypatch.setattr(publisher, "publish", act)
    assert_clean(bench, *play(bench))


def test_an_outage_of_weeks_is_waited_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.say(bench.issue(), CREATE)
    bench.handle()
    with runtime.current().database.write() as session:
        session.execute(update(OutboxUpdate).values(tries=5000, outages=5000))
    monkeypatch.setattr(publisher, "publish", failing([OUTAGE], publisher.publish))
    assert bench.parts.publisher.step()
    bench.later(publisher.LONGEST_PAUSE_S)
    bench.persist()
    assert bench.job().state is JobState.waiting
