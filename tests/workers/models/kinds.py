"""The two kinds of providers beside each other, for the tests that hold for both."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from tests.workers.models import anthropic_server, openai_server
from tests.workers.models.protocol_server import ProtocolServer, Reply
from workers.models.anthropic_api import AnthropicProvider
from workers.models.openai_api import OpenAIProvider
from workers.models.protocol import Endpoint, Form, Message, Part, Provider, Question, Role, Usage

FORM = Form(
    "propose",
    "Propose a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "text": {"type": "string", "maxLength": 1000}},
        "required": ["path", "text"],
        "additionalProperties": False,
    },
)
DATA = {"path": "kernels/relu.py", "text": 'import triton\n\nname = "ü"\n'}
PROMPT = "a prompt that no log may hold"
ANSWER = "an answer that no log may hold"


def question(form: Form | None = FORM, **fields: Any) -> Question:
    """A question with a prompt of its own."""
    said = (Message(Role.user, (Part(PROMPT),)),)
    return Question("generate", (Part("You write kernels.", stable=True),), said, form, **fields)


@dataclass(frozen=True)
class Kind:
    """One kind of provider: its server, its words on the wire."""

    name: str
    key: str
    model: str
    request_id: str
    serve: Callable[[], AbstractContextManager[ProtocolServer]]
    say: Callable[..., Reply]
    call: Callable[..., Reply]
    error: Callable[..., Reply]
    text: Callable[[str], tuple[bytes, ...]]  # a whole stream of text
    calls: Callable[..., tuple[bytes, ...]]  # a whole stream of calls of tools, by name and spelled input
    whole: Callable[[str, dict[str, Any]], bytes]  # an answer that is no stream: a call of a tool
    stopped: Callable[[str], tuple[bytes, ...]]  # a stream with a bit of text that ends for a reason
    truncated: str
    refused: str
    usage: Usage

    def provider(self, base_url: str, **timeouts: float) -> Provider:
        """A provider that asks a server."""
        endpoint = Endpoint(self.name, self.model, base_url, SecretStr(self.key), **timeouts)
        return AnthropicProvider(endpoint) if self.name == "anthropic" else OpenAIProvider(endpoint)


def _anthropic_calls(*calls: tuple[str, str]) -> tuple[bytes, ...]:
    blocks = [anthropic_server.call_block(name, json_text, index) for index, (name, json_text) in enumerate(calls)]
    return anthropic_server.stream(*blocks, reason="tool_use")


def _openai_calls(*calls: tuple[str, str]) -> tuple[bytes, ...]:
    blocks = [openai_server.call_chunks(name, json_text, index) for index, (name, json_text) in enumerate(calls)]
    return openai_server.stream(*blocks, finish="tool_calls")


def _anthropic_whole(name: str, data: dict[str, Any]) -> bytes:
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": data}
    usage = {"input_tokens": 100, "output_tokens": 42}
    return json.dumps({"model": "m", "content": [block], "stop_reason": "tool_use", "usage": usage}).encode()


def _openai_whole(name: str, data: dict[str, Any]) -> bytes:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(data)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return json.dumps({"model": "m", "choices": [choice], "usage": openai_server.USAGE}).encode()


ANTHROPIC = Kind(
    "anthropic",
    anthropic_server.KEY,
    anthropic_server.MODEL,
    anthropic_server.REQUEST_ID,
    anthropic_server.anthropic_server,
    anthropic_server.say,
    anthropic_server.call,
    anthropic_server.error,
    lambda text: anthropic_server.stream(anthropic_server.text_block(text)),
    _anthropic_calls,
    _anthropic_whole,
    lambda reason: anthropic_server.stream(anthropic_server.text_block("a bit"), reason=reason),
    "max_tokens",
    "refusal",
    Usage(100, 42),
)
OPENAI = Kind(
    "openai",
    openai_server.KEY,
    openai_server.MODEL,
    openai_server.REQUEST_ID,
    openai_server.openai_server,
    openai_server.say,
    openai_server.call,
    openai_server.error,
    lambda text: openai_server.stream(openai_server.text_chunks(text)),
    _openai_calls,
    _openai_whole,
    lambda reason: openai_server.stream(openai_server.text_chunks("a bit"), finish=reason),
    "length",
    "content_filter",
    Usage(100, 42, 50),
)
KINDS = (ANTHROPIC, OPENAI)
