"""OpenAI's Responses API: a question as parameters, a stream of events as an answer. Pure.

Source: developers.openai.com/api/docs, Responses, Streaming, Function calling; the parameter types of the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.models.forms import check_form
from workers.models.heard import Heard, HeardError, spelled, text_of, tokens
from workers.models.openai_speech import joined
from workers.models.options import Effort
from workers.models.outgoing import sendable, spoken, turns
from workers.models.protocol import Question, Trouble, Usage

STOPS = {"max_output_tokens": Trouble.truncated, "content_filter": Trouble.refused}
ENDS = ("response.completed", "response.incomplete", "response.failed")


def parameters(
    question: Question, model: str, *, effort: Effort | None, with_temperature: bool, provider: str
) -> dict[str, Any]:
    """Give the parameters of ``responses.create`` for a question. Nothing of it is stored at the provider.

    Raises:
        ModelError: nothing is asked.
        OpenFormError: the form cannot be held strictly.
    """
    wanted: dict[str, Any] = {
        "model": model,
        "input": [{"role": turn.role.value, "content": joined(turn.parts)} for turn in turns(question, provider)],
        "max_output_tokens": question.most_tokens + question.thinking_tokens,  # reasoning counts towards it
        "store": False,
    }
    if system := spoken(question.system):
        wanted["instructions"] = joined(system)
    if effort is not None:
        wanted["reasoning"] = {"effort": effort.value}
    elif question.temperature is not None and with_temperature:
        wanted["temperature"] = question.temperature
    if form := question.form:
        check_form(form)
        tool = {"type": "function", "name": form.name, "description": sendable(form.description)}
        # Not strict: that takes no optional fields, and the answer is checked here anyway.
        wanted["tools"] = [tool | {"parameters": form.schema, "strict": False}]
        wanted["tool_choice"] = {"type": "function", "name": form.name}
        wanted["parallel_tool_calls"] = False
    return wanted


def hear(heard: Heard, event: Mapping[str, Any]) -> None:
    """Take in one event. The last one holds the whole answer; those before it are counted alone.

    Raises:
        HeardError: the event is not what the protocol says.
    """
    try:
        kind = event.get("type")
        if kind in ENDS:
            _ended(heard, event["response"])
        elif kind == "error":
            heard.error = {"code": event.get("code"), "message": event.get("message")}
        elif isinstance(kind, str) and kind.endswith(".delta"):
            heard.say(text_of(event.get("delta")))
        elif kind == "response.created":
            heard.model = str(event["response"].get("model") or "")[:200]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise HeardError("an event of the stream is not what the protocol says") from None


def events_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give an answer that came at once as the events of a stream."""
    return [{"type": "response.completed", "response": whole}]


def _ended(heard: Heard, response: Mapping[str, Any]) -> None:
    heard.model = str(response.get("model") or heard.model)[:200]
    if usage := response.get("usage"):
        heard.usage, heard.counted = _usage(usage), True
    if error := response.get("error"):
        heard.error = {"code": error.get("code"), "message": error.get("message")}
        return
    take = text_of if heard.characters else heard.say  # what was streamed is counted already
    for place, item in enumerate(response.get("output") or ()):
        if item["type"] == "function_call":
            call = heard.call(place)
            call.name = take(text_of(item["name"]))
            call.pieces.append(take(spelled(item["arguments"])))
        elif item["type"] == "message":
            for part in item["content"]:
                if part["type"] == "refusal":
                    heard.ended = Trouble.refused
                else:
                    heard.pieces.append(take(text_of(part["text"])))
    heard.whole = True
    if response.get("status") == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        heard.ended = heard.ended or STOPS.get(str(reason), Trouble.malformed)


def _usage(told: Mapping[str, Any]) -> Usage:
    details = told.get("input_tokens_details") or {}
    read, written = tokens(details.get("cached_tokens")), tokens(details.get("cache_write_tokens"))
    return Usage(
        input_tokens=max(0, tokens(told.get("input_tokens")) - read - written),
        output_tokens=tokens(told.get("output_tokens")),
        cache_read_tokens=read,
        cache_written_tokens=written,
    )
