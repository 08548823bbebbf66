"""OpenAI's chat completions, as many servers speak them, and its Responses API, by the SDK, which is an optional extra.

Source: developers.openai.com/api/docs, Chat completions, Responses, Streaming, Function calling; the parameter types of the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import httpx2

from workers.errors import WorkersError
from workers.models.client import Sdk, Streaming, send
from workers.models.forms import check_form
from workers.models.protocol import Answer, Endpoint, Part, Question, Trouble, Usage, nonblank, sendable, turns
from workers.models.responses import StreamedAnswer, StreamError, ToolCall, content_text, json_text, text_of, tokens
from workers.models.settings import Effort, OpenAIProtocol

CHAT_STOPS = {"length": Trouble.truncated, "content_filter": Trouble.refused}
BETWEEN = "\n\n"  # parts: plain text is what every server's template takes


def chat_parameters(
    question: Question, model: str, *, effort: Effort | None, with_temperature: bool, provider: str
) -> dict[str, Any]:
    """The parameters of ``chat.completions.create`` for a question. These servers cache prefixes by themselves.

    Raises:
        ModelError: nothing is asked.
        OpenFormError: the form cannot be held strictly.
    """
    messages = [{"role": message.role.value, "content": joined(message.parts)} for message in turns(question, provider)]
    if system := nonblank(question.system):
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
    """The parts of a text as one."""
    return BETWEEN.join(part.text for part in parts)


def read_chunk(streamed: StreamedAnswer, chunk: Mapping[str, Any]) -> None:
    """Take in one chunk of the stream.

    Raises:
        StreamError: the chunk is not what the protocol says.
    """
    try:
        streamed.model = streamed.model or str(chunk.get("model") or "")[:200]
        for choice in chunk.get("choices") or ():
            if tokens(choice.get("index")) == 0:
                _choice(streamed, choice)
        if usage := chunk.get("usage"):
            # Some servers count in each chunk: what counts is the count after the end.
            streamed.usage, streamed.counted = _usage(usage, "prompt", "completion"), streamed.whole
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StreamError("a chunk of the stream is not what the protocol says") from None


def _choice(streamed: StreamedAnswer, choice: Mapping[str, Any]) -> None:
    delta = choice.get("delta") or choice.get("message") or {}  # a message where the answer came at once
    if (text := delta.get("content")) is not None:
        streamed.pieces.append(streamed.count(content_text(text)))
    if refused := delta.get("refusal"):
        streamed.count(text_of(refused))
        streamed.ended = Trouble.refused
    alone = delta.get("function_call")  # what calls of tools were before they were several
    for piece in [*(delta.get("tool_calls") or ()), *([{"index": 0, "function": alone}] if alone else ())]:
        function = piece.get("function") or {}
        call = _call(streamed, piece, function)
        if (name := function.get("name")) and name != call.name:
            call.name += streamed.count(text_of(name))
        if (arguments := function.get("arguments")) is not None:
            call.pieces.append(streamed.count(json_text(arguments)))
    if finish := choice.get("finish_reason"):  # an empty one is none
        streamed.whole = True
        streamed.ended = streamed.ended or CHAT_STOPS.get(finish)


def _call(streamed: StreamedAnswer, piece: Mapping[str, Any], function: Mapping[str, Any]) -> ToolCall:
    """Some servers number no calls: then a named piece is the next one where its id is another, or the last one is whole."""
    index = piece.get("index")
    if index is not None:
        return streamed.call(int(index) if isinstance(index, str) and index.isdecimal() else index)
    last = streamed.calls.get(at := max(streamed.calls, default=0))
    other = last is not None and bool(piece.get("id") and last.id and piece["id"] != last.id)
    begins = last is not None and bool(function.get("name")) and (other or last.is_whole())
    call = streamed.call(at + 1 if begins else at)
    call.id = call.id or piece.get("id")
    return call


RESPONSES_STOPS = {"max_output_tokens": Trouble.truncated, "content_filter": Trouble.refused}
ENDS = ("response.completed", "response.incomplete", "response.failed")


def responses_parameters(
    question: Question, model: str, *, effort: Effort | None, with_temperature: bool, provider: str
) -> dict[str, Any]:
    """The parameters of ``responses.create`` for a question. Nothing of it is stored at the provider.

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
    if system := nonblank(question.system):
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


def read_event(streamed: StreamedAnswer, event: Mapping[str, Any]) -> None:
    """Take in one event. The last one holds the whole answer; those before it are counted alone.

    Raises:
        StreamError: the event is not what the protocol says.
    """
    try:
        kind = event.get("type")
        if kind in ENDS:
            _ended(streamed, event["response"])
        elif kind == "error":
            streamed.error = {"code": event.get("code"), "message": event.get("message")}
        elif kind == "response.output_item.done":
            streamed.items.append(event["item"])
        elif isinstance(kind, str) and kind.endswith(".delta"):
            streamed.count(text_of(event.get("delta")))
        elif kind == "response.created":
            streamed.model = str(event["response"].get("model") or "")[:200]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StreamError("an event of the stream is not what the protocol says") from None


def events_of(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """An answer that came at once as the events of a stream."""
    return [{"type": "response.completed", "response": whole}]


def _ended(streamed: StreamedAnswer, response: Mapping[str, Any]) -> None:
    streamed.model = str(response.get("model") or streamed.model)[:200]
    if usage := response.get("usage"):
        streamed.usage, streamed.counted = _usage(usage, "input", "output"), True
    if error := response.get("error"):
        streamed.error = {"code": error.get("code"), "message": error.get("message")}
        return
    take = text_of if streamed.characters else streamed.count  # what was streamed is counted already
    # Some servers leave out at the end what they have streamed.
    for place, item in enumerate(response.get("output") or streamed.items):
        if item["type"] == "function_call":
            call = streamed.call(place)
            call.name = take(text_of(item["name"]))
            call.pieces.append(take(json_text(item["arguments"])))
        elif item["type"] == "message":
            parts = item["content"]
            if isinstance(parts, list) and any(part["type"] == "refusal" for part in parts):
                streamed.ended = Trouble.refused
            else:
                streamed.pieces.append(take(content_text(parts)))
    streamed.whole = True
    if response.get("status") == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        streamed.ended = streamed.ended or RESPONSES_STOPS.get(str(reason), Trouble.malformed)


BASE_URL = "https://api.openai.com/v1"


def _usage(counts: Mapping[str, Any], question: str, answer: str) -> Usage:
    details = counts.get(f"{question}_tokens_details") or {}
    read, cache_written = tokens(details.get("cached_tokens")), tokens(details.get("cache_write_tokens"))
    return Usage(
        input_tokens=max(
            0, tokens(counts.get(f"{question}_tokens")) - read - cache_written
        ),  # the count is of the whole prompt
        output_tokens=tokens(counts.get(f"{answer}_tokens")),
        cache_read_tokens=read,
        cache_written_tokens=cache_written,
    )


class ExtraMissingError(WorkersError):
    """An optional package that a setting needs is not installed; the text says how to install it."""


class OpenAIProvider:
    """A model of OpenAI, of a relay, or of a server of one's own such as vLLM."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        protocol: OpenAIProtocol = OpenAIProtocol.chat,
        effort: Effort | None = None,
        with_temperature: bool = True,
        key_header: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> None:
        """Take the endpoint; without a key no authorization is sent.

        ``key_header`` carries the bare key in place of a bearer in ``Authorization``; ``query`` is a part of every address.

        Raises:
            ExtraMissingError: the SDK is not installed.
        """
        if find_spec("openai") is None:
            raise ExtraMissingError(
                "KERNELSMITH_OPENAI_MODEL is set, and the package openai is not installed: pip install 'kernelsmith[openai]'"
            )
        self._endpoint = endpoint
        self._protocol = protocol
        self._effort = effort
        self._with_temperature = with_temperature
        self._key_header = key_header
        self._query = dict(query or {})

    @property
    def name(self) -> str:
        """The provider's name in the configuration."""
        return self._endpoint.name

    @property
    def model(self) -> str:
        """The configured model's name."""
        return self._endpoint.model

    def ask(self, question: Question, timeout_s: float, cancelled: Callable[[], bool]) -> Answer:
        """Ask once, streaming.

        Raises:
            ModelError: there is no answer that can be used.
            OpenFormError: the question's form cannot be held strictly, a fault of the program.
        """
        import openai

        responses = self._protocol is OpenAIProtocol.responses
        parameters = responses_parameters if responses else chat_parameters
        wanted = parameters(
            question,
            self.model,
            effort=self._effort,
            with_temperature=self._with_temperature,
            provider=self.name,
        )

        def opened(http: httpx2.Client) -> Streaming:
            key = self._endpoint.key
            client = openai.OpenAI(
                api_key=key.get_secret_value() if key is not None else "none",
                base_url=self._endpoint.base_url,
                default_query=self._query,
                http_client=http,
                timeout=timeout_s,  # the connection ends what is quiet or late before that
                max_retries=0,
            )
            bearer = key is not None and self._key_header is None
            headers: dict[str, Any] = {} if bearer else {"Authorization": openai.Omit()}
            if key is not None and self._key_header is not None:
                headers[self._key_header] = key.get_secret_value()
            resource: Any = client.responses if responses else client.chat.completions
            stream: Streaming = resource.create(stream=True, extra_headers=headers, **wanted)
            return stream

        read, events = (read_event, events_of) if responses else (read_chunk, lambda whole: [dict(whole)])
        sdk = Sdk(opened, read, events, (openai.OpenAIError,), "x-request-id")
        return send(self._endpoint, sdk, question, timeout_s, cancelled)
