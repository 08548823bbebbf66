"""A provider that says what a test wrote for it, and the stage that asks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from tests.workers.engine.fakes import fake_stages, request
from tests.workers.store.worlds import World
from workers import inbox
from workers.contracts import StageName
from workers.engine.protocol import StageContext, StageResult
from workers.models.ledger import Models
from workers.models.protocol import Answer, Message, ModelError, Part, Question, Role, Trouble, Usage
from workers.store.models import LedgerEntry, ModelRequest

USAGE = Usage(input_tokens=1000, output_tokens=200, cache_read_tokens=50, cache_written_tokens=10)
Reply = str | ModelError | Callable[[Question, Callable[[], bool]], Answer]


def ask_for(text: str, purpose: str = "generate", **changes: Any) -> Question:
    system = (Part("You write kernels.", stable=True),)
    return Question(purpose, system, (Message(Role.user, (Part(text),)),), **{"most_tokens": 1000} | changes)


def trouble(kind: Trouble, usage: Usage = USAGE) -> ModelError:
    return ModelError(kind, f"the provider said {kind.value}", provider="scripted", usage=usage, request_id="req_1")


@dataclass
class Scripted:
    """Gives its replies in order, then ``echo`` for ever; ``asked`` are the questions it has seen."""

    replies: list[Reply] = field(default_factory=list)
    name: str = "scripted"
    model: str = "model-1"
    usage: Usage = USAGE
    asked: list[Question] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        with self._guard:
            self.asked.append(question)
            number = len(self.asked)
            reply = self.replies.pop(0) if self.replies else f"answer {number}"
        if isinstance(reply, ModelError):
            raise reply
        return self.answer(reply) if isinstance(reply, str) else reply(question, cancelled)

    def answer(self, text: str, data: dict[str, Any] | None = None) -> Answer:
        return Answer(text, data, self.usage, self.name, self.model, "req_1")


class StageOf:
    """An analyze stage that does what a test says."""

    name = StageName.analyze

    def __init__(self, run: Callable[[StageContext], StageResult]) -> None:
        self._run = run

    def run(self, context: StageContext) -> StageResult:
        return self._run(context)


def script(
    world: World, provider: Scripted, run: Callable[[StageContext], StageResult | None], key: str = "comment/1"
) -> str:
    stages = {**fake_stages(), StageName.analyze: StageOf(lambda context: run(context) or StageResult())}
    world.runtime.stages = lambda: stages
    world.runtime.models = lambda: Models((provider,))
    return inbox.submit(request(key)).job_id


def set_to(world: World, **settings: Any) -> None:
    world.runtime.settings = world.runtime.settings.model_copy(update=settings)


def ledger(world: World) -> list[tuple[str, int]]:
    """Give units and amounts, in the order in which they were written."""
    with world.runtime.database.read() as session:
        rows = session.scalars(select(LedgerEntry).where(LedgerEntry.unit != "gpu_seconds").order_by(LedgerEntry.id))
        return [(row.unit, int(row.amount)) for row in rows]


def outcomes(world: World) -> list[str | None]:
    """Give how each attempt of a request ended, None for those that have not."""
    with world.runtime.database.read() as session:
        return list(session.scalars(select(ModelRequest.outcome).order_by(ModelRequest.id)))
