"""A worker is killed at every point on the way of a question; what was kept is not asked again, and what was paid is told."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from tests.workers.engine import asking_mortals
from tests.workers.engine.fakes import request
from tests.workers.engine.mortals import Mortals, started
from tests.workers.engine.scripted import USAGE, ask_for, ledger, outcomes
from tests.workers.store import worlds
from tests.workers.store.worlds import World
from workers import embedded, inbox
from workers.contracts import JobState
from workers.models.ledger import most_of
from workers.store.models import ModelAnswer, StageAttempt
from workers.upkeep import reconcile

pytestmark = pytest.mark.fault

BOUNDARIES = ["stage_claimed", *["model_reserved", "model_answered", "model_kept"] * 2, "stage_ran", "stage_settled"]
TOOK = USAGE.input_tokens + USAGE.output_tokens + USAGE.cache_read_tokens + USAGE.cache_written_tokens
MOST = [most_of(ask_for("softmax"), None), most_of(ask_for("repair answer 1"), None)]
# By the boundary: how often each of both was asked in the end, and how the attempts ended.
ENDS = {
    0: ((1, 1), ["answered", "answered"]),
    1: ((1, 1), ["lost", "answered", "answered"]),
    2: ((2, 1), ["lost", "answered", "answered"]),
    3: ((1, 1), ["answered", "answered"]),
    4: ((1, 1), ["answered", "lost", "answered"]),
    5: ((1, 2), ["answered", "lost", "answered"]),
    6: ((1, 1), ["answered", "answered"]),
    7: ((1, 1), ["answered", "answered"]),
    8: ((1, 1), ["answered", "answered"]),
}


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with started("tests.workers.engine.asking_mortals") as process:
        yield process


@pytest.fixture
def asking(tmp_path: Path, database_url: str | None) -> Iterator[World]:
    world = worlds.build(tmp_path, database_url, asking_mortals.stages())
    world.runtime.models = lambda: asking_mortals.MODELS
    yield world
    worlds.runtime.install(None)


def url_of(world: World) -> str | None:
    secret = world.runtime.settings.database_url
    return None if secret is None else secret.get_secret_value()


def asked(world: World) -> tuple[int, int]:
    lines = (world.runtime.settings.data_dir / asking_mortals.ASKED).read_text().split()
    return lines.count("generate"), lines.count("repair")


def carry_on(world: World) -> None:
    world.clock.advance(3600)
    reconcile(world.runtime)
    embedded.drive()
    reconcile(world.runtime)


def assert_done(world: World, job_id: str) -> None:
    job = world.job(job_id)
    assert job.state is JobState.waiting
    assert [artifact.name for artifact in job.artifacts] == [
        "models/analyze-1/first.json",
        "models/analyze-1/second.json",
    ]
    with world.runtime.database.read() as session:
        assert list(session.scalars(select(ModelAnswer.key).order_by(ModelAnswer.id))) == ["first", "second"]
        assert len(session.scalars(select(StageAttempt.output)).one()["answers"]) == 2
    # Every request that was made is in the ledger: with what it took, or with the most where nobody heard its answer.
    lost = outcomes(world).count("lost")
    charged = sum(amount for _, amount in ledger(world))
    least = min(most.input_tokens + most.output_tokens for most in MOST)
    assert 2 * TOOK + lost * least <= charged <= 2 * TOOK + lost * (least + 10)
    assert sum(asked(world)) <= len(outcomes(world))


@pytest.mark.parametrize("boundary", range(len(BOUNDARIES)), ids=lambda n: f"{n}-{BOUNDARIES[n]}")
def test_job_killed_at_a_boundary_pays_twice_only_for_what_was_not_kept(
    asking: World, mortals: Mortals, tmp_path: Path, boundary: int
) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, url_of(asking), boundary=boundary)
    assert answer["signal"] == signal.SIGKILL
    assert answer["seen"] == BOUNDARIES[: boundary + 1]
    carry_on(asking)
    assert (asked(asking), outcomes(asking)) == ENDS[boundary]
    assert_done(asking, job_id)


@pytest.mark.parametrize("statement", range(8, 80, 9))
def test_job_killed_inside_a_transaction_loses_no_answer(
    asking: World, mortals: Mortals, tmp_path: Path, statement: int
) -> None:
    job_id = inbox.submit(request()).job_id
    answer = mortals.work(tmp_path, url_of(asking), statement=statement)
    assert answer["signal"] == signal.SIGKILL
    carry_on(asking)
    assert_done(asking, job_id)
    assert sum(asked(asking)) <= 3
