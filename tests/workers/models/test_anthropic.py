"""Questions to Anthropic and its answers, over real HTTP; the server checks each request against the SDK's types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.workers.models import anthropic_server as wire
from tests.workers.models.kinds import DATA, FORM, question
from tests.workers.models.protocol_server import ProtocolServer, Reply, WrongRequestError
from workers.models.anthropic_api import AnthropicProvider
from workers.models.protocol import Answer, Endpoint, Message, ModelError, Part, Question, Role, Trouble, Usage
from workers.models.settings import Thinking


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with wire.anthropic_server() as serving:
        yield serving


def ask(server: ProtocolServer, asked: Question, thinking: Thinking = Thinking.adaptive) -> Answer:
    endpoint = Endpoint("anthropic", wire.MODEL, server.base_url, SecretStr(wire.KEY))
    return AnthropicProvider(endpoint, thinking).ask(asked, 20.0, lambda: False)


def test_a_form_is_a_tool_that_must_be_called(server: ProtocolServer) -> None:
    server.next(wire.call("propose", DATA, cache_read_input_tokens=900, cache_creation_input_tokens=70))
    answer = ask(server, question(most_tokens=500))
    assert answer == Answer(
        "Here it is.", DATA, Usage(100, 42, 900, 70), "anthropic", wire.MODEL + "-20261101", wire.REQUEST_ID
    )
    body = server.asked[0].body
    assert body["tool_choice"] == {"type": "tool", "name": "propose", "disable_parallel_tool_use": True}
    assert body["tools"] == [{"name": "propose", "description": "Propose a file.", "input_schema": FORM.schema}]
    assert (body["model"], body["max_tokens"], body["stream"]) == (wire.MODEL, 500, True)
    assert "thinking" not in body
    assert server.asked[0].headers["authorization"] == f"Bearer {wire.KEY}"


def test_without_a_form_the_answer_is_text(server: ProtocolServer) -> None:
    server.next(wire.say("a ü text\nof two lines"))
    answer = ask(server, question(None))
    assert (answer.text, answer.data) == ("a ü text\nof two lines", None)
    assert not {"tools", "tool_choice"} & set(server.asked[0].body)


@pytest.mark.parametrize("thinking", [Thinking.adaptive, Thinking.budget])
def test_room_that_is_less_than_a_provider_takes_asks_for_no_thinking(
    server: ProtocolServer, thinking: Thinking
) -> None:
    server.next(wire.call("propose", DATA))
    assert ask(server, question(thinking_tokens=1023, most_tokens=500), thinking).data == DATA
    assert "thinking" not in server.asked[0].body
    assert server.asked[0].body["max_tokens"] == 500


@pytest.mark.parametrize(
    ("thinking", "tokens", "told", "room"),
    [
        (Thinking.adaptive, 4000, {"type": "adaptive"}, 4000),
        (Thinking.budget, 4000, {"type": "enabled", "budget_tokens": 4000}, 4000),
        (Thinking.budget, 1024, {"type": "enabled", "budget_tokens": 1024}, 1024),
        (Thinking.always, 0, None, 0),
        (Thinking.always, 4000, None, 4000),
    ],
)
def test_a_model_that_thinks_is_told_to_call_the_tool_and_not_forced(
    server: ProtocolServer, thinking: Thinking, tokens: int, told: dict[str, object] | None, room: int
) -> None:
    server.next(wire.call("propose", DATA))
    asked = question(thinking_tokens=tokens, most_tokens=500, temperature=0.7)
    assert ask(server, asked, thinking).data == DATA
    body = server.asked[0].body
    assert body.get("thinking") == told
    assert body["max_tokens"] == 500 + room
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "`propose` exactly once" in body["system"][-1]["text"]


@pytest.mark.parametrize(("thinking", "tokens"), [(Thinking.none, 4000), (Thinking.adaptive, 0), (Thinking.budget, 0)])
def test_a_model_that_does_not_think_is_forced(server: ProtocolServer, thinking: Thinking, tokens: int) -> None:
    server.next(wire.call("propose", DATA))
    ask(server, question(thinking_tokens=tokens, most_tokens=500), thinking)
    body = server.asked[0].body
    assert body["tool_choice"]["type"] == "tool"
    assert body["max_tokens"] == 500
    assert "thinking" not in body


def test_a_thinking_model_that_does_not_call_the_tool_gives_no_answer(server: ProtocolServer) -> None:
    server.next(wire.say("I would rather talk."))
    with pytest.raises(ModelError) as told:
        ask(server, question(thinking_tokens=4000))
    assert told.value.trouble is Trouble.malformed


def stable(*texts: str) -> tuple[Part, ...]:
    return tuple(Part(text, stable=True) for text in texts)


def marked(server: ProtocolServer) -> list[str]:
    body = server.asked[0].body
    blocks = [*body.get("system", []), *(it for message in body["messages"] for it in message["content"])]
    return [it["text"] for it in blocks if it.get("cache_control") == {"type": "ephemeral"}]


@pytest.mark.parametrize(
    ("system", "said", "kept"),
    [
        (("s1",), ("m1", "m2"), ["s1", "m1", "m2"]),
        (("s1", "s2"), ("m1", "m2", "m3"), ["s1", "s2", "m2", "m3"]),
        (("s1", "s2", "s3", "s4", "s5"), ("m1",), ["s2", "s3", "s4", "s5"]),
        ((), ("m1", "m2", "m3", "m4", "m5"), ["m2", "m3", "m4", "m5"]),
    ],
)
def test_at_most_four_prefixes_are_cached_the_system_prompt_first(
    server: ProtocolServer, system: tuple[str, ...], said: tuple[str, ...], kept: list[str]
) -> None:
    server.next(wire.say("yes"))
    ask(server, Question("x", stable(*system), (Message(Role.user, (*stable(*said), Part("end"))),)))
    assert marked(server) == kept


def test_blank_parts_are_left_out_and_their_marks_fall_back(server: ProtocolServer) -> None:
    server.next(wire.say("yes"))
    said = (Part("one"), Part(" \n", stable=True), Part("half \ud800 pair"))
    blank = Message(Role.assistant, (Part(""),))
    ask(server, Question("x", (Part(""),), (Message(Role.user, said), blank)))
    assert marked(server) == ["one"]
    body = server.asked[0].body
    assert "system" not in body
    assert [it["text"] for it in body["messages"][0]["content"]] == ["one", "half ? pair"]
    assert len(body["messages"]) == 1


def test_turns_of_one_speaker_become_one(server: ProtocolServer) -> None:
    server.next(wire.say("yes"))
    roles = (Role.user, Role.user, Role.assistant, Role.user)
    ask(server, Question("x", (), tuple(Message(role, (Part(f"{n}"),)) for n, role in enumerate(roles))))
    assert [message["role"] for message in server.asked[0].body["messages"]] == ["user", "assistant", "user"]


def test_an_overload_in_mid_stream_is_one(server: ProtocolServer) -> None:
    fault = wire.event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    server.next(Reply((wire.start(), fault), headers={"request-id": wire.REQUEST_ID}))
    with pytest.raises(ModelError) as told:
        ask(server, question())
    assert told.value.trouble is Trouble.overloaded
    assert told.value.usage == Usage(100, 1)
    assert told.value.request_id == wire.REQUEST_ID


def test_events_and_blocks_of_tomorrow_are_passed_over(server: ProtocolServer) -> None:
    unknown = wire.event("content_block_start", index=9, content_block={"type": "hologram", "light": [1]})
    more = wire.event("content_block_delta", index=9, delta={"type": "light_delta", "light": 2})
    whole = wire.stream(wire.text_block("yes"))
    server.next(Reply((whole[0], unknown, more, wire.event("weather", sun=True), b": a comment\n\n", *whole[1:])))
    assert ask(server, question(None)).text == "yes"


def test_a_window_that_is_full_is_a_question_that_was_too_long(server: ProtocolServer) -> None:
    server.next(Reply(wire.stream(wire.text_block("a bit"), reason="model_context_window_exceeded")))
    with pytest.raises(ModelError) as told:
        ask(server, question(None))
    assert told.value.trouble is Trouble.too_long


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"temperature": 1.0}, "the key temperature is unknown"),
        ({"max_tokens": "many"}, "$.max_tokens: not of type int"),
        ({"thinking": {"type": "enabled", "budget_tokens": 500}}, "less than max_tokens"),
        ({"thinking": {"type": "adaptive"}}, "Thinking may not be enabled when tool_choice forces tool use."),
        ({"tool_choice": {"type": "tool", "name": "other"}}, "Tool 'other' not found"),
        ({"messages": [{"role": "assistant", "content": "I"}]}, "the last turn must be the user's"),
        ({"messages": [{"role": "user", "content": " "}]}, "non-whitespace"),
        ({"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}] * 5}, "A maximum of 4"),
        ({"system": [{"type": "text", "text": "s", "cachecontrol": 1}]}, "the key cachecontrol is unknown"),
        ({"stream": False}, "$.stream"),
    ],
)
def test_the_server_refuses_what_the_api_refuses(server: ProtocolServer, change: dict[str, object], fault: str) -> None:
    server.next(wire.call("propose", DATA))
    ask(server, question(most_tokens=400))
    good = server.asked[0]
    good.body |= change
    with pytest.raises(WrongRequestError) as told:
        wire.check(good)
    assert fault in str(told.value)


def prefix(
    thinking: Thinking = Thinking.adaptive, said: str = "the angle", start: str = "the problem", **fields: Any
) -> str | None:
    endpoint = Endpoint("anthropic", wire.MODEL, "http://127.0.0.1:9", SecretStr(wire.KEY))
    asked = Question("x", stable("system"), (Message(Role.user, (*stable(start), Part(said))),), FORM, **fields)
    return AnthropicProvider(endpoint, thinking).prefix(asked)


def test_questions_share_a_prefix_that_are_the_same_up_to_the_last_mark() -> None:
    assert prefix() == prefix(said="another angle", most_tokens=7)
    assert prefix() != prefix(start="another problem")


def test_thinking_is_part_of_the_prefix_where_it_is_part_of_the_request() -> None:
    assert prefix(thinking_tokens=4000) != prefix()
    assert prefix(Thinking.none, thinking_tokens=4000) == prefix(Thinking.none)
    assert prefix(Thinking.budget, thinking_tokens=4000) != prefix(Thinking.budget, thinking_tokens=5000)


def test_what_is_not_marked_has_no_prefix() -> None:
    endpoint = Endpoint("anthropic", wire.MODEL, "http://127.0.0.1:9", SecretStr(wire.KEY))
    provider = AnthropicProvider(endpoint)
    assert provider.prefix(Question("x", (), (Message(Role.user, (Part("said"),)),))) is None
    assert provider.prefix(Question("x", (), (Message(Role.user, ()),))) is None
    assert provider.prefix(Question("x", stable("system"), (Message(Role.user, (Part("said"),)),))) is not None
