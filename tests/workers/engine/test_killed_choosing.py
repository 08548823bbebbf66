"""A worker is killed all along a choice among answers: the next one comes to the same, and every request is in the ledger."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.few import few
from tests.workers.engine import choosing_mortals
from tests.workers.engine.asking_mortals import ASKED
from tests.workers.engine.fakes import request
from tests.workers.engine.mortals import Mortals, started
from tests.workers.engine.scripted import ledger, outcomes
from tests.workers.engine.test_enough import SECOND
from tests.workers.engine.test_killed_asking import url_of
from tests.workers.store import worlds
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import JobState
from workers.engine import at_once
from workers.store.models import GpuWork, ModelAnswer, StageAttempt
from workers.upkeep import reconcile

pytestmark = pytest.mark.fault

# A whole run has 22: these are from the first answer to the end of the stage's first run. Three threads reach them, so that a
# number is not the same place in each run.
BOUNDARIES = range(3, 15)


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with started("tests.workers.engine.choosing_mortals") as process:
        yield process


@pytest.fixture
def choosing(tmp_path: Path, database_url: str | None, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(at_once, "LOOK_S", choosing_mortals.LOOK_S)
    world = worlds.build(tmp_path, database_url, choosing_mortals.stages())
    world.runtime.models = lambda: choosing_mortals.MODELS
    yield world
    worlds.runtime.install(None)


def carry_on(world: World) -> None:
    world.clock.advance(3600)
    reconcile(world.runtime)
    embedded.drive()
    reconcile(world.runtime)


def assert_chosen(world: World, job_id: str) -> None:
    assert world.job(job_id).state is JobState.waiting
    with world.runtime.database.read() as session:
        assert session.scalars(select(StageAttempt.output)).one() == {"told": SECOND, "chosen": "candidate-2"}
        kept = {row.key: row.answered for row in session.scalars(select(ModelAnswer))}
        gpu = list(session.scalars(select(GpuWork.key).order_by(GpuWork.id)))
    assert kept == {"candidate-1": False, "candidate-2": True, "candidate-3": False}
    assert gpu == ["verify-candidate-2", "after"]
    ended = outcomes(world)
    asked = (world.runtime.settings.data_dir / ASKED).read_text().splitlines()
    assert None not in ended
    assert set(ended) <= {"answered", "cancelled", "lost"}
    # Whoever was asked has an entry, whatever became of it; each is charged for what it read.
    assert len(asked) <= len(ended)
    assert len([unit for unit, _ in ledger(world) if unit == "input_tokens"]) == len(ended)


@pytest.mark.parametrize("boundary", few(BOUNDARIES, BOUNDARIES[::2]))
def test_choice_after_a_kill_at_a_boundary_is_the_same(
    choosing: World, mortals: Mortals, tmp_path: Path, boundary: int
) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, url_of(choosing), boundary=boundary)
    assert answer["signal"] == signal.SIGKILL
    carry_on(choosing)
    assert_chosen(choosing, job_id)


@pytest.mark.parametrize("statement", range(60, 220, 40))
def test_choice_after_a_kill_inside_a_transaction_is_the_same(
    choosing: World, mortals: Mortals, tmp_path: Path, statement: int
) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, url_of(choosing), statement=statement)
    assert answer["signal"] == signal.SIGKILL
    carry_on(choosing)
    assert_chosen(choosing, job_id)
