"""What follows from a push to a pull request, from its end, from a button on a check run, and from nobody's answer."""

from __future__ import annotations

import json

import pytest

from service.deliveries import handle
from service.report.layout import MessageKind
from tests.service.io.conftest import CREATE, Bench
from tests.service.io.test_measuring import fork, head, pull, push_to_fork, replies, say
from workers.contracts import JobState, JobView, StageName
from workers.embedded import reconcile

DAY_S = 86_400.0


@pytest.fixture
def waiting(bench: Bench) -> JobView:
    bench.say(bench.issue(), CREATE)
    bench.settle()
    assert bench.job().state is JobState.waiting
    return bench.job()


def pushed(bench: Bench, text: str = "again", branch: str = "faster") -> str:
    return bench.hub.push(bench.repository, branch, "maintainer", {"kernels/geglu.py": f"# {text}\n"}, text)


def pressed(bench: Bench, identifier: str, by: str = "maintainer", number: int = -1) -> None:
    run = bench.hub.check_runs(bench.repository)[number]
    bench.hub.press_check(bench.repository, run.id, identifier, by)
    bench.settle()


def test_a_push_ends_what_measures_the_old_head_and_the_new_one_is_measured(bench: Bench) -> None:
    number = pull(bench)
    old = head(bench, "faster")
    bench.later(10)
    bench.say(number, "/kernel bench geglu")
    bench.handle()
    new = pushed(bench)
    bench.settle()
    first, second = bench.jobs()
    assert (first.request.head_sha, first.state) == (old, JobState.cancelled)
    assert (second.request.head_sha, second.state) == (new, JobState.done)
    assert second.request.kernels == ("geglu",)
    told = replies(bench, number, MessageKind.report)
    assert f"the pull request moved on to `{new[:12]}`. It is measured anew" in told[0]


def test_a_push_that_is_not_measured_is_answered_with_the_reason(bench: Bench) -> None:
    config = b"limits.jobs_per_day_per_person = 1\n"
    bench.hub.push(bench.repository, "main", "maintainer", {".github/kernelsmith.toml": config})
    number = pull(bench)
    bench.later(10)
    bench.say(number, "/kernel bench geglu")
    bench.handle()
    bench.twice = True
    pushed(bench)
    bench.settle()
    assert bench.job().state is JobState.cancelled
    (told,) = replies(bench, number, MessageKind.reply)
    assert "The limit is reached: 1 of 1 jobs a day for one person" in told


def test_a_push_that_comes_twice_or_late_starts_nothing_more(bench: Bench) -> None:
    number = pull(bench)
    bench.later(10)
    bench.say(number, "/kernel bench")
    bench.handle()
    bench.twice = True
    pushed(bench, "one")
    pushed(bench, "two")
    bench.settle()
    assert [job.state for job in bench.jobs()].count(JobState.done) == 1
    assert bench.jobs()[-1].request.head_sha == head(bench, "faster")


def test_a_finished_report_is_left_alone_by_a_push(bench: Bench) -> None:
    number = pull(bench)
    say(bench, number, "/kernel bench")
    pushed(bench)
    bench.settle()
    assert [job.state for job in bench.jobs()] == [JobState.done]


def test_what_was_pushed_to_a_fork_runs_only_when_it_is_asked_for_again(bench: Bench) -> None:
    number = fork(bench)
    bench.later(10)
    bench.say(number, "/kernel bench")
    bench.handle()
    assert len(bench.jobs()) == 1
    bench.later(10)
    push_to_fork(bench, "two")
    bench.settle()
    assert bench.job().state is JobState.cancelled
    assert "`/kernel bench` looks at that one" in replies(bench, number, MessageKind.report)[0]


@pytest.mark.parametrize("merge", [False, True])
def test_a_pull_request_that_is_closed_ends_what_measures_it(bench: Bench, merge: bool) -> None:
    number = pull(bench)
    bench.later(10)
    bench.say(number, "/kernel bench")
    bench.handle()
    if merge:
        bench.hub.merge(bench.repository, number, "maintainer")
    else:
        bench.hub.set_issue_state(bench.repository, number, "maintainer", "closed")
    bench.settle()
    assert bench.job().state is JobState.cancelled
    how = "merged" if merge else "closed"
    assert f"pull request {number} was {how} by `maintainer`" in replies(bench, number, MessageKind.report)[0]


def test_the_bots_own_pull_request_that_is_closed_ends_its_job(bench: Bench, waiting: JobView) -> None:
    bench.hub.set_issue_state(bench.repository, waiting.pull_number or 0, "maintainer", "closed")
    bench.settle()
    assert bench.job().state is JobState.cancelled


def test_a_button_approves_the_checkpoint_that_it_stands_on_and_no_later_one(bench: Bench, waiting: JobView) -> None:
    pressed(bench, "approve/analyze/1", by="visitor")
    assert bench.job().stages[-1].stage is StageName.analyze
    pressed(bench, "approve/analyze/1")
    assert bench.job().stages[-1].stage is StageName.generate
    assert bench.job().state is JobState.waiting
    pressed(bench, "approve/analyze/1", number=0)
    assert bench.job().stages[-1].stage is StageName.generate
    assert bench.job().state is JobState.waiting


def test_a_button_has_the_stage_done_again(bench: Bench, waiting: JobView) -> None:
    pressed(bench, "revise/analyze/1")
    assert (bench.job().stages[-1].stage, bench.job().stages[-1].attempt) == (StageName.analyze, 2)


def test_a_button_cancels(bench: Bench, waiting: JobView) -> None:
    pressed(bench, "cancel", by="visitor")
    assert bench.job().state is JobState.waiting
    pressed(bench, "cancel")
    assert bench.job().state is JobState.cancelled


@pytest.mark.parametrize("how", ["button", "rerun", "retry"])
def test_a_finished_bench_can_be_made_once_more(bench: Bench, how: str) -> None:
    number = pull(bench)
    say(bench, number, "/kernel bench")
    run = bench.hub.check_runs(bench.repository)[-1]
    if how == "retry":
        say(bench, number, "/kernel retry")
    elif how == "button":
        pressed(bench, "again")
    else:
        bench.hub.rerequest_check(bench.repository, run.id, "maintainer")
        bench.settle()
    assert [job.state for job in bench.jobs()] == [JobState.done, JobState.done]
    assert len({job.request.head_sha for job in bench.jobs()}) == 1


def test_a_bench_of_an_older_commit_is_not_made_again_on_a_newer_one(bench: Bench) -> None:
    number = pull(bench)
    say(bench, number, "/kernel bench")
    new = pushed(bench)
    bench.settle()
    for _ in range(2):
        pressed(bench, "again")
    assert len(bench.jobs()) == 1
    (told,) = replies(bench, number, MessageKind.reply)
    assert new[:12] in told


def test_a_button_beyond_a_limit_is_answered(bench: Bench) -> None:
    config = b"limits.jobs_per_day_per_person = 1\n"
    bench.hub.push(bench.repository, "main", "maintainer", {".github/kernelsmith.toml": config})
    number = pull(bench)
    say(bench, number, "/kernel bench")
    pressed(bench, "again")
    assert len(bench.jobs()) == 1
    (told,) = replies(bench, number, MessageKind.reply)
    assert "The limit is reached: 1 of 1 jobs a day for one person" in told


def test_a_button_that_is_none_decides_nothing(bench: Bench, waiting: JobView) -> None:
    run = bench.hub.check_runs(bench.repository)[-1]
    for button in ("", "approve", "approve/", "approve/analyze/01", "revise/x/1", "AGAIN", "cancel2", "\ud800"):
        payload = {
            "action": "requested_action",
            "requested_action": {"identifier": button},
            "check_run": {"external_id": run.external_id, "head_sha": run.head_sha},
            "repository": {"full_name": bench.repository},
            "sender": {"login": "maintainer", "type": "User"},
        }
        handle(bench.parts.desk, "check_run", json.dumps(payload).encode())
        bench.settle()
        assert (bench.job().state, bench.job().checkpoint) == (JobState.waiting, waiting.checkpoint), button


def test_a_checkpoint_that_nobody_answers_is_reminded_of_once_and_then_ends(bench: Bench, waiting: JobView) -> None:
    number = waiting.pull_number or 0
    bench.later(6 * DAY_S)
    reconcile()
    bench.settle()
    assert replies(bench, number, MessageKind.reminder) == []
    for _ in range(2):
        bench.later(2 * DAY_S)
        reconcile()
        bench.settle()
    (told,) = replies(bench, number, MessageKind.reminder)
    assert "analyze has waited for a decision since" in told
    assert f"/kernel approve {(waiting.head_sha or '')[:12]}" in told
    assert bench.job().state is JobState.waiting
    bench.later(21 * DAY_S)
    reconcile()
    bench.settle()
    assert bench.job().state is JobState.cancelled
    assert "nobody decided at the checkpoint of `analyze` in 30 days" in replies(bench, number, MessageKind.report)[-1]


def test_a_checkpoint_that_was_passed_over_for_months_is_reminded_of_before_it_ends(
    bench: Bench, waiting: JobView
) -> None:
    for days, told, state in ((60, 1, JobState.waiting), (22, 1, JobState.waiting), (2, 1, JobState.cancelled)):
        bench.later(days * DAY_S)
        reconcile()
        bench.settle()
        assert len(replies(bench, waiting.pull_number or 0, MessageKind.reminder)) == told
        assert bench.job().state is state


def test_a_reminder_from_a_clock_that_was_put_back_since_delays_no_end(bench: Bench, waiting: JobView) -> None:
    for days, state in ((400, JobState.waiting), (-371, JobState.waiting), (2, JobState.cancelled)):
        bench.later(days * DAY_S)
        reconcile()
        bench.settle()
        assert bench.job().state is state
    assert len(replies(bench, waiting.pull_number or 0, MessageKind.reminder)) == 1


def test_an_approval_after_the_end_is_answered_with_the_way_on(bench: Bench, waiting: JobView) -> None:
    for days in (8, 23):
        bench.later(days * DAY_S)
        reconcile()
        bench.settle()
    bench.hub.review(bench.repository, waiting.pull_number or 0, "maintainer", "APPROVE", commit_id=waiting.head_sha)
    bench.settle()
    (told,) = replies(bench, waiting.pull_number or 0, MessageKind.reply)
    assert "it was cancelled. Nothing was decided. `/kernel retry` resumes it" in told
    assert bench.job().state is JobState.cancelled


def test_a_reminder_that_comes_after_the_decision_is_not_written(bench: Bench, waiting: JobView) -> None:
    bench.later(8 * DAY_S)
    reconcile()
    bench.hub.review(bench.repository, waiting.pull_number or 0, "maintainer", "APPROVE")
    bench.handle()
    bench.settle()
    assert replies(bench, waiting.pull_number or 0, MessageKind.reminder) == []
