"""Questions that share a prefix wait until the provider's cache has it; over real HTTP, each request held against its schema."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from tests.workers.engine.scripted import Scripted, script
from tests.workers.models import anthropic_server as wire
from tests.workers.models.protocol_server import Asked, ProtocolServer, Reply
from tests.workers.store.worlds import World
from workers.contracts import JobState
from workers.engine import at_once
from workers.engine.advance import advance
from workers.engine.protocol import StageContext, StageResult
from workers.models.anthropic_api import AnthropicProvider
from workers.models.ledger import Models
from workers.models.protocol import Answer, Endpoint, Message, Part, Question, Role

PATIENCE_S = 30.0
PROBLEM = Part("The problem.", stable=True)


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with wire.anthropic_server() as serving:
        yield serving


def candidate(angle: str, thinking_tokens: int = 0) -> Question:
    parts = (PROBLEM, Part(angle))
    return Question(
        "generate", (Part("You.", stable=True),), (Message(Role.user, parts),), thinking_tokens=thinking_tokens
    )


class Line:
    """What came in and what went out, in its order: the last part of each question, and pieces of the first answer."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self._changed = threading.Condition()

    def note(self, what: str) -> None:
        with self._changed:
            self.order.append(what)
            self._changed.notify_all()

    def wait_for(self, *names: str) -> None:
        """Wait until these have come in."""
        with self._changed:
            assert self._changed.wait_for(lambda: {*names} <= {*self.order}, PATIENCE_S), self.order

    def __call__(self, reply: Reply) -> Callable[[Asked], Reply]:
        def replied(asked: Asked) -> Reply:
            self.note(asked.body["messages"][-1]["content"][-1]["text"])
            return reply

        return replied

    def answer(self, text: str, *names: str, first: int = 0) -> Reply:
        """An answer of which so many pieces are sent, and the others only once these questions have come in."""

        def pieces() -> Iterator[bytes]:
            for place, piece in enumerate(wire.stream(wire.text_block(text, parts=1))):
                if place == first:
                    self.wait_for(*names)
                self.note(f"piece {place}")
                yield piece

        return Reply(pieces(), pause_s=0.05)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """As good as without an end to how long a question waits for another, on a busy machine too."""
    monkeypatch.setattr(at_once, "MOST_WAIT_S", 2 * PATIENCE_S)
    return Line()


def ask(world: World, server: ProtocolServer, questions: dict[str, Question]) -> dict[str, str]:
    told: dict[str, str] = {}

    def run(context: StageContext) -> StageResult:
        answers = context.ask_all(questions)
        told.update({key: it.text if isinstance(it, Answer) else it.trouble.value for key, it in answers.items()})
        return StageResult()

    job_id = script(world, Scripted(), run)
    endpoint = Endpoint("anthropic", wire.MODEL, server.base_url, SecretStr(wire.KEY))
    world.runtime.models = lambda: Models((AnthropicProvider(endpoint),))
    advance(world.runtime, job_id)
    assert world.job(job_id).state is JobState.waiting
    return told


def test_others_are_sent_after_the_first_event_of_the_first_answer(
    local: World, server: ProtocolServer, line: Line
) -> None:
    server.next(line(line.answer("one", "b", "c", first=1)), line(wire.say("more")), line(wire.say("more")))
    told = ask(local, server, {name: candidate(name) for name in ("a", "b", "c")})
    assert told == {"a": "one", "b": "more", "c": "more"}
    assert line.order[:2] == ["a", "piece 0"]
    assert {*line.order[2:4]} == {"b", "c"}
    first, *others = [asked.body for asked in server.asked]
    assert all(other["messages"][0]["content"][0] == first["messages"][0]["content"][0] for other in others)


def test_one_that_ends_without_an_answer_lets_the_others_go(local: World, server: ProtocolServer, line: Line) -> None:
    server.next(line(wire.error(401, "authentication_error")), line(wire.say("more")), line(wire.say("more")))
    start_s = time.monotonic()
    told = ask(local, server, {name: candidate(name) for name in ("a", "b", "c")})
    assert told == {"a": "unauthorised", "b": "more", "c": "more"}
    assert time.monotonic() - start_s < at_once.MOST_WAIT_S


def test_one_that_is_silent_is_not_waited_for_without_end(
    local: World, server: ProtocolServer, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "MOST_WAIT_S", 0.2)
    server.next(line(line.answer("late", "b")), line(wire.say("more")))
    start_s = time.monotonic()
    assert ask(local, server, {"a": candidate("a"), "b": candidate("b")}) == {"a": "late", "b": "more"}
    assert line.order[:2] == ["a", "b"]
    assert time.monotonic() - start_s >= 0.2


def test_those_that_share_nothing_wait_for_nobody(local: World, server: ProtocolServer, line: Line) -> None:
    # What thinks shares no prefix of the conversation with what does not: the first two come in any order.
    replies = {"a": line(line.answer("slow", "b")), "b": line(wire.say("more")), "c": line(wire.say("more"))}
    server.next(*[lambda asked: replies[asked.body["messages"][-1]["content"][-1]["text"]](asked)] * 3)
    questions = {"a": candidate("a", 4000), "b": candidate("b"), "c": candidate("c", 4000)}
    ask(local, server, questions)
    assert line.order.index("b") < line.order.index("piece 0") < line.order.index("c")
