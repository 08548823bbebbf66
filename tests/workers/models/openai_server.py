"""A local server that speaks OpenAI's chat completions, as its SDK's types and documentation say it, over ``protocol_server``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

from jsonschema import Draft202012Validator
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.workers.models.protocol_server import Asked, ProtocolServer, Reply, WrongRequestError, serving
from tests.workers.models.strictly import faults

KEY = "sk-proj-not-a-real-key-0123456789abcdef"
MODEL = "model-of-the-test"
DEPLOYMENT = "/openai/deployments/of-the-test"  # as Azure has them
REQUEST_ID = "req_7c1f0e9ab2"
USAGE = {
    "prompt_tokens": 150,
    "completion_tokens": 42,
    "total_tokens": 192,
    "prompt_tokens_details": {"cached_tokens": 50},
}


def openai_server() -> AbstractContextManager[ProtocolServer]:
    """Serve chat completions until the end of the block; ``base_url`` is what the provider is configured with."""
    return serving(check, lambda message: error(400, "invalid_request_error", message), "/v1")


def check(asked: Asked) -> None:
    """Refuse what the API would refuse.

    Raises:
        WrongRequestError: that is so.
    """
    if asked.path.startswith(DEPLOYMENT):
        _check_azure(asked)
    elif asked.path != "/v1/chat/completions":
        raise WrongRequestError(f"there is nothing at {asked.path}")
    if asked.headers.get("content-type") != "application/json":
        raise WrongRequestError("the body is no JSON")
    if found := faults(asked.body, CompletionCreateParamsStreaming):
        raise WrongRequestError("; ".join(found))
    for wrong in _rules(asked.body):
        raise WrongRequestError(wrong)


def _check_azure(asked: Asked) -> None:
    place, _, query = asked.path.partition("?")
    if place != f"{DEPLOYMENT}/chat/completions" or not query.startswith("api-version=20"):
        raise WrongRequestError("404 Resource not found")  # also without a version
    if asked.headers.get("api-key") != KEY or "authorization" in asked.headers:
        raise WrongRequestError("401 Access denied due to invalid subscription key")


def _rules(body: dict[str, Any]) -> Iterator[str]:
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    for tool in body.get("tools", []):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["function"]["name"]):
            yield "tools: not a name"
        Draft202012Validator.check_schema(tool["function"]["parameters"])
    choice = body.get("tool_choice")
    if choice is not None and not names:
        yield "tool_choice is only allowed when tools are specified"
    if isinstance(choice, dict) and choice["function"]["name"] not in names:
        yield "tool_choice names a tool that is not there"
    if "parallel_tool_calls" in body and not names:
        yield "parallel_tool_calls is only allowed when tools are specified"
    if not body["messages"] or body["messages"][-1]["role"] != "user":
        yield "the last turn must be the user's"
    if any(not message["content"].strip() for message in body["messages"]):
        yield "a message is empty"
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles[1:] or any(one == other for one, other in pairwise(roles)):
        yield "Conversation roles must alternate user/assistant after the optional system message"
    if body.get("max_completion_tokens", 1) < 1 or not 0 <= body.get("temperature", 1) <= 2:
        yield "a number is out of its range"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """One chunk of the stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": MODEL + "-2026",
        "choices": choices,
    } | fields
    return f"data: {json.dumps(body)}\n\n".encode()


def ending(finish: str, usage: dict[str, Any] | None) -> list[bytes]:
    """The stream's last chunks."""
    return [chunk({}, finish), *([chunk(usage=usage)] if usage else []), b"data: [DONE]\n\n"]


def text_chunks(text: str, parts: int = 3) -> list[bytes]:
    """The chunks of a text."""
    size = max(1, -(-len(text) // parts))
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": text[at : at + size]}) for at in range(0, len(text), size)),
    ]


def call_chunks(name: str, json_text: str, index: int = 0, parts: int = 3) -> list[bytes]:
    """The chunks of a call of a function with its arguments as they are spelled."""
    size = max(1, -(-len(json_text) // parts))
    first = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": ""}}
    return [
        chunk({"role": "assistant", "content": None, "tool_calls": [first]}),
        *(
            chunk({"tool_calls": [{"index": index, "function": {"arguments": json_text[at : at + size]}}]})
            for at in range(0, len(json_text), size)
        ),
    ]


def stream(*blocks: list[bytes], finish: str = "stop", usage: dict[str, Any] | None = USAGE) -> tuple[bytes, ...]:
    """The pieces of a whole stream."""
    return (*(piece for block in blocks for piece in block), *ending(finish, usage))


def say(text: str, usage: dict[str, Any] | None = USAGE) -> Reply:
    """Answer in text."""
    return Reply(stream(text_chunks(text), usage=usage), headers={"x-request-id": REQUEST_ID})


def call(name: str, data: dict[str, Any], usage: dict[str, Any] | None = USAGE) -> Reply:
    """Answer with a call of a function; a named function that was forced ends with ``stop``."""
    return Reply(stream(call_chunks(name, json.dumps(data)), usage=usage), headers={"x-request-id": REQUEST_ID})


def error(
    status: int,
    kind: str,
    message: str = "something",
    headers: dict[str, str] | None = None,
    code: str | int | None = None,
) -> Reply:
    """Refuse with a status."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    told = {"content-type": "application/json", "x-request-id": REQUEST_ID} | (headers or {})
    return Reply((json.dumps(body).encode(),), status, told)
