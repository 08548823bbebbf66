from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.workers.engine.fakes import request
from tests.workers.store.worlds import World
from workers import inbox
from workers.contracts import JobState, Origin, StageName, StageState, StatusUpdate


def test_submitted_command_becomes_a_queued_job_with_a_status_update(world: World) -> None:
    submission = inbox.submit(request())
    job = world.job(submission.job_id)
    assert (submission.created, job.state) == (True, JobState.queued)
    assert [(s.stage, s.attempt, s.state) for s in job.stages] == [(StageName.analyze, 1, StageState.pending)]
    assert job.pipeline == (StageName.analyze, StageName.generate, StageName.validate)
    assert job.request == request()
    assert job.branch == f"kernelsmith/reglu-{job.job_id}"
    assert [e.kind for e in job.timeline] == ["submitted"]
    assert [type(u.update) for u in world.publish()] == [StatusUpdate]
    assert world.messages.jobs == [job.job_id]


def test_command_delivered_twice_is_one_job(world: World) -> None:
    first, second = inbox.submit(request()), inbox.submit(request())
    assert (first.job_id, second.created) == (second.job_id, False)
    assert world.messages.jobs == [first.job_id]
    assert len(world.publish()) == 1


def test_command_delivered_to_many_processes_at_once_is_one_job(world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        submissions = list(pool.map(inbox.submit, [request()] * 16))
    assert len({s.job_id for s in submissions}) == 1
    assert [s.created for s in submissions].count(True) == 1
    assert inbox.counts()["jobs"] == {"queued": 1}


def test_jobs_are_found_by_conversation_pull_request_and_activity(world: World) -> None:
    first = inbox.submit(request("comment/1")).job_id
    second = inbox.submit(request("comment/2", origin=Origin("acme/kernels", 8, "mona"))).job_id
    inbox.submit(request("comment/3", origin=Origin("other/kernels", 7, "mona")))
    inbox.cancel(first, "mona")
    assert [j.job_id for j in inbox.find_jobs("acme/kernels")] == [first, second]
    assert [j.job_id for j in inbox.find_jobs("acme/kernels", number=7)] == [first]
    assert [j.job_id for j in inbox.find_jobs("acme/kernels", active=True)] == [second]
    assert [j.job_id for j in inbox.find_jobs("acme/kernels", active=False)] == [first]
    assert inbox.find_jobs("acme/kernels", pull_number=12) == ()


def test_unknown_job_is_none(world: World) -> None:
    assert inbox.get_job("nosuch") is None
    assert inbox.cancel("nosuch", "mona") is False
    assert inbox.retry("nosuch", "mona") is False


def test_queued_jobs_know_their_place(world: World) -> None:
    ids = [inbox.submit(request(f"comment/{n}")).job_id for n in range(3)]
    assert [world.job(job_id).queue_position for job_id in ids] == [1, 2, 3]


def test_text_that_databases_refuse_is_kept_readable(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    inbox.cancel(job_id, "mo\x00na \ud800")
    assert world.job(job_id).timeline[-1].text == "cancelled by mo\ufffdna ?"
    assert world.job(job_id).state is JobState.cancelled
