"""A local Anthropic: the Messages API as its SDK's types and its documentation say it, over ``protocol_server``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from anthropic._constants import ANTHROPIC_API_VERSION
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from jsonschema import Draft202012Validator

from tests.workers.models.protocol_server import Asked, ProtocolServer, Reply, WrongRequestError, serving
from tests.workers.models.strictly import faults

KEY = "sk-ant-api03-not-a-real-key-0123456789"
MODEL = "model-of-the-test"
REQUEST_ID = "req_011CSHoEeqs5C35K2UUqR7Fy"


def anthropic_server() -> AbstractContextManager[ProtocolServer]:
    """Serve the Messages API until the end of the block; ``base_url`` is what the provider is configured with."""
    return serving(check, lambda message: error(400, "invalid_request_error", message))


def check(asked: Asked) -> None:
    """Refuse what the API would refuse.

    Raises:
        WrongRequestError: that is so.
    """
    if asked.path != "/v1/messages":
        raise WrongRequestError(f"there is nothing at {asked.path}")
    if asked.headers.get("anthropic-version") != ANTHROPIC_API_VERSION:
        raise WrongRequestError("anthropic-version: header is required")
    if asked.headers.get("content-type") != "application/json":
        raise WrongRequestError("the body is no JSON")
    if not (asked.headers.get("x-api-key") or asked.headers.get("authorization", "").startswith("Bearer ")):
        raise WrongRequestError("there is no key")
    body = asked.body
    if found := faults(body, MessageCreateParamsStreaming):
        raise WrongRequestError("; ".join(found))
    for wrong in (*_rules_of_thinking(body), *_rules_of_tools(body), *_rules_of_text(body)):
        raise WrongRequestError(wrong)


def _rules_of_thinking(body: dict[str, Any]) -> Iterator[str]:
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        yield "budget_tokens must be at least 1024 and less than max_tokens"
    if thinking["type"] != "disabled" and body.get("tool_choice", {}).get("type") in ("tool", "any"):
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _rules_of_tools(body: dict[str, Any]) -> Iterator[str]:
    names = [tool["name"] for tool in body.get("tools", [])]
    for tool in body.get("tools", []):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            yield f"tools: {tool['name']} is no name"
        Draft202012Validator.check_schema(tool["input_schema"])
        if tool["input_schema"].get("type") != "object":
            yield "input_schema.type: must be object"
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    choice = body.get("tool_choice")
    if choice and not names:
        yield "tool_choice: may only be specified while providing tools"
    if choice and choice["type"] == "tool" and choice["name"] not in names:
        yield f"tool_choice: Tool '{choice['name']}' not found in provided tools"


def _rules_of_text(body: dict[str, Any]) -> Iterator[str]:
    if body["max_tokens"] < 1:
        yield "max_tokens: must be at least 1"
    roles = [message["role"] for message in body["messages"]]
    if not roles or roles[0] != "user" or roles[-1] != "user":
        yield "messages: the first and the last turn must be the user's"
    blocks = [*_blocks(body.get("system", [])), *body.get("tools", [])]
    for message in body["messages"]:
        if not message["content"]:
            yield "messages: all messages must have non-empty content"
        blocks += _blocks(message["content"])
    if sum("cache_control" in block for block in blocks) > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."
    if any(block.get("type") == "text" and not block["text"].strip() for block in blocks):
        yield "text content blocks must contain non-whitespace text"


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def event(kind: str, **fields: Any) -> bytes:
    """One event of the stream."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


def start(**usage: int) -> bytes:
    """The stream's first event."""
    counts = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": MODEL + "-20261101",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts | usage,
    }
    return event("message_start", message=message) + event("ping")


def text_block(text: str, index: int = 0, parts: int = 3) -> list[bytes]:
    """The events of a block of text, in some pieces."""
    size = max(1, -(-len(text) // parts))
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    return [
        event("content_block_start", index=index, content_block={"type": "text", "text": ""}),
        *(event("content_block_delta", index=index, delta={"type": "text_delta", "text": it}) for it in deltas),
        event("content_block_stop", index=index),
    ]


def thought_block(index: int = 0) -> list[bytes]:
    """The events of a block of thinking."""
    block = {"type": "thinking", "thinking": "", "signature": ""}
    return [
        event("content_block_start", index=index, content_block=block),
        event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": "Let me see."}),
        event("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "EqQBCgIYAhIM"}),
        event("content_block_stop", index=index),
    ]


def call_block(name: str, json_text: str, index: int = 0, parts: int = 3) -> list[bytes]:
    """The events of a call of a tool with its JSON input as it is spelled, in some pieces."""
    size = max(1, -(-len(json_text) // parts))
    pieces = ["", *(json_text[at : at + size] for at in range(0, len(json_text), size))]
    block = {"type": "tool_use", "id": f"toolu_{index:02}", "name": name, "input": {}}
    return [
        event("content_block_start", index=index, content_block=block),
        *(
            event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": it})
            for it in pieces
        ),
        event("content_block_stop", index=index),
    ]


def finish(reason: str, output_tokens: int = 42) -> list[bytes]:
    """The stream's last events."""
    usage = {"output_tokens": output_tokens}
    return [
        event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage),
        event("message_stop"),
    ]


def stream(*blocks: list[bytes], reason: str = "end_turn", output_tokens: int = 42, **usage: int) -> tuple[bytes, ...]:
    """The pieces of a whole stream."""
    return (start(**usage), *(piece for block in blocks for piece in block), *finish(reason, output_tokens))


def say(text: str, **usage: int) -> Reply:
    """Answer in text."""
    return Reply(stream(text_block(text), **usage), headers={"request-id": REQUEST_ID})


def call(name: str, data: dict[str, Any], **usage: int) -> Reply:
    """Answer with a call of a tool, after a thought and a word."""
    blocks = (thought_block(0), text_block("Here it is.", 1), call_block(name, json.dumps(data), 2))
    return Reply(stream(*blocks, reason="tool_use", **usage), headers={"request-id": REQUEST_ID})


def error(status: int, kind: str, message: str = "something", headers: dict[str, str] | None = None) -> Reply:
    """Refuse with a status."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": REQUEST_ID}
    told = {"content-type": "application/json", "request-id": REQUEST_ID} | (headers or {})
    return Reply((json.dumps(body).encode(),), status, told)
