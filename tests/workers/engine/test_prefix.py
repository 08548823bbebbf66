"""Questions that share a prefix wait until the provider's cache has it; over real HTTP, each request held against its schema."""

from __future__ import annotations

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


def late(text: str, pause_s: float) -> Reply:
    """An answer that comes whole after a pause."""
    return Reply((b"".join(wire.stream(wire.text_block(text, parts=1))),), pause_s=pause_s)


class Line:
    """Notes when each question came in, by its last part."""

    def __init__(self) -> None:
        self.came: dict[str, float] = {}

    def __call__(self, reply: Reply) -> Callable[[Asked], Reply]:
        def replied(asked: Asked) -> Reply:
            self.came[asked.body["messages"][-1]["content"][-1]["text"]] = time.monotonic()
            return reply

        return replied

    def after(self, first: str, then: str) -> float:
        return self.came[then] - self.came[first]


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


def test_others_are_sent_after_the_first_event_of_the_first_answer(local: World, server: ProtocolServer) -> None:
    line = Line()
    slow = Reply(wire.stream(wire.text_block("one", parts=1)), pause_s=0.4)
    server.next(line(slow), line(wire.say("more")), line(wire.say("more")))
    told = ask(local, server, {name: candidate(name) for name in ("a", "b", "c")})
    assert told == {"a": "one", "b": "more", "c": "more"}
    # The first event comes after a pause, and the whole answer takes seven.
    for name in ("b", "c"):
        assert 0.4 <= line.after("a", name) < 2.4
    first, *others = [asked.body for asked in server.asked]
    assert all(other["messages"][0]["content"][0] == first["messages"][0]["content"][0] for other in others)


def test_one_that_ends_without_an_answer_lets_the_others_go(local: World, server: ProtocolServer) -> None:
    line = Line()
    server.next(line(wire.error(401, "authentication_error")), line(wire.say("more")), line(wire.say("more")))
    told = ask(local, server, {name: candidate(name) for name in ("a", "b", "c")})
    assert told == {"a": "unauthorised", "b": "more", "c": "more"}
    assert line.after("a", "b") < at_once.MOST_WAIT_S / 2


def test_one_that_is_silent_is_not_waited_for_without_end(
    local: World, server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_once, "MOST_WAIT_S", 0.5)
    line = Line()
    server.next(line(late("late", 1.0)), line(wire.say("more")))
    assert ask(local, server, {"a": candidate("a"), "b": candidate("b")}) == {"a": "late", "b": "more"}
    # It is counted from when both began, and the first takes a moment to reach the server.
    assert 0.2 <= line.after("a", "b") < 1.0


def test_those_that_share_nothing_wait_for_nobody(local: World, server: ProtocolServer) -> None:
    line = Line()
    slow = late("slow", 0.8)
    server.next(line(slow), line(slow), line(slow))
    questions = {"a": candidate("a", 4000), "b": candidate("b"), "c": candidate("c", 4000)}
    ask(local, server, questions)
    # What thinks shares no prefix of the conversation with what does not.
    assert abs(line.after("a", "b")) < 0.7
    assert line.after("a", "c") >= 0.8
