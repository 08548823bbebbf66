"""Deliveries that never arrived are asked for again, a few times at most."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from service.deliveries import Missed, Unheard
from service.dispatch.events import handles
from service.github.clients import HookAttempt, last_attempts, missed
from tests.service.io.conftest import CREATE, Bench
from workers import inbox
from workers.contracts import JobState

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


def test_how_far_is_looked_back_does_not_depend_on_this_machines_clock() -> None:
    log = [
        {
            "id": n,
            "guid": str(n),
            "event": "issues",
            "delivered_at": f"{START - timedelta(minutes=25 * n):%Y-%m-%dT%H:%M:%SZ}",
        }
        for n in range(5)
    ]
    found = last_attempts(lambda _verb, _path: ({}, [item | {"status_code": 502} for item in log]), timedelta(hours=1))
    assert [attempt.attempt_id for attempt in found] == [0, 1, 2]


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


@pytest.mark.parametrize("status", [502, 403, 404, 422])
def test_a_log_that_cannot_be_read_is_read_later(bench: Bench, status: int) -> None:
    bench.hub.faults.fail_next("list_hook_deliveries", status)
    with capture_logs() as logs:
        assert Missed(bench.parts.clients).step() is False
    assert "missed_deliveries_unknown" in [line["event"] for line in logs]
    assert bench.hub.faults.waiting() == {}


def test_a_repository_without_drafts_gets_an_open_pull_request(bench: Bench) -> None:
    message = "Draft pull requests are not supported in this repository."
    bench.hub.faults.fail_next("create_pull", 422, body={"message": message})
    bench.say(bench.issue(), CREATE)
    bench.persist()
    pull = bench.hub.issue(bench.repository, bench.job().pull_number or 0).pull
    assert pull is not None
    assert not pull.draft


def unheard(bench: Bench) -> Unheard:
    return Unheard(bench.parts.desk, lambda: ((bench.repository, None),), inbox.record_deliveries, lambda: None)


def lost(bench: Bench, body: str, by: str = "maintainer") -> int:
    number = bench.issue()
    bench.hub.deliver_all()
    bench.say(number, body, by)
    assert bench.hub.deliveries.lose_next() is not None
    bench.settle()
    assert bench.jobs() == ()
    return number


def test_a_comment_that_no_delivery_brought_is_found_by_reading_once(bench: Bench) -> None:
    lost(bench, CREATE)
    looking = unheard(bench)
    looking.step()
    bench.settle()
    assert bench.jobs() == ()  # its delivery may still be on its way
    for _ in range(2):
        bench.later(200)
        looking.step()
        bench.settle()
    assert len(bench.jobs()) == 1


def test_what_was_delivered_is_not_carried_out_again_by_reading(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.settle()
    bench.say(number, "/kernel cancel")
    bench.settle()
    bench.later(200)
    assert unheard(bench).step() is False
    assert bench.handle() == 0


def look_twice_where_it_may_be_lost(bench: Bench, arrives: bool) -> None:
    """Hand the delivery out, or lose it; then look twice for what no webhook brought."""
    if not arrives:
        assert bench.hub.deliveries.lose_next() is not None
    bench.settle()
    looking = unheard(bench)
    for _ in range(2):
        bench.later(200)
        looking.step()
        bench.settle()


@pytest.mark.parametrize("arrives", [False, True])
def test_a_command_that_an_edit_adds_is_carried_out_once_whether_its_delivery_arrived_or_not(
    bench: Bench, arrives: bool
) -> None:
    number = bench.issue()
    said = bench.hub.comment(bench.repository, number, "maintainer", "/kernel status")
    bench.settle()
    bench.later(60)
    bench.hub.edit_comment(bench.repository, said.id, "maintainer", f"/kernel status\n{CREATE}")
    look_twice_where_it_may_be_lost(bench, arrives)
    assert len(bench.jobs()) == 1
    answers = [item for item in bench.hub.issue(bench.repository, number).comments if "No job" in item.body]
    assert len(answers) == 1, "what stood there before is not carried out again"


@pytest.mark.parametrize("body", ["thanks", "> /kernel status"])
def test_comments_without_a_command_are_left_alone(bench: Bench, body: str) -> None:
    lost(bench, body)
    bench.later(200)
    unheard(bench).step()
    assert bench.handle() == 0


@pytest.mark.parametrize("arrives", [False, True])
def test_a_review_decides_once_whether_its_delivery_arrived_or_not(bench: Bench, arrives: bool) -> None:
    bench.say(bench.issue(), CREATE)
    bench.persist()
    job = bench.job()
    assert job.state is JobState.waiting and job.pull_number is not None
    bench.hub.review(bench.repository, job.pull_number, "maintainer", "APPROVE", commit_id=job.head_sha)
    if not arrives:
        assert bench.hub.deliveries.lose_next() is not None
    bench.persist()
    assert (bench.job().checkpoint == job.checkpoint) is not arrives
    looking = unheard(bench)
    for _ in range(3):
        bench.later(200)
        looking.step()
        bench.persist()
    assert [stage.attempt for stage in bench.job().stages] == [1, 1], "approved once, and what waits then is not"


@pytest.mark.parametrize("arrives", [False, True])
def test_a_command_in_a_review_is_carried_out_once_whether_its_delivery_arrived_or_not(
    bench: Bench, arrives: bool
) -> None:
    bench.say(bench.issue(), CREATE)
    bench.persist()
    number, said = bench.job().pull_number or 0, "Enough.\n\n/kernel cancel"
    bench.hub.review(bench.repository, number, "maintainer", "COMMENT", said, commit_id=bench.job().head_sha)
    if not arrives:
        assert bench.hub.deliveries.lose_next() is not None
    bench.persist()
    assert (bench.job().state is JobState.cancelled) is arrives
    looking = unheard(bench)
    for _ in range(2):
        bench.later(200)
        looking.step()
        bench.persist()
    assert bench.job().state is JobState.cancelled
    bench.say(number, "/kernel retry")
    bench.persist()
    bench.later(200)
    looking.step()
    bench.persist()
    assert bench.job().state is JobState.waiting, "what was carried out before is not carried out again"


@pytest.mark.parametrize("arrives", [False, True])
def test_a_command_in_the_body_of_an_issue_is_carried_out_once_whether_its_delivery_arrived_or_not(
    bench: Bench, arrives: bool
) -> None:
    bench.hub.deliver_all()
    bench.hub.open_issue(bench.repository, "maintainer", "Wanted", CREATE)
    look_twice_where_it_may_be_lost(bench, arrives)
    assert len(bench.jobs()) == 1


def test_a_command_in_the_body_of_a_pull_request_is_found_as_well(bench: Bench) -> None:
    bench.hub.push(bench.repository, "notes", "maintainer", {"notes.md": "x"})
    bench.hub.deliver_all()
    number = bench.hub.open_pull(bench.repository, "maintainer", "notes", "Notes", "/kernel help").number
    assert bench.hub.deliveries.lose_next() is not None
    bench.settle()
    bench.later(200)
    unheard(bench).step()
    bench.settle()
    assert any("/kernel optimize" in comment.body for comment in bench.hub.issue(bench.repository, number).comments)


def test_a_repository_that_cannot_be_read_hides_no_other(bench: Bench) -> None:
    lost(bench, CREATE)
    bench.later(200)
    looking = unheard(bench)
    looking.repositories = lambda: (("octo/gone", None), (bench.repository, None))
    looking.step()
    bench.settle()
    assert len(bench.jobs()) == 1


@pytest.mark.parametrize("kind", ["comments", "deliveries"])
def test_what_was_missed_while_github_was_out_of_reach_for_hours_is_found_after_it(bench: Bench, kind: str) -> None:
    looking = unheard(bench) if kind == "comments" else Missed(bench.parts.clients)
    operation = "list_repo_issue_comments" if kind == "comments" else "list_hook_deliveries"
    looking.step()
    lost(bench, CREATE)
    bench.hub.faults.fail_next(operation, 502)
    looking.step()
    assert bench.hub.faults.waiting() == {}
    bench.later(5 * 3600)
    bench.hub.comment(bench.repository, bench.issue(), "visitor", "later")
    looking.step()
    bench.settle()
    assert len(bench.jobs()) == 1


def test_the_repositories_that_are_read_are_those_that_had_jobs(bench: Bench) -> None:
    assert inbox.known_repositories() == ()
    bench.say(bench.issue(), CREATE)
    bench.settle()
    ((repository, installation_id),) = inbox.known_repositories()
    assert (repository, installation_id is not None) == (bench.repository, True)


def test_a_look_costs_a_few_requests_however_much_was_written(bench: Bench) -> None:
    for name in ("one", "two", "three"):
        bench.hub.push(bench.repository, name, "maintainer", {f"{name}.md": "x"})
        number = bench.hub.open_pull(bench.repository, "maintainer", name, name).number
        bench.hub.review(bench.repository, number, "maintainer", "COMMENT", "fine")
        bench.hub.comment(bench.repository, number, "maintainer", "thanks")
    bench.settle()
    unheard(bench).step()  # signs in
    looking = unheard(bench)
    bench.later(200)
    costs = []
    for _ in range(2):
        before = len(bench.hub.requests)
        looking.step()
        costs.append([request.operation for request in bench.hub.requests[before:]])
    lists = ["list_repo_issue_comments", "list_issues"]
    assert costs == [[*lists, "list_reviews", "list_reviews", "list_reviews"], lists]
