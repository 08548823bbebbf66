"""A process that is told to end gives back what it holds, wherever it is, and nothing is counted as a try."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select

from tests.workers.engine.fakes import request
from tests.workers.engine.scripted import Scripted, ask_for, ledger, outcomes, script, trouble
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import JobState
from workers.engine import advance
from workers.gpu_host import supervise
from workers.models.protocol import Answer, Question, Trouble, Usage
from workers.store.models import GpuWork, StageAttempt

PLACES = (
    *("stage_claimed", "memo_computed", "memo_kept", "gpu_requested", "stage_ran", "stage_settled"),
    *("gpu_claimed", "gpu_ran", "gpu_answered"),
)


def told_once(place: str) -> Callable[[str], None]:
    """Be told to end at the first arrival at a place."""
    places = iter([place])

    def at_boundary(name: str) -> None:
        if name == place and next(places, None):
            raise SystemExit(0)

    return at_boundary


def assert_nothing_is_held_or_counted(world: World) -> None:
    with world.runtime.database.read() as session:
        for row in session.scalars(select(StageAttempt)):
            assert (row.lease_token, row.tries, row.losses, row.not_before) == (None, 0, 0, 0.0)
        for work in session.scalars(select(GpuWork)):
            assert (work.lease_token, work.losses, work.runner_kills) == (None, 0, 0)
            assert work.tries == (work.state == "done")


def assert_ends_without_a_wait(world: World, job_id: str) -> None:
    assert_nothing_is_held_or_counted(world)
    embedded.drive()
    assert world.job(job_id).state is JobState.waiting
    assert inbox.counts()["gpu_requests"] == {"done": 2}


@pytest.mark.parametrize("place", PLACES)
def test_whoever_follows_goes_on_at_once(world: World, place: str) -> None:
    job_id = inbox.submit(request()).job_id
    world.runtime.at_boundary = told_once(place)
    with pytest.raises(SystemExit):
        embedded.drive()
    assert_ends_without_a_wait(world, job_id)


@pytest.mark.parametrize("module", [advance, supervise])
def test_a_lease_that_was_just_written_is_given_back(
    world: World, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes once the claim is written, before anybody knows of it."""
    claim = module._claim

    def claim_and_end(*arguments: Any) -> None:
        assert claim(*arguments) is not None
        monkeypatch.undo()
        raise SystemExit(0)

    job_id = inbox.submit(request()).job_id
    monkeypatch.setattr(module, "_claim", claim_and_end)
    with pytest.raises(SystemExit):
        embedded.drive()
    assert_ends_without_a_wait(world, job_id)


@pytest.fixture
def reply() -> Iterator[tuple[threading.Event, Callable[[Question, Callable[[], bool]], Answer]]]:
    """A provider that has begun to answer, and goes on until its client goes away."""
    begun = threading.Event()

    def answer(_question: Question, cancelled: Callable[[], bool]) -> Answer:
        begun.set()
        deadline = time.monotonic() + 20
        while not cancelled() and time.monotonic() < deadline:
            time.sleep(0.01)
        raise trouble(Trouble.cancelled, Usage(input_tokens=70, output_tokens=3))

    yield begun, answer


def test_a_question_is_cancelled_and_paid_for_as_far_as_it_came(
    local: World, reply: tuple[threading.Event, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, answer = reply
    job_id = script(local, Scripted([answer]), lambda context: context.ask("a", ask_for("softmax")) and None)

    def waits(*_arguments: Any, **_named: Any) -> Any:
        assert begun.wait(20)
        monkeypatch.undo()
        raise SystemExit(0)

    monkeypatch.setattr("workers.engine.at_once.AtOnce._watch", waits)
    with pytest.raises(SystemExit):
        embedded.drive()
    assert_nothing_is_held_or_counted(local)
    assert outcomes(local) == ["cancelled"]
    assert ledger(local) == [("input_tokens", 70), ("output_tokens", 3)]
    embedded.drive()
    assert local.job(job_id).state is JobState.waiting
    assert outcomes(local) == ["cancelled", "answered"]
