"""Anthropic's Messages API: a question as its parameters, and its stream of events as an answer. Pure.

Source: platform.claude.com/docs, Messages, Streaming, Prompt caching, Extended thinking; the parameter types of the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workers.models.budgets import LEAST_THINKING_TOKENS
from workers.models.forms import check_form
from workers.models.heard import Heard, HeardError, spelled, text_of, tokens
from workers.models.options import Effort, Thinking
from workers.models.outgoing import sendable, spoken, turns
from workers.models.protocol import Part, Question, Trouble, Usage

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
    """Give the parameters of ``messages.create`` for a question. No temperature: the API takes none any more.

    Raises:
        ModelError: nothing is asked.
        OpenFormError: the form cannot be held strictly.
    """
    messages = turns(question, provider)
    system = spoken(question.system)
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
    """Give the start of a request that the prompt cache keeps, as JSON: up to the last mark, with all that invalidates it.

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
    told: dict[str, Any] = {"max_tokens": question.most_tokens + room}  # thoughts count towards it
    if thinking is Thinking.adaptive:
        told["thinking"] = {"type": "adaptive"}
    elif thinking is Thinking.budget:
        told["thinking"] = {"type": "enabled", "budget_tokens": room}
    return told


def _breakpoints(system: tuple[Part, ...], said: tuple[Part, ...]) -> set[int]:
    """The system prompt's prefixes first, which most requests share, then the longest ones of the conversation."""
    first = [id(part) for part in system if part.stable][-MOST_BREAKPOINTS:]
    others = [id(part) for part in said if part.stable]
    left = MOST_BREAKPOINTS - len(first)
    return {*first, *(others[-left:] if left else ())}


def _block(part: Part, marked: set[int]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": part.text}
    if id(part) in marked:
        block["cache_control"] = {"type": "ephemeral"}
    return block


def hear(heard: Heard, event: Mapping[str, Any]) -> None:
    """Take in one event of the stream; kinds of events and of blocks that are not known are passed over, as the API asks.

    Raises:
        HeardError: the event is not what the protocol says.
    """
    try:
        match event.get("type"):
            case "message_start":
                message = event["message"]
                heard.model = str(message.get("model") or "")[:200]
                heard.usage = _usage(heard.usage, message.get("usage") or {})
            case "content_block_start":
                _block_starts(heard, event["index"], event["content_block"])
            case "content_block_delta":
                _block_goes_on(heard, event["index"], event["delta"])
            case "message_delta":
                counts = event.get("usage") or {}
                heard.usage = _usage(heard.usage, counts)
                heard.counted = heard.counted or counts.get("output_tokens") is not None
                stop = event["delta"].get("stop_reason")
                if stop is not None:
                    heard.whole, heard.ended = True, STOPS.get(stop)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise HeardError("an event of the stream is not what the protocol says") from None


def events_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give an answer that came at once as the events of a stream."""
    blocks = enumerate(whole.get("content") or ())
    return [
        {"type": "message_start", "message": whole},
        *({"type": "content_block_start", "index": index, "content_block": block} for index, block in blocks),
        {"type": "message_delta", "delta": whole, "usage": whole.get("usage")},
    ]


def _block_starts(heard: Heard, index: object, block: Mapping[str, Any]) -> None:
    if block["type"] == "tool_use":
        call = heard.call(index)
        call.name = heard.say(text_of(block["name"]))
        if block.get("input"):  # some relays give the whole input at once
            call.pieces.append(heard.say(spelled(block["input"])))
    elif block["type"] == "text" and block.get("text"):
        heard.pieces.append(heard.say(text_of(block["text"])))


def _block_goes_on(heard: Heard, index: object, delta: Mapping[str, Any]) -> None:
    if delta["type"] == "text_delta":
        heard.pieces.append(heard.say(text_of(delta["text"])))
    elif delta["type"] == "input_json_delta":
        if index not in heard.calls:
            raise HeardError("a tool's input came before its call")
        heard.call(index).pieces.append(heard.say(spelled(delta["partial_json"])))
    elif delta["type"] == "thinking_delta":
        heard.say(text_of(delta["thinking"]))  # counted against the bound, and not kept


def _usage(before: Usage, told: Mapping[str, Any]) -> Usage:
    """Counts are cumulative: the last one of each kind that is told holds."""

    def latest(name: str, known: int) -> int:
        return tokens(told[name]) if told.get(name) is not None else known

    return Usage(
        input_tokens=latest("input_tokens", before.input_tokens),
        output_tokens=latest("output_tokens", before.output_tokens),
        cache_read_tokens=latest("cache_read_input_tokens", before.cache_read_tokens),
        cache_written_tokens=latest("cache_creation_input_tokens", before.cache_written_tokens),
    )
