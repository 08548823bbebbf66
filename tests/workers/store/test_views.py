from __future__ import annotations

from tests.workers.engine.fakes import request
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import Decision, StageState
from workers.engine.advance import advance
from workers.gpu_host.supervise import serve


def test_wait_is_expected_from_what_recent_requests_took(world: World) -> None:
    first = inbox.submit(request("comment/1")).job_id
    advance(world.runtime, first)
    runner = world.runtime.at_boundary
    world.runtime.at_boundary = lambda name: world.clock.advance(40) if name == "gpu_ran" else None
    serve(world.runtime, world.messages.gpu_requests[0][0])
    world.runtime.at_boundary = runner
    second, third = (inbox.submit(request(f"comment/{n}")).job_id for n in (2, 3))
    for job_id in (second, third):
        advance(world.runtime, job_id)
    views = [world.job(job_id) for job_id in (second, third)]
    assert [(v.queue_position, v.expected_wait_s) for v in views] == [(1, 0.0), (2, 40.0)]


def test_wait_is_unknown_before_anything_was_measured(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.step()
    assert (world.job(job_id).queue_position, world.job(job_id).expected_wait_s) == (1, None)


def test_stage_shows_when_it_began_and_ended(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    embedded.step()
    (stage,) = world.job(job_id).stages
    assert (stage.state, stage.started_at, stage.ended_at) == (
        StageState.running,
        "2027-01-15T08:00:00.000+00:00",
        None,
    )
    world.clock.advance(90)
    embedded.drive()
    (stage,) = world.job(job_id).stages
    assert (stage.state, stage.ended_at) == (StageState.waiting, "2027-01-15T08:01:30.000+00:00")


def test_decided_checkpoint_stays_visible_until_the_next_waits(world: World) -> None:
    job_id = inbox.submit(request()).job_id
    assert world.job(job_id).checkpoint is None
    embedded.drive()
    world.publish()
    world.decide(job_id)
    decided = world.job(job_id).checkpoint
    assert decided is not None
    assert (decided.decision, decided.decided_by) == (Decision.approve, "mona")
    embedded.drive()
    waits = world.job(job_id).checkpoint
    assert waits is not None
    assert (waits.stage, waits.decision) == ("generate", None)
