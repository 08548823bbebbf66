"""Anthropic's Messages API by its SDK: streaming, tools for structured answers, prompt caching and thinking.

Source: platform.claude.com/docs, Messages, Streaming, Prompt caching, Extended thinking; the parameter types of the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import anthropic
import httpx2

from workers.models.client import Sdk, Streaming, send
from workers.models.forms import check_form
from workers.models.ledger import LEAST_THINKING_TOKENS
from workers.models.protocol import (
    Answer,
    Endpoint,
    ModelError,
    Part,
    Question,
    Trouble,
    Usage,
    nonblank,
    sendable,
    turns,
)
from workers.models.responses import StreamedAnswer, StreamError, json_text, text_of, tokens
from workers.models.settings import Effort, Thinking

MOST_BREAKPOINTS = 4  # of the prompt cache, in one request
STOPS = {
    "max_tokens": Trouble.truncated,
    "model_context_window_exceeded": Trouble.too_long,
    "refusal": Trouble.refused,
    "pause_turn": Trouble.malformed,  # of tools that the provider runs, and none was offered
}


def parameters(
    question: Question, model: str, thinking: Thinking, provider: str, effort: Effort | None = None
) -> dict[str, Any]:
    """The parameters of ``messages.create`` for a question. No temperature: the API takes none any more.

    Raises:
        ModelError: nothing is asked.
        OpenFormError: the form cannot be held strictly.
    """
    messages = turns(question, provider)
    system = nonblank(question.system)
    marked = _breakpoints(system, tuple(part for message in messages for part in message.parts))
    wanted: dict[str, Any] = {
        "model": model,
        "max_tokens": question.most_tokens,
        "messages": [
            {"role": message.role.value, "content": [_block(part, marked) for part in message.parts]}
            for message in messages
        ],
    }
    blocks = [_block(part, marked) for part in system]
    asked = question.thinking_tokens >= LEAST_THINKING_TOKENS and thinking is not Thinking.none
    thinks = asked or thinking is Thinking.always
    if thinks:
        wanted |= _thought(question, thinking)
    if effort is not None:
        wanted["output_config"] = {"effort": effort.value}
    if form := question.form:
        check_form(form)
        wanted["tools"] = [{"name": form.name, "description": sendable(form.description), "input_schema": form.schema}]
        if thinks:
            # The API takes no forced tool together with thinking, so that it has to be said.
            wanted["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
            instruction = f"Answer by calling the tool `{form.name}` exactly once: its input is the answer."
            blocks.append({"type": "text", "text": instruction})
        else:
            wanted["tool_choice"] = {"type": "tool", "name": form.name, "disable_parallel_tool_use": True}
    if blocks:
        wanted["system"] = blocks
    return wanted


def cached_prefix(wanted: Mapping[str, Any]) -> str | None:
    """The start of a request that the prompt cache keeps, as JSON: up to the last mark, with all that invalidates it.

    Source: platform.claude.com/docs, Prompt caching, What invalidates the cache: tools, their choice and thinking are in it.
    """
    system = [block for block in wanted.get("system", ()) if "cache_control" in block]
    blocks = [(message["role"], block) for message in wanted["messages"] for block in message["content"]]
    marked = [number for number, (_, block) in enumerate(blocks, 1) if "cache_control" in block]
    if not marked and not system:
        return None
    around = {name: wanted.get(name) for name in ("model", "tools", "tool_choice", "thinking", "system")}
    return json.dumps([around, blocks[: max(marked, default=0)]], sort_keys=True)


def _thought(question: Question, thinking: Thinking) -> dict[str, Any]:
    # No more than the budgets were promised, also for a model that thinks unasked.
    room = question.thinking_tokens
    payload: dict[str, Any] = {"max_tokens": question.most_tokens + room}  # thoughts count towards it
    if thinking is Thinking.adaptive:
        payload["thinking"] = {"type": "adaptive"}
    elif thinking is Thinking.budget:
        payload["thinking"] = {"type": "enabled", "budget_tokens": room}
    return payload


def _breakpoints(system: tuple[Part, ...], messages: tuple[Part, ...]) -> set[int]:
    """The system prompt's prefixes first, which most requests share, then the longest ones of the conversation."""
    first = [id(part) for part in system if part.stable][-MOST_BREAKPOINTS:]
    others = [id(part) for part in messages if part.stable]
    left = MOST_BREAKPOINTS - len(first)
    return {*first, *(others[-left:] if left else ())}


def _block(part: Part, marked: set[int]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": part.text}
    if id(part) in marked:
        block["cache_control"] = {"type": "ephemeral"}
    return block


def read_event(streamed: StreamedAnswer, event: Mapping[str, Any]) -> None:
    """Take in one event of the stream; kinds of events and of blocks that are not known are passed over, as the API asks.

    Raises:
        StreamError: the event is not what the protocol says.
    """
    try:
        match event.get("type"):
            case "message_start":
                message = event["message"]
                streamed.model = str(message.get("model") or "")[:200]
                streamed.usage = _usage(streamed.usage, message.get("usage") or {})
            case "content_block_start":
                _block_starts(streamed, event["index"], event["content_block"])
            case "content_block_delta":
                _block_goes_on(streamed, event["index"], event["delta"])
            case "message_delta":
                counts = event.get("usage") or {}
                streamed.usage = _usage(streamed.usage, counts)
                streamed.counted = streamed.counted or counts.get("output_tokens") is not None
                stop = event["delta"].get("stop_reason")
                if stop is not None:
                    streamed.whole, streamed.ended = True, STOPS.get(stop)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StreamError("an event of the stream is not what the protocol says") from None


def events_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An answer that came at once as the events of a stream."""
    blocks = enumerate(whole.get("content") or ())
    return [
        {"type": "message_start", "message": whole},
        *({"type": "content_block_start", "index": index, "content_block": block} for index, block in blocks),
        {"type": "message_delta", "delta": whole, "usage": whole.get("usage")},
    ]


def _block_starts(streamed: StreamedAnswer, index: object, block: Mapping[str, Any]) -> None:
    if block["type"] == "tool_use":
        call = streamed.call(index)
        call.name = streamed.count(text_of(block["name"]))
        if block.get("input"):  # some relays give the whole input at once
            call.pieces.append(streamed.count(json_text(block["input"])))
    elif block["type"] == "text" and block.get("text"):
        streamed.pieces.append(streamed.count(text_of(block["text"])))


def _block_goes_on(streamed: StreamedAnswer, index: object, delta: Mapping[str, Any]) -> None:
    if delta["type"] == "text_delta":
        streamed.pieces.append(streamed.count(text_of(delta["text"])))
    elif delta["type"] == "input_json_delta":
        if index not in streamed.calls:
            raise StreamError("a tool's input came before its call")
        streamed.call(index).pieces.append(streamed.count(json_text(delta["partial_json"])))
    elif delta["type"] == "thinking_delta":
        streamed.count(text_of(delta["thinking"]))  # counted against the bound, and not kept


def _usage(before: Usage, payload: Mapping[str, Any]) -> Usage:
    """Counts are cumulative: the last one of each kind counts."""

    def latest(name: str, known: int) -> int:
        return tokens(payload[name]) if payload.get(name) is not None else known

    return Usage(
        input_tokens=latest("input_tokens", before.input_tokens),
        output_tokens=latest("output_tokens", before.output_tokens),
        cache_read_tokens=latest("cache_read_input_tokens", before.cache_read_tokens),
        cache_written_tokens=latest("cache_creation_input_tokens", before.cache_written_tokens),
    )


BASE_URL = "https://api.anthropic.com"


class AnthropicProvider:
    """A model of Anthropic, or of a relay that speaks the Messages API."""

    def __init__(
        self, endpoint: Endpoint, thinking: Thinking = Thinking.adaptive, effort: Effort | None = None
    ) -> None:
        """Take the endpoint, whose key is needed."""
        self._endpoint = endpoint
        self._thinking = thinking
        self._effort = effort

    @property
    def name(self) -> str:
        """The provider's name in the configuration."""
        return self._endpoint.name

    @property
    def model(self) -> str:
        """The configured model's name."""
        return self._endpoint.model

    def prefix(self, question: Question) -> str | None:
        """The part of a question that the prompt cache keeps, None where nothing is marked for it."""
        try:
            return cached_prefix(parameters(question, self.model, self._thinking, self.name, self._effort))
        except ModelError:
            return None

    def ask(
        self,
        question: Question,
        timeout_s: float,
        cancelled: Callable[[], bool],
        began: Callable[[], None] = lambda: None,
    ) -> Answer:
        """Ask once, streaming.

        Raises:
            ModelError: there is no answer that can be used.
            OpenFormError: the question's form cannot be held strictly, a fault of the program.
        """
        wanted = parameters(question, self.model, self._thinking, self.name, self._effort)

        def opened(http: httpx2.Client) -> Streaming:
            key = self._endpoint.key
            client = anthropic.Anthropic(
                api_key=key.get_secret_value() if key is not None else "",
                base_url=self._endpoint.base_url,
                http_client=http,
                timeout=timeout_s,  # the connection ends what is quiet or late before that
                max_retries=0,
                open_telemetry=False,  # a trace may hold what was asked
            )
            stream: Streaming = client.messages.create(stream=True, **wanted)
            return stream

        sdk = Sdk(opened, read_event, events_of, (anthropic.AnthropicError,), "request-id")
        return send(self._endpoint, sdk, question, timeout_s, cancelled, began)
