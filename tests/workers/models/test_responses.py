"""Questions by OpenAI's Responses API and their answers, over real HTTP, checked against the SDK's types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import SecretStr

from tests.workers.models.kinds import DATA, FORM, question
from tests.workers.models.openai_server import KEY, MODEL, REQUEST_ID, error
from tests.workers.models.protocol_server import Asked, ProtocolServer, Reply, WrongRequestError, serving
from tests.workers.models.strictly import faults
from workers.models.openai_api import OpenAIProvider
from workers.models.protocol import Answer, Endpoint, ModelError, Question, Trouble, Usage
from workers.models.settings import Effort, OpenAIProtocol

USAGE = {
    "input_tokens": 150,
    "output_tokens": 42,
    "total_tokens": 192,
    "input_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 12},
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "propose", "arguments": json.dumps(DATA)}


def check(asked: Asked) -> None:
    if asked.path != "/v1/responses":
        raise WrongRequestError(f"there is nothing at {asked.path}")
    if found := faults(asked.body, ResponseCreateParamsStreaming):
        raise WrongRequestError("; ".join(found))


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    with serving(check, lambda message: error(400, "invalid_request_error", message), "/v1") as found:
        yield found


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': 1} | fields)}\n\n".encode()


def response(*output: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    found = {"id": "resp_1", "object": "response", "model": MODEL + "-2026", "status": status, "output": list(output)}
    return found | {"usage": USAGE} | fields


def stream(*output: dict[str, Any], status: str = "completed", **fields: Any) -> Reply:
    pieces = (
        event("response.created", response=response(status="in_progress", usage=None)),
        *(
            event("response.function_call_arguments.delta", delta=piece, item_id="fc_1", output_index=0)
            for piece in ("{", "}")
        ),
        event(f"response.{status}", response=response(*output, status=status, **fields)),
    )
    return Reply(pieces, headers={"x-request-id": REQUEST_ID})


def ask(server: ProtocolServer, asked: Question, **options: Any) -> Answer:
    endpoint = Endpoint("openai", MODEL, server.base_url, SecretStr(KEY))
    return OpenAIProvider(endpoint, protocol=OpenAIProtocol.responses, **options).ask(asked, 20.0, lambda: False)


def test_form_is_a_function_that_must_be_called(server: ProtocolServer) -> None:
    server.next(stream({"type": "reasoning", "id": "r", "summary": []}, CALL))
    found = ask(server, question(most_tokens=500, thinking_tokens=300, temperature=0.5), effort=Effort.high)
    assert found == Answer("", DATA, Usage(100, 42, 50), "openai", MODEL + "-2026", REQUEST_ID)
    body = server.asked[0].body
    assert body["tool_choice"] == {"type": "function", "name": "propose"}
    assert (body["tools"][0]["parameters"], body["tools"][0]["strict"]) == (FORM.schema, False)
    assert (body["max_output_tokens"], body["reasoning"], body["store"]) == (800, {"effort": "high"}, False)
    assert body["instructions"] == "You write kernels."
    assert "temperature" not in body


def test_text_is_an_answer_without_a_form(server: ProtocolServer) -> None:
    part = {"type": "output_text", "text": "a ü text", "annotations": []}
    server.next(stream({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}))
    assert ask(server, question(None)).text == "a ü text"


@pytest.mark.parametrize(
    ("reply", "trouble"),
    [
        (stream(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), Trouble.truncated),
        (stream(status="incomplete", incomplete_details={"reason": "content_filter"}), Trouble.refused),
        (stream({"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]}), Trouble.refused),
        (stream(status="failed", error={"code": "server_error", "message": "m"}), Trouble.failing),
        (stream(status="failed", error={"code": "rate_limit_exceeded", "message": "m"}), Trouble.rate_limited),
        (Reply((event("error", code="server_error", message="m", param=None),)), Trouble.failing),
        (stream(), Trouble.malformed),
        (stream({"type": "function_call"}), Trouble.malformed),
        (Reply((event("response.created", response=response(status="in_progress")),)), Trouble.unreachable),
    ],
    ids=["limit", "filter", "refusal", "failed", "rate", "error", "nothing", "half", "broken off"],
)
def test_whatever_ends_an_answer_is_one_trouble_and_costs_something(
    server: ProtocolServer, reply: Reply, trouble: Trouble
) -> None:
    server.next(reply)
    with pytest.raises(ModelError) as told:
        ask(server, question(thinking_tokens=2000))
    assert told.value.trouble is trouble
    assert told.value.usage.input_tokens > 0


def test_items_that_were_streamed_and_are_not_said_again_at_the_end_are_the_answer(server: ProtocolServer) -> None:
    pieces = (
        event("response.output_item.added", output_index=0, item=CALL | {"arguments": ""}),
        event("response.function_call_arguments.delta", delta=CALL["arguments"], item_id="fc_1", output_index=0),
        event("response.output_item.done", output_index=0, item=CALL),
        event("response.completed", response=response()),
    )
    server.next(Reply(pieces))
    assert ask(server, question()).data == DATA


@pytest.mark.parametrize(
    "content", [json.dumps(DATA), [{"type": "output_text", "text": json.dumps(DATA)}]], ids=["text", "parts"]
)
def test_object_in_a_message_is_taken_for_the_call(server: ProtocolServer, content: object) -> None:
    server.next(stream({"type": "reasoning"}, {"type": "message", "role": "assistant", "content": content}))
    assert ask(server, question()).data == DATA


def test_answer_that_is_no_stream_is_read_whole(server: ProtocolServer) -> None:
    server.next(Reply((json.dumps(response(CALL)).encode(),), headers={"content-type": "application/json"}))
    assert ask(server, question()).data == DATA
