from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.workers.engine.fakes import request
from tests.workers.store.fixtures import sqlite_first
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import (
    CommitUpdate,
    Decision,
    DecisionOutcome,
    JobState,
    LineComment,
    ReportUpdate,
    StageName,
    StageState,
    StatusUpdate,
)
from workers.store import reviews

__all__ = ["sqlite_first"]

DAY_S = 86_400.0


@pytest.fixture
def job_id(world: World) -> str:
    """A job whose first checkpoint waits."""
    submitted = inbox.submit(request()).job_id
    embedded.drive()
    world.publish()
    return submitted


def sha_of(world: World, job_id: str) -> str:
    checkpoint = world.job(job_id).checkpoint
    assert checkpoint is not None
    assert checkpoint.sha is not None
    return checkpoint.sha


def test_approval_starts_the_next_stage(world: World, job_id: str) -> None:
    result = world.decide(job_id)
    assert (result.outcome, result.stage) == (DecisionOutcome.accepted, StageName.analyze)
    job = world.job(job_id)
    assert job.state is JobState.queued
    assert [(s.stage, s.state) for s in job.stages] == [
        (StageName.analyze, StageState.done),
        (StageName.generate, StageState.pending),
    ]
    assert job.checkpoint is not None
    assert (job.checkpoint.decision, job.checkpoint.decided_by) == (Decision.approve, "mona")


def test_request_for_changes_repeats_the_stage_with_all_feedback(world: World, job_id: str) -> None:
    lines = (LineComment("analyze.py", 3, "why int64?"),)
    sha = sha_of(world, job_id)
    inbox.decide(job_id, StageName.analyze, sha, Decision.revise, "use rows", lines, "mona", "review/a")
    embedded.drive()
    world.publish()
    world.decide(job_id, Decision.revise, text="and int32")
    job = world.job(job_id)
    assert [(s.attempt, s.state) for s in job.stages] == [
        (1, StageState.revised),
        (2, StageState.revised),
        (3, StageState.pending),
    ]
    seen: list[object] = []
    stage = world.runtime.stages()[StageName.analyze]
    original = stage.run

    def spy(context: object) -> object:
        seen.extend((f.text, f.path, f.line) for f in context.feedback)  # type: ignore[attr-defined]
        return original(context)  # type: ignore[arg-type]

    stage.run = spy  # type: ignore[method-assign,assignment]
    embedded.step()
    assert seen == [("use rows", None, None), ("why int64?", "analyze.py", 3), ("and int32", None, None)]


@pytest.mark.parametrize("named", [lambda sha: sha[:7], lambda sha: sha.upper() + " "], ids=["prefix", "upper case"])
def test_decision_counts_only_for_the_commit_of_the_checkpoint(world: World, job_id: str, named) -> None:  # type: ignore[no-untyped-def]
    sha = sha_of(world, job_id)
    for number, other in enumerate((sha[:6], sha[:-1] + "f", sha + "0", "")):
        result = inbox.decide(job_id, None, other, Decision.approve, "", (), "mona", f"review/{number}")
        assert (result.outcome, result.sha) == (DecisionOutcome.stale, sha), other
    result = inbox.decide(job_id, None, named(sha), Decision.approve, "", (), "mona", "review/9")
    assert (result.outcome, result.sha) == (DecisionOutcome.accepted, sha)


def test_decision_for_another_stage_is_stale(world: World, job_id: str) -> None:
    sha = sha_of(world, job_id)
    result = inbox.decide(job_id, StageName.generate, sha, Decision.approve, "", (), "mona", "review/1")
    assert result.outcome is DecisionOutcome.stale


def test_decision_before_the_commit_is_published_is_stale(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.drive()
    result = world.decide(job_id, sha="a" * 40)
    assert (result.outcome, result.sha) == (DecisionOutcome.stale, None)


def test_review_delivered_twice_decides_once(world: World, job_id: str) -> None:
    sha = sha_of(world, job_id)
    first = inbox.decide(job_id, None, sha, Decision.approve, "", (), "mona", "review/9")
    second = inbox.decide(job_id, None, sha, Decision.approve, "", (), "mona", "review/9")
    assert (first.outcome, second.outcome) == (DecisionOutcome.accepted, DecisionOutcome.duplicate)
    assert (second.stage, second.sha) == (StageName.analyze, sha)
    assert len(world.job(job_id).stages) == 2


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_two_people_deciding_at_once_decide_once(world: World, job_id: str) -> None:
    sha = sha_of(world, job_id)

    def approve(number: int) -> DecisionOutcome:
        return inbox.decide(job_id, None, sha, Decision.approve, "", (), "mona", f"review/{number}").outcome

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(approve, range(8)))
    assert sorted(set(outcomes)) == [DecisionOutcome.accepted, DecisionOutcome.nothing_waits]
    assert outcomes.count(DecisionOutcome.accepted) == 1
    assert len(world.job(job_id).stages) == 2


def test_nothing_waits_while_a_stage_runs_or_for_no_job(world: World, job_id: str) -> None:
    world.decide(job_id)
    assert world.decide(job_id, sha=sha_of(world, job_id)).outcome is DecisionOutcome.nothing_waits
    nobody = inbox.decide("nosuch", None, "a" * 40, Decision.approve, "", (), "mona", "review/x")
    assert nobody.outcome is DecisionOutcome.nothing_waits


def test_a_stage_has_five_attempts_and_the_fifth_can_still_be_approved(world: World, job_id: str) -> None:
    for _ in range(4):
        assert world.decide(job_id, Decision.revise, text="again").outcome is DecisionOutcome.accepted
        embedded.drive()
        world.publish()
    assert world.decide(job_id, Decision.revise, text="again").outcome is DecisionOutcome.attempts_used
    assert len(world.job(job_id).stages) == 5
    assert world.job(job_id).state is JobState.waiting
    assert world.decide(job_id).outcome is DecisionOutcome.accepted


def test_job_is_done_when_its_last_checkpoint_is_approved(world: World, job_id: str) -> None:
    for _ in range(2):
        world.decide(job_id)
        embedded.drive()
        world.publish()
    world.decide(job_id)
    job = world.job(job_id)
    assert job.state is JobState.done
    assert {s.state for s in job.stages} == {StageState.done}
    assert [type(u.update) for u in world.publish()] == [StatusUpdate]
    assert embedded.drive() == 0


def test_cancelling_ends_everything_and_withdraws_what_was_not_begun(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.step()
    assert inbox.counts()["gpu_requests"] == {"pending": 1}
    assert inbox.cancel(job_id, "mona") is True
    assert inbox.cancel(job_id, "mona") is False
    job = world.job(job_id)
    assert (job.state, job.stages[0].state) == (JobState.cancelled, StageState.cancelled)
    assert inbox.counts()["gpu_requests"] == {"cancelled": 1}
    published = [u.update for u in world.publish()]
    assert not any(isinstance(u, CommitUpdate) for u in published)
    assert ReportUpdate(cancelled_by="mona") in published
    assert embedded.drive() == 0


def test_job_that_runs_is_not_retried(world: World, job_id: str) -> None:
    assert inbox.retry(job_id, "mona") is False


def test_cancelled_job_goes_on_from_the_stage_in_which_it_was_cancelled(world: World, job_id: str) -> None:
    inbox.cancel(job_id, "mona")
    assert inbox.retry(job_id, "mona") is True
    job = world.job(job_id)
    assert (job.state, [(s.stage, s.attempt) for s in job.stages]) == (
        JobState.queued,
        [(job.pipeline[0], 1), (job.pipeline[0], 2)],
    )


def test_retry_needs_a_snapshot_and_its_commit_together(world: World, job_id: str) -> None:
    with pytest.raises(ValueError, match="together"):
        inbox.retry(job_id, "mona", snapshot="1" * 64)


@pytest.mark.parametrize(
    ("reminder", "expiry", "told"),
    [
        (7, 30, {7: "reminded", 30: "expired"}),
        (0, 30, {30: "expired"}),
        (30, 7, {7: "expired"}),
        (7, 7, {7: "expired"}),
        (7, 0, {7: "reminded"}),
        (0, 0, {}),
        (0.5, 1, {1: "reminded", 2: "expired"}),
    ],
)
def test_a_checkpoint_is_reminded_of_and_ends_as_it_is_set(
    local: World, reminder: float, expiry: float, told: dict[int, str]
) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    seen = {}
    for day in range(1, 70):
        local.clock.advance(DAY_S)
        with local.runtime.database.write() as session:
            reminded, expired = reviews.attend(session, reviews.Patience(reminder, expiry), local.clock.now)
        seen |= dict.fromkeys([day] * len(reminded), "reminded") | dict.fromkeys([day] * len(expired), "expired")
    assert seen == told
