"""What a provider's refusal means: its status, its own words for errors and its wish to be left alone. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from workers.models.protocol import ModelError, Question, Trouble
from workers.redaction import redacted

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
    """Tell what a response that is no success means; in a stream, where the status is 200, the body alone says it."""
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
    """Give what a provider says about a request that it does not take, as a comment may quote it.

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
    return UNSAFE.sub("?", ADDRESS.sub("(address)", kept))[:MOST_QUOTED].strip()


def sentence_of(trouble: Trouble, provider: str, status: int | None, body: object, said: str = "") -> str:
    """Give the sentence on a refusal, with the provider's words for it; its prose only where the request itself is at fault."""
    facts = [f"status {status}"] if status is not None and status >= 300 else []
    facts += [word for word in _words(body) if WORD.fullmatch(word)]
    quoted = f': "{said}"' if said and trouble in (Trouble.rejected, Trouble.too_long) else ""
    return f"{provider} {SENTENCES[trouble]}" + (f" ({', '.join(facts)})" if facts else "") + quoted


def refusal(
    provider: str, status: int, body: object, headers: Mapping[str, str], *, said: str = "", request_id: str | None
) -> ModelError:
    """Give the error for a response that is no success; what it took is its caller's to say."""
    trouble = trouble_of(status, body)
    return ModelError(
        trouble,
        sentence_of(trouble, provider, status, body, said),
        provider=provider,
        retry_after_s=retry_after_s(headers),
        request_id=request_id,
    )


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Give the seconds after which the server wants to be asked again, None where it does not say.

    Source: RFC 9110, 10.2.3 (seconds, or a date); ``retry-after-ms`` is what OpenAI's servers add. A date is held
    against the server's own ``date``, since the clocks of two machines differ.
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
        since = _date(headers["date"]) if "date" in headers else (now or datetime.now(UTC))
        return _bounded((at - since).total_seconds())
    except (ValueError, OverflowError):
        return None


def short_id(value: object) -> str | None:
    """Give a provider's id of a request, if it is one."""
    return value if isinstance(value, str) and re.fullmatch(r"[\w.:-]{1,100}", value, re.ASCII) else None


def _date(text: str) -> datetime:
    at = parsedate_to_datetime(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _bounded(seconds: float) -> float | None:
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S) if math.isfinite(seconds) else None


def _error(body: object) -> Mapping[str, object]:
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _words(body: object) -> list[str]:
    error = _error(body)
    found = [error.get(name) for name in ("code", "type", "param")]
    return [word for word in found if isinstance(word, str)]


def _code(body: object) -> int | None:
    code = _error(body).get("code")
    if isinstance(code, str) and code.isdecimal() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 300 <= code < 600 else None


def _message(body: object) -> str:
    message = _error(body).get("message")
    text = message if isinstance(message, str) else body if isinstance(body, str) else ""
    return text[:4000]
