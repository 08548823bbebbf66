from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.workers.engine.fakes import request
from tests.workers.store.worlds import World
from workers import embedded, inbox, outbox
from workers.contracts import (
    CheckpointUpdate,
    ClaimedUpdate,
    CommitUpdate,
    Effect,
    Failure,
    FailureCode,
    JobState,
    ReportUpdate,
    StageName,
    StageState,
    StatusUpdate,
)

FAILURE = Failure(FailureCode.moved, "somebody pushed to the branch", "Retry the job.")


def at_first_checkpoint(key: str = "comment/1") -> str:
    job_id = inbox.submit(request(key)).job_id
    embedded.drive()
    return job_id


def claimed(worker: str = "p", lease_s: float = 30) -> ClaimedUpdate:
    update = outbox.claim(worker, lease_s)
    assert update is not None
    return update


def kinds(updates: list[ClaimedUpdate]) -> list[type]:
    return [type(u.update) for u in updates]


def test_updates_of_a_job_are_published_in_order(world: World) -> None:
    at_first_checkpoint()
    published = world.publish()
    assert kinds(published) == [StatusUpdate, CommitUpdate, StatusUpdate, CommitUpdate, CheckpointUpdate, StatusUpdate]
    assert [u.sequence for u in published] == [1, 2, 3, 4, 5, 6]


def test_next_update_of_a_job_waits_for_the_last_and_other_jobs_do_not(world: World) -> None:
    first, second = at_first_checkpoint("comment/1"), at_first_checkpoint("comment/2")
    one, two = claimed("p1"), claimed("p2")
    assert (one.job.job_id, two.job.job_id) == (first, second)
    assert outbox.claim("p3", 30) is None
    outbox.complete(two.update_id, "p2", Effect(comment_id=5))
    third = claimed("p3")
    assert (third.job.job_id, third.sequence, third.effects) == (second, 2, (Effect(comment_id=5),))


def test_update_goes_to_one_of_many_publishers(world: World) -> None:
    for number in range(5):
        inbox.submit(request(f"comment/{number}"))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: outbox.claim(f"p{n}", 30), range(12)))
    ids = [u.update_id for u in found if u]
    assert len(ids) == len(set(ids)) == 5


def test_publisher_that_lost_its_lease_cannot_complete(world: World) -> None:
    inbox.submit(request())
    lost = claimed("lost")
    world.clock.advance(31)
    again = claimed("p")
    assert (again.update_id, again.tries) == (lost.update_id, 2)
    assert outbox.complete(lost.update_id, "lost", Effect(comment_id=1)) is False
    assert outbox.postpone(lost.update_id, "lost", "late", 5, refused=False) is False
    assert outbox.give_up(lost.update_id, "lost", FAILURE) is False
    assert outbox.complete(again.update_id, "p", Effect(comment_id=2)) is True
    assert outbox.complete(again.update_id, "p", Effect(comment_id=2)) is False


def test_postponed_update_comes_back_after_its_pause(world: World) -> None:
    at_first_checkpoint()
    update = claimed()
    assert outbox.postpone(update.update_id, "p", "GitHub answered 502", 20, refused=False)
    assert outbox.claim("p", 30) is None
    world.clock.advance(21)
    again = claimed()
    assert (again.update_id, again.tries) == (update.update_id, 2)


def test_commit_becomes_the_head_and_the_checkpoint_names_it(world: World) -> None:
    job_id = at_first_checkpoint()
    world.publish(2)
    first = world.job(job_id)
    assert first.head_sha is not None
    assert first.checkpoint is not None
    assert first.checkpoint.sha is None
    world.publish()
    last = world.job(job_id)
    assert last.head_sha != first.head_sha
    assert last.checkpoint is not None
    assert last.checkpoint.sha == last.head_sha


def test_pull_request_number_is_kept(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    update = claimed()
    outbox.complete(update.update_id, "p", Effect(pull_number=12))
    assert world.job(job_id).pull_number == 12
    assert [j.job_id for j in inbox.find_jobs("acme/kernels", pull_number=12)] == [job_id]


def test_status_updates_that_nobody_has_begun_are_one(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.step()
    inbox.cancel(job_id, "mona")
    assert kinds(world.publish()) == [ReportUpdate, StatusUpdate]


def test_status_update_that_is_being_published_is_followed_by_another(world: World) -> None:
    inbox.submit(request())
    update = claimed()
    embedded.step()
    outbox.complete(update.update_id, "p", Effect())
    assert kinds(world.publish()) == [StatusUpdate, CommitUpdate, StatusUpdate]


def test_update_that_cannot_be_published_fails_the_job_with_a_report(world: World) -> None:
    job_id = at_first_checkpoint()
    world.publish(1)
    update = claimed()
    assert isinstance(update.update, CommitUpdate)
    assert outbox.give_up(update.update_id, "p", FAILURE)
    job = world.job(job_id)
    assert (job.state, job.failure) == (JobState.failed, FAILURE)
    assert [(s.stage, s.state) for s in job.stages] == [(StageName.analyze, StageState.failed)]
    published = world.publish()
    assert kinds(published) == [ReportUpdate, StatusUpdate]
    assert published[0].update == ReportUpdate(failure=FAILURE)


def test_report_that_cannot_be_published_is_not_reported(world: World) -> None:
    job_id = at_first_checkpoint()
    world.publish()
    inbox.cancel(job_id, "mona")
    report = claimed()
    assert isinstance(report.update, ReportUpdate)
    outbox.give_up(report.update_id, "p", FAILURE)
    assert kinds(world.publish()) == [StatusUpdate]
    assert world.job(job_id).state is JobState.cancelled


def test_retry_after_a_commit_that_failed_repeats_that_stage(world: World) -> None:
    job_id = at_first_checkpoint()
    world.publish(1)
    outbox.give_up(claimed().update_id, "p", FAILURE)
    assert inbox.retry(job_id, "mona")
    embedded.drive()
    assert [(s.attempt, s.state) for s in world.job(job_id).stages] == [(1, StageState.failed), (2, StageState.waiting)]
    commits = [u.update for u in world.publish() if isinstance(u.update, CommitUpdate)]
    assert [c.attempt for c in commits] == [2, 2]


def test_updates_put_back_or_leased_by_a_clock_that_was_a_day_ahead_wait_no_day(world: World) -> None:
    first, second = at_first_checkpoint("comment/1"), at_first_checkpoint("comment/2")
    world.clock.advance(86_400)
    one, two = claimed("p", lease_s=3600), claimed("lost", lease_s=3600)
    assert (one.job.job_id, two.job.job_id) == (first, second)
    assert outbox.postpone(one.update_id, "p", "GitHub answered 502", 3600, refused=False)
    assert outbox.claim("p", 60) is None
    world.clock.advance(-86_400)
    assert {claimed("p", 60).job.job_id, claimed("p", 60).job.job_id} == {first, second}
    assert outbox.claim("p", 60) is None
