"""Questions to OpenAI-compatible servers and their answers, over real HTTP, checked against the SDK's types."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from tests.workers.models import openai_server as wire
from tests.workers.models.kinds import DATA, FORM, question
from tests.workers.models.protocol_server import ProtocolServer, Reply, WrongRequestError
from workers.models.ledger import most_of
from workers.models.openai_api import ExtraMissingError, OpenAIProvider
from workers.models.protocol import Answer, Endpoint, Message, ModelError, Part, Question, Role, Trouble, Usage
from workers.models.settings import Effort


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with wire.openai_server() as serving:
        yield serving


def ask(server: ProtocolServer, asked: Question, key: str | None = wire.KEY, **options: Any) -> Answer:
    endpoint = Endpoint("openai", wire.MODEL, server.base_url, SecretStr(key) if key else None)
    return OpenAIProvider(endpoint, **options).ask(asked, 20.0, lambda: False)


def test_a_form_is_a_function_that_must_be_called(server: ProtocolServer) -> None:
    server.next(wire.call("propose", DATA))
    answer = ask(server, question(most_tokens=500, temperature=0.7))
    assert answer == Answer("", DATA, Usage(100, 42, 50), "openai", wire.MODEL + "-2026", wire.REQUEST_ID)
    body = server.asked[0].body
    assert body["tool_choice"] == {"type": "function", "function": {"name": "propose"}}
    assert body["tools"][0]["function"]["parameters"] == FORM.schema
    assert (body["max_completion_tokens"], body["temperature"], body["stream"]) == (500, 0.7, True)
    assert body["stream_options"] == {"include_usage": True}
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert server.asked[0].headers["authorization"] == f"Bearer {wire.KEY}"


def test_without_a_form_the_answer_is_text(server: ProtocolServer) -> None:
    server.next(wire.say("a ü text"))
    answer = ask(server, question(None))
    assert (answer.text, answer.data) == ("a ü text", None)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(server.asked[0].body)


def test_a_server_of_ones_own_needs_no_key_and_may_count_nothing(server: ProtocolServer) -> None:
    server.next(wire.call("propose", DATA, usage=None))
    answer = ask(server, question(), key=None)
    assert answer.data == DATA
    said = -(-len("propose" + json.dumps(DATA)) // 3)
    assert answer.usage == Usage(most_of(question(), None).input_tokens, said), "what nobody counts is not for nothing"
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize("end", [(), (b"data: [DONE]\n\n",)])
def test_a_call_that_is_closed_is_an_answer_though_the_server_gives_no_reason_for_its_end(
    server: ProtocolServer, end: tuple[bytes, ...]
) -> None:
    server.next(Reply((*wire.call_chunks("propose", json.dumps(DATA)), *end)))
    assert ask(server, question()).data == DATA


def test_an_empty_reason_is_no_end(server: ProtocolServer) -> None:
    server.next(Reply((wire.chunk({"content": "half"}, ""), b"data: [DONE]\n\n")))
    with pytest.raises(ModelError, match="broke off"):
        ask(server, question(None))


@pytest.mark.parametrize("left_out", [1, 20])
def test_a_call_that_breaks_off_is_none(server: ProtocolServer, left_out: int) -> None:
    server.next(Reply((*wire.call_chunks("propose", json.dumps(DATA)[:-left_out]), b"data: [DONE]\n\n")))
    with pytest.raises(ModelError, match="broke off"):
        ask(server, question())


AZURE: dict[str, Any] = {"key_header": "api-key", "query": {"api-version": "2024-10-21"}}


def test_a_deployment_of_azure_is_asked_with_its_header_and_its_version(server: ProtocolServer) -> None:
    server.base_url = server.base_url.removesuffix("/v1") + wire.DEPLOYMENT
    server.next(wire.call("propose", DATA))
    assert ask(server, question(), **AZURE).data == DATA
    assert server.asked[0].path == f"{wire.DEPLOYMENT}/chat/completions?api-version=2024-10-21"


def test_a_deployment_refuses_another_header_and_an_address_without_a_version(server: ProtocolServer) -> None:
    server.base_url = server.base_url.removesuffix("/v1") + wire.DEPLOYMENT
    server.next(wire.call("propose", DATA))
    ask(server, question(), **AZURE)
    good = server.asked[0]
    bearer = {**good.headers, "authorization": f"Bearer {good.headers['api-key']}"}
    for bad in (replace(good, headers=bearer), replace(good, path=good.path.partition("?")[0])):
        with pytest.raises(WrongRequestError):
            wire.check(bad)


@pytest.mark.parametrize("options", [{"with_temperature": False}, {"effort": Effort.high}])
def test_a_temperature_is_left_out_where_it_is_not_taken(server: ProtocolServer, options: dict[str, Any]) -> None:
    server.next(wire.call("propose", DATA))
    ask(server, question(temperature=0.7, thinking_tokens=3000, most_tokens=100), **options)
    assert "temperature" not in server.asked[0].body
    assert server.asked[0].body["max_completion_tokens"] == 3100
    assert server.asked[0].body.get("reasoning_effort") == ("high" if "effort" in options else None)


SPELLED = json.dumps(DATA)
IN_LINES = SPELLED.replace("\\n", "\n")  # no JSON by the letter


def piece(function: dict[str, Any], **fields: Any) -> bytes:
    return wire.chunk({"tool_calls": [{"type": "function", "function": function} | fields]})


@pytest.mark.parametrize(
    "block",
    [
        [piece({"name": "propose", "arguments": SPELLED}, id="call_1")],
        [piece({"name": "propose", "arguments": SPELLED[:9]}, id="a"), piece({"arguments": SPELLED[9:]})],
        [
            piece({"name": "propose", "arguments": SPELLED[:9]}, id="a"),
            piece({"name": "propose", "arguments": SPELLED[9:]}, id="a"),
        ],
        [piece({"name": "propose", "arguments": DATA}, index=0)],
        [piece({"name": "propose", "arguments": DATA})],
        wire.text_chunks(SPELLED),
        wire.text_chunks(f"```json\n{SPELLED}\n```"),
        wire.text_chunks(f"<think>Is {{}} right?</think>Here it is:\n{SPELLED}\nDone."),
        wire.text_chunks(f'<tool_call>{{"name": "propose", "arguments": {SPELLED}}}</tool_call>'),
        wire.text_chunks(json.dumps({"name": "propose", "parameters": SPELLED})),
        wire.text_chunks(f"With {{BLOCK}} and {{}} in mind:\n{SPELLED}\nThat is {{it}}."),
        [wire.chunk({"function_call": {"name": "propose", "arguments": SPELLED}})],
        [
            wire.chunk({"function_call": {"name": "propose", "arguments": ""}}),
            *(wire.chunk({"function_call": {"arguments": text}}) for text in (SPELLED[:9], SPELLED[9:])),
        ],
        [wire.chunk({"function_call": {"name": "propose", "arguments": DATA}})],
        [piece({"name": "propose", "arguments": SPELLED}, id="call_0", index="0")],
        [piece({"name": "pro"}, id="a", index=0), piece({"name": "pose", "arguments": SPELLED}, index=0)],
        [piece({"name": "propose", "arguments": text}) for text in (SPELLED[:9], SPELLED[9:])],
        [piece({"name": "propose", "arguments": SPELLED}, id="call_0")] * 2,
        [wire.chunk({"content": [{"type": "text", "text": SPELLED}]})],
        wire.text_chunks(f'<thinking>{{"path": "a", "text": "b"}}</thinking>{SPELLED}'),
        wire.text_chunks(
            f'<|channel|>analysis<|message|>{{"path": "a", "text": "b"}}<|channel|>final<|message|>{SPELLED}'
        ),
        *([piece({"name": name, "arguments": SPELLED}, index=0)] for name in ("functions.propose:0", "propose<|x|>y")),
        [piece({"name": "propose", "arguments": {"arguments": DATA}}, index=0)],
        [piece({"name": "propose", "arguments": {"name": "propose", "parameters": SPELLED}}, index=0)],
        [piece({"name": "propose", "arguments": IN_LINES}, index=0)],
        wire.text_chunks(f"```json\n{IN_LINES}\n```"),
        wire.text_chunks(
            f"<tool_call>\n<function=propose>\n<parameter=path>\n{DATA['path']}\n</parameter>\n"
            f"<parameter=text>\n{DATA['text']}\n</parameter>\n</function>\n</tool_call>"
        ),
        [wire.chunk({"content": ""}, ""), *wire.call_chunks("propose", SPELLED)],
        [wire.chunk(choices=[{"message": {"tool_calls": [{"function": {"name": "propose", "arguments": DATA}}]}}])],
    ],
    ids=[
        "no index",
        "continued",
        "repeated",
        "object",
        "object, no index",
        "text",
        "fence",
        "thought",
        "tags",
        "text in text",
        "braces",
        "one function",
        "one function, continued",
        "one function, object",
        "index as text",
        "name in pieces",
        "named in each piece",
        "sent twice",
        "parts",
        "other thoughts",
        "channels",
        "namespace",
        "channel in the name",
        "wrapped",
        "wrapped by name",
        "lines in a string",
        "lines in a string of a fence",
        "parameters in tags",
        "empty reason",
        "message in place of a delta",
    ],
)
def test_call_is_understood_as_local_servers_spell_it(server: ProtocolServer, block: list[bytes]) -> None:
    server.next(Reply(wire.stream(block)))
    assert ask(server, question()).data == DATA


@pytest.mark.parametrize(
    "text",
    [
        "<function=propose>" + "<parameter=a>" * 100_000,
        "no object",
        "{half",
        '{"path": "a"} and {"text": "b"}',
        '{"path": 3, "text": "b"}',
        "}{",
    ],
)
def test_text_that_is_no_object_of_the_form_is_not_taken(server: ProtocolServer, text: str) -> None:
    server.next(Reply(wire.stream(wire.text_chunks(text))))
    with pytest.raises(ModelError) as told:
        ask(server, question())
    assert told.value.trouble is Trouble.malformed


@pytest.mark.parametrize("ids", [("a", "b"), ("a", "a"), (None, None)], ids=["two ids", "one id", "none"])
def test_two_calls_without_an_index_are_two(server: ProtocolServer, ids: tuple[str | None, ...]) -> None:
    both = zip(ids, (SPELLED, SPELLED.replace("relu", "gelu")), strict=True)
    server.next(Reply(wire.stream([piece({"name": "propose", "arguments": text}, id=each) for each, text in both])))
    with pytest.raises(ModelError, match="calls 2 tools"):
        ask(server, question())


def test_turns_of_one_speaker_become_one(server: ProtocolServer) -> None:
    server.next(wire.say("yes"))
    roles = (Role.user, Role.user, Role.assistant, Role.user)
    ask(
        server,
        Question("x", (), tuple(Message(role, (Part(f"{n}"), Part(" "))) for n, role in enumerate(roles))),
    )
    assert server.asked[0].body["messages"] == [
        {"role": "user", "content": "0\n\n1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3"},
    ]


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        ({"message": "m", "type": "server_error", "code": None}, Trouble.failing),
        ({"message": "m", "type": "rate_limit_error", "code": "rate_limit_exceeded"}, Trouble.rate_limited),
        ({"message": "m", "type": "BadRequestError", "code": 400}, Trouble.rejected),
        ({"message": "m", "type": "x", "code": 503}, Trouble.overloaded),
        ({"message": "the maximum context length is 4096", "type": "x", "code": 400}, Trouble.too_long),
        ({"message": "m"}, Trouble.failing),
    ],
)
def test_an_error_in_mid_stream_is_told_in_a_word(
    server: ProtocolServer, error: dict[str, Any], trouble: Trouble
) -> None:
    told = f"data: {json.dumps({'error': error})}\n\n".encode()
    server.next(Reply((*wire.text_chunks("a bit")[:2], told)))
    with pytest.raises(ModelError) as failed:
        ask(server, question(None))
    assert failed.value.trouble is trouble


def test_an_account_without_credit_is_not_asked_again_as_one_that_asks_too_often(server: ProtocolServer) -> None:
    server.next(wire.error(429, "insufficient_quota", code="insufficient_quota"))
    with pytest.raises(ModelError) as told:
        ask(server, question())
    assert told.value.trouble is Trouble.unauthorised


def test_a_context_that_is_full_is_known_by_its_code(server: ProtocolServer) -> None:
    server.next(wire.error(400, "invalid_request_error", code="context_length_exceeded"))
    with pytest.raises(ModelError) as told:
        ask(server, question())
    assert told.value.trouble is Trouble.too_long


def test_a_refusal_in_words_is_one(server: ProtocolServer) -> None:
    server.next(Reply(wire.stream([wire.chunk({"role": "assistant", "refusal": "I cannot"})])))
    with pytest.raises(ModelError) as told:
        ask(server, question())
    assert told.value.trouble is Trouble.refused


@pytest.mark.parametrize("usage", [{"prompt_tokens": -3, "completion_tokens": "many"}, {"prompt_tokens": True}])
def test_counts_that_are_none_are_taken_from_the_texts(server: ProtocolServer, usage: dict[str, Any]) -> None:
    server.next(wire.say("yes", usage=usage))
    assert ask(server, question(None)).usage == Usage(most_of(question(None), None).input_tokens, 1)


def test_without_the_package_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.models.openai_api.find_spec", lambda _: None)
    with pytest.raises(ExtraMissingError, match=r"pip install 'kernelsmith\[openai\]'"):
        OpenAIProvider(Endpoint("openai", "m", "http://127.0.0.1:9"))


def test_the_package_is_not_imported_before_it_is_asked() -> None:
    code = (
        "import sys; sys.modules['openai'] = None\n"
        "import workers.models.openai_api, workers.models.anthropic_api, workers.models.asking"
    )
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (imported.returncode, imported.stderr) == (0, "")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"max_tokns": 1}, "the key max_tokns is unknown"),
        ({"temperature": "hot"}, "not a number"),
        ({"tool_choice": {"type": "function", "function": {"name": "other"}}}, "a tool that is not there"),
        ({"tools": []}, "only allowed when tools are specified"),
        ({"messages": [{"role": "user", "content": "a"}] * 2}, "must alternate"),
        ({"messages": [{"role": "user", "content": [{"type": "txt", "text": "a"}]}]}, "$.messages[0]"),
        ({"stream_options": {"include_use": True}}, "the key include_use is unknown"),
    ],
)
def test_the_server_refuses_what_the_api_refuses(server: ProtocolServer, change: dict[str, object], fault: str) -> None:
    server.next(wire.call("propose", DATA))
    ask(server, question())
    good = server.asked[0]
    good.body |= change
    with pytest.raises(WrongRequestError) as told:
        wire.check(good)
    assert fault in str(told.value)
