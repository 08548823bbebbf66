"""Whatever dies, comes twice or fails: one job, one comment of each kind, one commit."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from deploy.localhub.webhooks import Order
from deploy.localhub.world import utc_now
from service.deliveries import HandledDelivery, handle
from service.dispatch import events
from service.publisher import publisher as publishing
from service.publisher.publication import Publication
from service.report.layout import find_marker
from service.report.pull_request import is_commit_of, with_trailer
from tests.few import few
from tests.service.io.conftest import CREATE, Bench
from tests.service.io.stages import Analyze
from tests.workers.store.worlds import record
from workers import inbox, outbox, runtime
from workers.contracts import ClaimedUpdate, Effect, Failure, FailureCode, JobState, JobView, StageName
from workers.embedded import drive
from workers.store.models import StageAttempt

# Every request that a job makes, in groups that no single update or delivery meets more than a few of.
GROUPS = (
    (
        "create_issue_comment",
        "create_blob",
        "create_ref",
        "create_pull",
        "create_check_run",
        "get_repo",
        "get_archive",
        "update_issue_comment",
        "mark_ready_for_review",
        "create_installation_token",
    ),
    (
        "create_tree",
        "update_ref",
        "update_pull",
        "request_reviewers",
        "list_check_runs",
        "create_git_commit",
        "list_issue_comments",
        "minimize_comment",
        "create_comment_reaction",
        "download_archive",
        "list_pulls",
    ),
)


def play(bench: Bench) -> tuple[int, int]:
    """Play the whole job; give the numbers of the issue and the pull request."""
    number = bench.issue()
    bench.say(number, CREATE)
    bench.persist()
    pull = bench.job().pull_number or 0
    for _ in range(3):
        bench.hub.review(bench.repository, pull, "maintainer", "APPROVE")
        bench.persist()
    return number, pull


def assert_clean(bench: Bench, number: int, pull: int) -> None:
    """One of everything, and nothing of it lost."""
    job = bench.job()
    assert job.state is JobState.done
    assert bench.hub.pull_numbers(bench.repository) == [pull]
    marks = Counter(str(find_marker(entry.body)) for where in {number, pull} for entry in bench.comments(where))
    assert len(marks) == 4
    assert set(marks.values()) == {1}
    checks = Counter(check.external_id for check in bench.hub.check_runs(bench.repository))
    assert set(checks.values()) == {1}
    commits = [
        entry for entry in bench.hub.conversation(bench.repository, pull) if type(entry).__name__ == "CommitEntry"
    ]
    assert len(commits) == 2


PAIRS = [(group, fault) for fault in ("502", "403", "404", "lost") for group in range(len(GROUPS))]


# In `make test` every request fails, and each kind of fault is met: the groups take turns at them.
@pytest.mark.parametrize(("group", "fault"), few(PAIRS, [(0, "502"), (1, "403"), (1, "404"), (0, "lost")]))
def test_every_request_may_fail_once(bench: Bench, group: int, fault: str) -> None:
    faults = bench.hub.faults
    strike: dict[str, Callable[[str], None]] = {
        "502": lambda operation: faults.fail_next(operation, 502),
        "403": lambda operation: faults.rate_limit_next(operation, "secondary", retry_after=30),
        "404": faults.missing_then_found,
        "lost": faults.drop_response_next,
    }
    for operation in GROUPS[group]:
        strike[fault](operation)
    number, pull = play(bench)
    assert faults.waiting() == {}
    assert_clean(bench, number, pull)


class Dying:
    """An outbox whose process dies after every effect, before it could say so, once for each update."""

    def __init__(self) -> None:
        self.died: set[str] = set()

    def claim(self, worker: str, lease_s: float, *, under_way: Collection[str]) -> ClaimedUpdate | None:
        return outbox.claim(worker, lease_s, under_way=under_way)

    def complete(self, update_id: str, worker: str, effect: Effect) -> bool:
        if update_id in self.died:
            return outbox.complete(update_id, worker, effect)
        self.died.add(update_id)
        return False

    def postpone(self, update_id: str, worker: str, error: str, retry_after_s: float, *, refused: bool) -> bool:
        return outbox.postpone(update_id, worker, error, retry_after_s, refused=refused)

    def give_up(self, update_id: str, worker: str, failure: Failure) -> bool:
        return outbox.give_up(update_id, worker, failure)


def test_who_dies_between_an_effect_and_its_record_makes_nothing_twice(bench: Bench) -> None:
    dying = Dying()
    bench.parts = replace(bench.parts, publisher=replace(bench.parts.publisher, outbox=dying))
    number, pull = play(bench)
    assert len(dying.died) > 10
    assert_clean(bench, number, pull)


def test_a_clock_put_forward_does_not_let_two_threads_publish_an_update(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, publish, elsewhere = bench.parts.publisher, publishing.publish, list[bool]()

    def slow(publication: Publication) -> Effect:
        if elsewhere:
            return publish(publication)
        bench.later(publisher.lease_s + 1)
        elsewhere.append(True)
        with ThreadPoolExecutor(1) as other:
            elsewhere.append(other.submit(publisher.step).result())
        return publish(publication)

    bench.say(bench.issue(), CREATE)
    bench.handle()
    monkeypatch.setattr(publishing, "publish", slow)
    assert publisher.step()
    assert elsewhere == [True, False]


def test_a_clock_that_was_a_day_ahead_when_a_job_began_doubles_no_comment(bench: Bench) -> None:
    right = runtime.current()
    runtime.install(replace(right, clock=lambda: right.clock() + 86_400.0))
    number = bench.issue()
    bench.say(number, CREATE)
    bench.handle()
    bench.publish()
    (first,) = bench.comments(number)
    runtime.install(right)
    bench.settle()
    (now,) = bench.comments(number)
    assert now.body != first.body


@pytest.mark.parametrize("order", few(["as_sent", "reversed", "shuffled"], ["shuffled"]))
def test_deliveries_may_come_twice_and_in_any_order(bench: Bench, order: Order) -> None:
    bench.order, bench.twice = order, True
    number, pull = play(bench)
    assert_clean(bench, number, pull)


def test_a_delivery_that_is_handled_twice_acts_once(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.say(number, "/kernel help")
    bench.hub.deliver_all()
    payloads = [(item.event, item.payload) for item in pending(bench)]
    bench.handle()
    for event, payload in payloads:
        handle(bench.parts.desk, event, payload)
    bench.persist()
    assert len(bench.jobs()) == 1
    assert len(bench.comments(number)) == 2


def test_a_review_that_is_handled_again_at_the_next_checkpoint_is_answered_by_nothing(bench: Bench) -> None:
    pull = wait_for_review(bench).pull_number or 0
    with runtime.current().database.write() as session:
        session.execute(update(StageAttempt).values(started_at=time.time() - 120))
    bench.hub.review(bench.repository, pull, "maintainer", "APPROVE")
    (sent,) = bench.hub.deliveries.waiting()
    payload = json.loads(sent.payload)
    payload["review"]["submitted_at"] = f"{utc_now() - timedelta(seconds=60):%Y-%m-%dT%H:%M:%SZ}"
    sent.payload = json.dumps(payload)
    bench.hub.deliver_all()
    (review,) = pending(bench)
    handle(bench.parts.desk, review.event, review.payload)  # and its process is killed before it can record that
    while drive() + bench.publish():
        pass
    assert (bench.job().state, bench.job().stages[-1].stage) == (JobState.waiting, StageName.generate)
    bench.persist()
    assert not [entry.body for entry in bench.comments(pull) if "kind=reply" in entry.body]


@pytest.mark.parametrize("in_this_process", [True, False])
def test_a_command_that_is_handled_twice_at_once_is_answered_by_its_job_alone(
    bench: Bench, in_this_process: bool
) -> None:
    number = bench.issue()
    bench.handle()
    bench.say(number, CREATE)
    bench.hub.deliver_all()
    processor = bench.parts.processor
    other = processor if in_this_process else replace(processor, worker="another process")
    took = list[bool]()

    def meanwhile() -> None:
        bench.later(processor.lease_s + 1)
        took.append(other.step())

    bench.hub.faults.before_next("get_archive", meanwhile)
    assert processor.step()
    assert took == [not in_this_process]
    bench.persist()
    assert len(bench.jobs()) == 1
    assert len(bench.comments(number)) == 1


def pending(bench: Bench) -> list[HandledDelivery]:
    found = []
    while (claimed := inbox.claim_delivery("test", 1.0)) is not None:
        found.append(claimed)
    bench.later(2)
    return list(found)


def wait_for_review(bench: Bench) -> JobView:
    bench.say(bench.issue(), CREATE)
    bench.persist()
    return bench.job()


def test_what_a_person_pushed_stays_and_the_job_says_so(bench: Bench) -> None:
    job = wait_for_review(bench)
    sha = bench.hub.push(bench.repository, job.branch, "second", {"mine.txt": "mine\n"})
    bench.hub.review(bench.repository, job.pull_number or 0, "maintainer", "APPROVE", commit_id=job.head_sha)
    bench.persist()
    assert bench.hub.head(bench.repository, job.branch) == sha
    assert (failure := bench.job().failure) is not None
    assert failure.code is FailureCode.moved
    assert "pushed" in bench.comments(job.pull_number or 0)[-1].body


def test_a_push_at_the_same_moment_is_not_overwritten(bench: Bench) -> None:
    job = wait_for_review(bench)
    pushed: list[str] = []

    def push() -> None:
        pushed.append(bench.hub.push(bench.repository, job.branch, "second", {"mine.txt": "mine\n"}))

    bench.hub.faults.before_next("update_ref", push)
    bench.hub.review(bench.repository, job.pull_number or 0, "maintainer", "APPROVE")
    bench.persist()
    assert pushed == [bench.hub.head(bench.repository, job.branch)]
    assert (failure := bench.job().failure) is not None
    assert failure.code is FailureCode.moved


def test_a_job_that_lost_its_branch_starts_over_on_one_of_its_own(bench: Bench) -> None:
    job = wait_for_review(bench)
    bench.hub.push(bench.repository, job.branch, "second", {"mine.txt": "mine\n"})
    bench.hub.review(bench.repository, job.pull_number or 0, "maintainer", "APPROVE", commit_id=job.head_sha)
    bench.persist()
    bench.say(job.pull_number or 0, "/kernel retry " + job.job_id)
    bench.persist()
    again = bench.job()
    assert again.state is JobState.waiting
    assert again.branch != job.branch
    assert again.pull_number not in (None, job.pull_number)


def test_a_push_on_top_of_a_commit_whose_record_was_lost_is_seen(bench: Bench) -> None:
    dying = Dying()
    bench.parts = replace(bench.parts, publisher=replace(bench.parts.publisher, outbox=dying))
    bench.say(bench.issue(), CREATE)
    bench.settle()
    bench.later(61)
    bench.settle()
    job = bench.job()
    made = bench.hub.head(bench.repository, job.branch)
    bench.hub.push(bench.repository, job.branch, "second", {"mine.txt": "mine\n"})
    bench.later(61)
    bench.persist()
    assert bench.job().head_sha == made


def test_a_commit_of_a_file_without_a_single_reading_ends_the_job(bench: Bench, analyze: Analyze) -> None:
    analyze.header = "# coding: utf-7\n"
    bench.say(bench.issue(), CREATE)
    bench.persist()
    assert (failure := bench.job().failure) is not None
    assert (failure.code, failure.line) == (FailureCode.refused, 1)
    assert "another encoding" in failure.message
    assert bench.hub.head(bench.repository, bench.job().branch) is None


def test_a_deleted_branch_of_which_nothing_was_heard_ends_the_job_with_a_reason(bench: Bench) -> None:
    job = wait_for_review(bench)
    bench.hub.delete_branch(bench.repository, job.branch, "second")
    unheard(bench)
    bench.hub.review(bench.repository, job.pull_number or 0, "maintainer", "APPROVE")
    bench.persist()
    assert (failure := bench.job().failure) is not None
    assert failure.code is FailureCode.moved
    assert "deleted" in failure.message


def test_a_closed_pull_request_of_which_nothing_was_heard_ends_the_job_with_a_reason(bench: Bench) -> None:
    job = wait_for_review(bench)
    bench.hub.set_issue_state(bench.repository, job.pull_number or 0, "second", "closed")
    unheard(bench)
    bench.hub.review(bench.repository, job.pull_number or 0, "maintainer", "APPROVE")
    bench.persist()
    assert (failure := bench.job().failure) is not None
    assert (failure.code, "closed" in failure.message) == (FailureCode.moved, True)


@pytest.mark.parametrize("deleted", [False, True])
def test_closing_the_pull_request_or_deleting_its_branch_cancels_the_job(bench: Bench, deleted: bool) -> None:
    job = wait_for_review(bench)
    if deleted:
        bench.hub.delete_branch(bench.repository, job.branch, "second")
    else:
        bench.hub.set_issue_state(bench.repository, job.pull_number or 0, "second", "closed")
    bench.persist()
    assert bench.job().state is JobState.cancelled
    number = job.pull_number or 0
    assert any(f"pull request {number} was closed by `second`" in entry.body for entry in bench.comments(number))


def unheard(bench: Bench) -> None:
    """Let nothing arrive of what has just happened."""
    assert bench.hub.deliveries.lose_next() is not None
    while bench.hub.deliveries.lose_next() is not None:
        pass


def test_a_missing_permission_is_named(bench: Bench) -> None:
    bench.hub.faults.fail_next("create_git_commit", 403, body={"message": "Resource not accessible by integration"})
    bench.say(bench.issue(), CREATE)
    bench.persist()
    assert (failure := bench.job().failure) is not None
    assert failure.code is FailureCode.forbidden
    assert "Resource not accessible" in (failure.log or "")


def test_a_check_run_that_cannot_be_made_does_not_stop_the_job(bench: Bench) -> None:
    bench.hub.faults.fail_next("create_check_run", 403, body={"message": "You must authenticate via a GitHub App."})
    assert wait_for_review(bench).state is JobState.waiting
    assert bench.hub.check_runs(bench.repository) == []


def test_a_forged_mark_of_somebody_else_is_not_taken_for_the_bots(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.handle()
    mark = f"<!-- kernelsmith:job={bench.job().job_id} kind=status -->"
    forged = bench.say(number, f"all is well\n\n{mark}", by="visitor")
    bench.persist()
    assert len(bench.comments(number)) == 1
    assert bench.comments(number)[0].id != forged


def test_a_primary_rate_limit_holds_nobody_asleep(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.hub.faults.rate_limit_next("get_repo", "primary", retry_after=600)
    bench.settle()
    assert bench.jobs() == ()
    asked = len(bench.hub.requests)
    bench.later(300)
    bench.settle()
    assert len(bench.hub.requests) == asked
    bench.later(400)
    bench.persist()
    assert len(bench.jobs()) == 1


def test_an_outage_in_the_middle_of_a_delivery_is_waited_out(bench: Bench) -> None:
    number = bench.issue()
    bench.say(number, CREATE)
    bench.hub.faults.fail_next("*", 503, times=9)
    bench.persist()
    assert len(bench.jobs()) == 1
    assert len(bench.comments(number)) == 1


def test_a_payload_that_is_malformed_is_put_away_and_the_next_one_handled(bench: Bench) -> None:
    for number, body in enumerate((b"not json", b"[]", b"{}", b'{"action": "created", "comment": 7}')):
        record(f"malformed-{number}", "issue_comment", body)
    number = bench.issue()
    bench.say(number, CREATE)
    bench.persist()
    assert len(bench.jobs()) == 1


def test_a_fault_of_ours_is_tried_a_few_times_and_then_put_away(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_desk: object, _text: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(events, "carry_out", broken)
    bench.say(bench.issue(), CREATE)
    bench.persist()
    assert bench.jobs() == ()
    assert inbox.counts()["deliveries"] == {"done": inbox.counts()["deliveries"]["done"]}


def test_a_commit_is_known_by_its_last_line_only() -> None:
    message = with_trailer("Add it\n\nbody\n\nKernelsmith-Job: abc\n", "u1")
    assert message == "Add it\n\nbody\n\nKernelsmith-Job: abc\nKernelsmith-Update: u1\n"
    assert with_trailer("Add it", "u1") == "Add it\n\nKernelsmith-Update: u1\n"
    assert is_commit_of(message, "u1")
    assert not is_commit_of(message, "u")
    assert not is_commit_of("Kernelsmith-Update: u1\n\nmore", "u1")
