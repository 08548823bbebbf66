"""What a provider answers: a streamed reply with its bounds, tool calls and tokens, or a refusal with its status. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any

from workers.models.forms import MOST_CHARACTERS, FormError, object_in, parsed
from workers.models.ledger import CHARACTERS_A_TOKEN, most_of
from workers.models.protocol import Form, ModelError, Question, Trouble, Usage
from workers.redaction import redacted

MOST_CALLS = 8
MOST_TOKENS = 10**9


class StreamError(Exception):
    """The stream breaks the protocol; the text is ours."""


@dataclass
class ToolCall:
    """A tool call so far: ``pieces`` of its JSON input."""

    name: str = ""
    pieces: list[str] = field(default_factory=list)
    id: str | None = None

    def is_whole(self) -> bool:
        """Whether its input is at its end: one that goes on is no JSON yet."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            json.loads("".join(self.pieces), strict=False)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass
class StreamedAnswer:
    """What has arrived of an answer."""

    model: str = ""
    pieces: list[str] = field(default_factory=list)
    calls: dict[int, ToolCall] = field(default_factory=dict)
    items: list[Mapping[str, Any]] = field(default_factory=list)  # of the Responses API, each once it is at its end
    usage: Usage = field(default_factory=Usage)
    characters: int = 0
    error: Mapping[str, Any] | None = (
        None  # what the provider said in place of an answer, within a stream that began well
    )
    ended: Trouble | None = None  # why the provider stopped, where that is no whole answer
    whole: bool = False  # the provider said that the answer is at its end
    counted: bool = False  # and how long it became: before that its counts are of a part
    begun: bool = False  # the provider took the request: it has read the question, or is about to

    def count(self, text: str) -> str:
        """Count a piece of the answer.

        Raises:
            StreamError: the answer is larger than any that can be used.
        """
        self.characters += len(text)
        if self.characters > MOST_CHARACTERS:
            raise StreamError(f"the answer is longer than {MOST_CHARACTERS} characters")
        return text

    def call(self, index: object) -> ToolCall:
        """The call of a tool at a place of the answer.

        Raises:
            StreamError: the place is none, or there are more calls than any answer has.
        """
        if not isinstance(index, int) or isinstance(index, bool):
            raise StreamError("a tool is called at no place of the answer")
        if index not in self.calls and len(self.calls) >= MOST_CALLS:
            raise StreamError(f"the answer has more than {MOST_CALLS} calls")
        return self.calls.setdefault(index, ToolCall())

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(self.pieces)


def text_of(value: object) -> str:
    """A value of the stream that must be a text.

    Raises:
        StreamError: it is none.
    """
    if not isinstance(value, str):
        raise StreamError("what must be a text in the stream is none")
    return value


def content_text(value: object) -> str:
    """The text of a message, which some servers send in parts.

    Raises:
        StreamError: it has none.
    """
    return "".join(text_of(part["text"]) for part in value) if isinstance(value, list) else text_of(value)


def json_text(value: object) -> str:
    """The input of a tool as JSON; some servers send the object itself.

    Raises:
        StreamError: it is neither.
    """
    return json.dumps(value) if isinstance(value, dict) else text_of(value)


def tokens(value: object) -> int:
    """A count of tokens, 0 where a server sends none or nonsense."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else 0


def billed(streamed: StreamedAnswer, question: Question) -> Usage:
    """Tokens that a provider will bill for a request that has begun to be answered; where it counted nothing, the most.

    Some providers count what they read at the start, others at the end; all of them count the answer at its end. Until then the
    answer is what has arrived, and thinking its whole budget: no provider reports how much of that was used.
    """
    used = streamed.usage
    if not used.input_tokens + used.cache_read_tokens + used.cache_written_tokens:
        used = replace(used, input_tokens=most_of(question, None).input_tokens)
    if streamed.counted and used.output_tokens:
        return used
    output_tokens = min(-(-streamed.characters // CHARACTERS_A_TOKEN), question.most_tokens) + question.thinking_tokens
    return replace(used, output_tokens=max(used.output_tokens, output_tokens))


def conclude(streamed: StreamedAnswer, question: Question, provider: str) -> dict[str, Any] | None:
    """The form's object out of what was streamed, None for an answer in text.

    Raises:
        ModelError: it broke off, was cut off or declined, or is not what was asked for; without usage, which is its caller's.
    """
    if streamed.ended is Trouble.refused:
        raise ModelError(Trouble.refused, f"{provider} declined to answer", provider=provider)
    if streamed.ended is Trouble.truncated:
        room = f"{question.most_tokens} tokens"
        room += f" and {question.thinking_tokens} of thinking" if question.thinking_tokens else ""
        sentence = f"the answer was cut off at {room}"
        raise ModelError(Trouble.truncated, sentence, provider=provider)
    if streamed.ended is not None:
        raise ModelError(streamed.ended, "the model stopped before its answer was whole", provider=provider)
    if not streamed.whole and not _is_whole_call(streamed, question.form):
        raise ModelError(Trouble.unreachable, f"the answer of {provider} broke off", provider=provider)
    try:
        return _data(streamed, question.form)
    except FormError as error:
        fault = str(error)
    # Outside of the handler: the parser's error, which would hang on it, quotes the answer.
    raise ModelError(Trouble.malformed, f"the answer cannot be used: {fault}", provider=provider)


def _is_whole_call(streamed: StreamedAnswer, form: Form | None) -> bool:
    """Whether the answer is a call whose object is closed and fits its form: some servers say nothing at the end of a stream."""
    try:
        return form is not None and bool(streamed.calls) and bool(_data(streamed, form))
    except FormError:
        return False


def _data(streamed: StreamedAnswer, form: Form | None) -> dict[str, Any] | None:
    # Some servers send a call once more at its end.
    calls = list(
        {(call.id or at, call.name, "".join(call.pieces)): call for at, call in streamed.calls.items()}.values()
    )
    if form is None:
        if calls:
            raise FormError("it calls a tool, and none was offered")
        if not streamed.text.strip():
            raise FormError("it is empty")
        return None
    if not calls:
        # Some local models write the call as text.
        return object_in(streamed.text, form)
    if len(calls) > 1:
        raise FormError(f"it calls {len(calls)} tools; one call of {form.name} is the answer")
    # Some servers leave a namespace, a number or a channel beside the name, such as `functions.propose:0`.
    if form.name not in re.split(r"[^A-Za-z0-9_-]+", calls[0].name):
        raise FormError(f"it calls another tool than {form.name}")
    return parsed("".join(calls[0].pieces), form)


STATUSES = {
    401: Trouble.unauthorised,
    402: Trouble.unauthorised,
    403: Trouble.unauthorised,
    407: Trouble.unauthorised,
    408: Trouble.overdue,
    409: Trouble.failing,
    413: Trouble.too_long,
    425: Trouble.failing,
    429: Trouble.rate_limited,
    503: Trouble.overloaded,
    529: Trouble.overloaded,
}
# The words that the providers' published error schemas have for kinds of errors; in a stream there is no status.
KINDS = {
    "overloaded_error": Trouble.overloaded,
    "rate_limit_error": Trouble.rate_limited,
    "rate_limit_exceeded": Trouble.rate_limited,
    "api_error": Trouble.failing,
    "server_error": Trouble.failing,
    "timeout_error": Trouble.overdue,
    "authentication_error": Trouble.unauthorised,
    "invalid_api_key": Trouble.unauthorised,
    "permission_error": Trouble.unauthorised,
    "billing_error": Trouble.unauthorised,
    "insufficient_quota": Trouble.unauthorised,  # OpenAI sends it as a 429, which never passes
    "request_too_large": Trouble.too_long,
    "context_length_exceeded": Trouble.too_long,
    "invalid_request_error": Trouble.rejected,
    "not_found_error": Trouble.rejected,
    "model_not_found": Trouble.rejected,
    "content_filter": Trouble.refused,
    "content_policy_violation": Trouble.refused,
}
FINAL = frozenset({"insufficient_quota", "context_length_exceeded", "content_filter", "content_policy_violation"})
TOO_LONG = re.compile(
    r"prompt is too long|context[ _](?:length|window|size)|maximum context|too many (?:input )?tokens"
    r"|exceeds? the (?:available )?context",
    re.IGNORECASE,
)
SENTENCES = {
    Trouble.overloaded: "is overloaded",
    Trouble.rate_limited: "limits how often it is asked",
    Trouble.failing: "failed",
    Trouble.unreachable: "could not be reached",
    Trouble.overdue: "did not answer in time",
    Trouble.too_long: "says that the question is too long for the model",
    Trouble.unauthorised: "does not take the key, or the account may not ask (no credit, or no right to the model)",
    Trouble.rejected: "does not take the request",
    Trouble.refused: "declined to answer",
}
WORD = re.compile(r"[a-z][a-z0-9_.\[\]]{1,39}")  # of an error schema: no prose, and no key fits into it
MOST_QUOTED = 300  # characters of a provider's own sentence
ECHO = 16  # characters in a row that stand in the question as well are no sentence of the provider's
ADDRESS = re.compile(
    r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://\S*|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\b[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,9}:\d{2,5}\b"
)
UNSAFE = re.compile(r"[^A-Za-z0-9 .,:;'\"_/()=+-]")  # no markup, no mention, nothing invisible
LONGEST_RETRY_AFTER_S = 7 * 24 * 3600.0


def trouble_of(status: int, body: object) -> Trouble:
    """The meaning of an error response; in a stream, where the status is 200, its body alone determines it."""
    words = _words(body)
    for word in words:
        if word in FINAL:
            return KINDS[word]
    if status in (400, 422) or status < 400:
        if TOO_LONG.search(_message(body)):
            return Trouble.too_long
        known = [KINDS[word] for word in words if word in KINDS]
        if known:
            return known[0]
        return _by_status(_code(body) or status) if status < 300 else Trouble.rejected
    return _by_status(status)


def _by_status(status: int) -> Trouble:
    if status in STATUSES:
        return STATUSES[status]
    return Trouble.rejected if 300 <= status < 500 else Trouble.failing


def quotable(body: object, question: Question, secrets: Iterable[str]) -> str:
    """A provider's message about a request that it refused, as a comment may quote it.

    One line of plain characters, without secrets, addresses, and whatever it repeats of the question.
    """
    text = redacted(" ".join(_message(body).split()), secrets)[0]
    asked = " ".join(part.text for turn in question.messages for part in turn.parts)
    asked += " ".join(part.text for part in question.system)
    kept, at = "", 0
    while at < len(text) and len(kept) < MOST_QUOTED:
        same = ECHO if text[at : at + ECHO] in asked and len(text) - at >= ECHO else 0
        while same and text[at : at + same + 1] in asked and at + same < len(text):
            same += 1
        kept += text[at] if not same else "" if kept.endswith("...") else "..."
        at += same or 1
    return UNSAFE.sub("?", ADDRESS.sub("(address)", kept).replace("`", "'"))[:MOST_QUOTED].strip()


def sentence_of(trouble: Trouble, provider: str, status: int | None, body: object, excerpt: str = "") -> str:
    """The sentence on a refusal, with the provider's words for it; its prose only where the request itself is at fault."""
    facts = [f"status {status}"] if status is not None and status >= 300 else []
    facts += [word for word in _words(body) if WORD.fullmatch(word)]
    quoted = f': "{excerpt}"' if excerpt and trouble in (Trouble.rejected, Trouble.too_long) else ""
    return f"{provider} {SENTENCES[trouble]}" + (f" ({', '.join(facts)})" if facts else "") + quoted


def refusal(
    provider: str, status: int, body: object, headers: Mapping[str, str], *, excerpt: str = "", request_id: str | None
) -> ModelError:
    """The error for a response that is no success; what it took is its caller's to say."""
    trouble = trouble_of(status, body)
    return ModelError(
        trouble,
        sentence_of(trouble, provider, status, body, excerpt),
        provider=provider,
        retry_after_s=retry_after_s(headers),
        request_id=request_id,
    )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds after which the server wants to be asked again, None where it does not say.

    Source: RFC 9110, 10.2.3 (seconds, or a date); ``retry-after-ms`` is what OpenAI's servers add. A date is compared
    with the server's own ``date``, since the clocks of two machines differ.
    """
    try:
        if "retry-after-ms" in headers:
            return _bounded(float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after", "").strip()
        if not text:
            return None
        if re.fullmatch(r"\d+(?:\.\d+)?", text):
            return _bounded(float(text))
        at = _date(text)
        since = _date(headers["date"]) if "date" in headers else datetime.now(UTC)
        return _bounded((at - since).total_seconds())
    except (ValueError, OverflowError):
        return None


def short_id(value: object) -> str | None:
    """A provider's id of a request, if it is one."""
    return value if isinstance(value, str) and re.fullmatch(r"[\w.:-]{1,100}", value, re.ASCII) else None


def _date(text: str) -> datetime:
    at = parsedate_to_datetime(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _bounded(seconds: float) -> float | None:
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) else None


def _error_of(body: object) -> Mapping[str, object]:
    """The object that says what is wrong; servers put it into one of an error or of errors, or into a list."""
    for _ in range(3):
        inner = body[0] if isinstance(body, list) and body else None
        if isinstance(body, Mapping):
            detail = body.get("detail")
            inner = body.get("error") or body.get("errors") or (detail if isinstance(detail, Mapping) else None)
        if not isinstance(inner, Mapping | list):
            break
        body = inner
    return body if isinstance(body, Mapping) else {}


def _words(body: object) -> list[str]:
    error = _error_of(body)
    values = [error.get(name) for name in ("code", "type", "param")]
    return [word for word in values if isinstance(word, str)]


def _code(body: object) -> int | None:
    code = _error_of(body).get("code")
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 300 <= code < 600 else None


def _message(body: object) -> str:
    error = _error_of(body)
    # FastAPI's detail is a list where parameters were refused.
    found = error.get("message") or error.get("detail") or error.get("error")
    parts = [it.get("msg") if isinstance(it, Mapping) else it for it in (found if isinstance(found, list) else [found])]
    if isinstance(relayed := error.get("metadata"), Mapping):
        parts.append(relayed.get("raw"))  # what the server behind a relay said
    text = "; ".join(part for part in parts if isinstance(part, str)) or (body if isinstance(body, str) else "")
    return _without_tags(text[:4000])


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.texts.append(data)


def _without_tags(text: str) -> str:
    """The words of an HTML page, as whatever stands before a provider answers with; other text as it is."""
    if not text.lstrip().startswith("<"):
        return text
    page = _Page()
    page.feed(text)
    return " ".join(page.texts)
