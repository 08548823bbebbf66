"""OpenAI's chat completions, as many servers speak them: a question as parameters, a stream of chunks as an answer. Pure.

Source: developers.openai.com/api/docs, Chat completions, Streaming, Function calling; the parameter types of the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workers.models.forms import check_form
from workers.models.heard import Heard, HeardError, ToolCall, spelled, text_of, tokens
from workers.models.options import Effort
from workers.models.outgoing import sendable, spoken, turns
from workers.models.protocol import Part, Question, Trouble, Usage

STOPS = {"length": Trouble.truncated, "content_filter": Trouble.refused}
BETWEEN = "\n\n"  # parts: plain text is what every server's template takes


def parameters(
    question: Question, model: str, *, effort: Effort | None, with_temperature: bool, provider: str
) -> dict[str, Any]:
    """Give the parameters of ``chat.completions.create`` for a question. These servers cache prefixes by themselves.

    Raises:
        ModelError: nothing is asked.
        OpenFormError: the form cannot be held strictly.
    """
    messages = [{"role": message.role.value, "content": joined(message.parts)} for message in turns(question, provider)]
    if system := spoken(question.system):
        messages.insert(0, {"role": "system", "content": joined(system)})
    wanted: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "max_completion_tokens": question.most_tokens + question.thinking_tokens,  # thoughts count towards it
        "stream_options": {"include_usage": True},
    }
    if effort is not None:
        wanted["reasoning_effort"] = effort.value
    elif question.temperature is not None and with_temperature:
        wanted["temperature"] = question.temperature
    if form := question.form:
        check_form(form)
        function = {"name": form.name, "description": sendable(form.description), "parameters": form.schema}
        wanted["tools"] = [{"type": "function", "function": function}]
        wanted["tool_choice"] = {"type": "function", "function": {"name": form.name}}
        wanted["parallel_tool_calls"] = False
    return wanted


def joined(parts: tuple[Part, ...]) -> str:
    """Give the parts of a text as one."""
    return BETWEEN.join(part.text for part in parts)


def hear(heard: Heard, chunk: Mapping[str, Any]) -> None:
    """Take in one chunk of the stream.

    Raises:
        HeardError: the chunk is not what the protocol says.
    """
    try:
        heard.model = heard.model or str(chunk.get("model") or "")[:200]
        for choice in chunk.get("choices") or ():
            if tokens(choice.get("index")) == 0:
                _choice(heard, choice)
        if usage := chunk.get("usage"):
            # Some servers count in each chunk: what counts is the count after the end.
            heard.usage, heard.counted = _usage(usage), heard.whole
    except (KeyError, TypeError, AttributeError, ValueError):
        raise HeardError("a chunk of the stream is not what the protocol says") from None


def _choice(heard: Heard, choice: Mapping[str, Any]) -> None:
    delta = choice.get("delta") or {}
    if (text := delta.get("content")) is not None:
        heard.pieces.append(heard.say(text_of(text)))
    if refused := delta.get("refusal"):
        heard.say(text_of(refused))
        heard.ended = Trouble.refused
    for piece in delta.get("tool_calls") or ():
        function = piece.get("function") or {}
        call = _call(heard, piece, function)
        if (name := function.get("name")) and not call.name:
            call.name = heard.say(text_of(name))
        if (arguments := function.get("arguments")) is not None:
            call.pieces.append(heard.say(spelled(arguments)))
    if (finish := choice.get("finish_reason")) is not None:
        heard.whole = True
        heard.ended = heard.ended or STOPS.get(finish)


def _call(heard: Heard, piece: Mapping[str, Any], function: Mapping[str, Any]) -> ToolCall:
    """Some servers number no calls: then one that has a name, and not the id of the last one, is the next."""
    if piece.get("index") is not None:
        return heard.call(piece["index"])
    last = max(heard.calls, default=-1)
    begins = last < 0 or (function.get("name") and (piece.get("id") is None or piece["id"] != heard.calls[last].id))
    call = heard.call(last + 1 if begins else last)
    call.id = call.id or piece.get("id")
    return call


def events_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give an answer that came at once as the chunks of a stream."""
    choices = [{**choice, "delta": choice.get("message")} for choice in whole.get("choices") or ()]
    return [{**whole, "choices": choices}]


def _usage(told: Mapping[str, Any]) -> Usage:
    details = told.get("prompt_tokens_details") or {}
    read = tokens(details.get("cached_tokens"))
    written = tokens(details.get("cache_write_tokens"))
    return Usage(
        input_tokens=max(0, tokens(told.get("prompt_tokens")) - read - written),  # the whole prompt is told
        output_tokens=tokens(told.get("completion_tokens")),
        cache_read_tokens=read,
        cache_written_tokens=written,
    )
