"""One question to one provider over the wire: whatever goes wrong, one error of ours comes out, and no key with it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import httpcore2
import httpx2
from pydantic import BaseModel, SecretStr

from workers.models.budgets import most_of
from workers.models.faults import quotable, refusal, short_id
from workers.models.forms import OpenFormError
from workers.models.heard import Heard, HeardError, billed, concluded
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.models.wire import Call, client_for

CHARACTERS_OF_AN_ERROR = 20_000  # of a body that is no success; anything longer says nothing more

FAILURES: tuple[type[Exception], ...] = (
    HeardError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    httpx2.StreamError,
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
    OSError,
    ValueError,
    TypeError,
    RecursionError,
)

# Errors of a provider that has looked at the request and not at the question; as the first event of a stream too.
UNBILLED = frozenset(
    {Trouble.overloaded, Trouble.rate_limited, Trouble.unauthorised, Trouble.rejected, Trouble.too_long}
)
# What a provider has read before it refuses with a status. Source: learn.microsoft.com, Azure OpenAI, "Understanding costs": 400 by
# the content filter and 408 are billed.
READ_AND_REFUSED = frozenset({Trouble.refused, Trouble.overdue})


@dataclass(frozen=True)
class Endpoint:
    """Where a provider is asked, with which model and key, and how long silence is borne."""

    name: str  # in the configuration
    model: str
    base_url: str
    key: SecretStr | None = None
    connect_s: float = 10.0
    quiet_s: float = 120.0  # without any byte
    proxy: SecretStr | None = None  # with its user and password


class Streaming(Protocol):
    """A stream of one of the SDKs: typed events, over a response."""

    response: httpx2.Response

    def __iter__(self) -> Iterator[Any]:
        """Give the events."""
        ...


@dataclass(frozen=True)
class Tongue:
    """How one SDK is spoken to."""

    open: Callable[[httpx2.Client], Streaming]
    hear: Callable[[Heard, Mapping[str, Any]], None]
    events_of: Callable[[Mapping[str, Any]], list[dict[str, Any]]]  # of an answer that came at once
    errors: tuple[type[Exception], ...]  # the root of the SDK's own
    request_id_header: str


@dataclass
class Exchange:
    """The state of one request, for the answer and for the error alike."""

    endpoint: Endpoint
    tongue: Tongue
    call: Call
    question: Question
    began: Callable[[], None] = lambda: None
    heard: Heard = field(default_factory=Heard)
    request_id: str | None = None

    def listen(self, http: httpx2.Client) -> None:
        """Send the request and take in the stream to its end.

        Raises:
            Exception: any of the SDK's, of the client's below it, or ``HeardError``; ``failure`` tells what they mean.
        """
        stream = self.tongue.open(http)
        self.heard.begun = True
        try:
            self.request_id = short_id(stream.response.headers.get(self.tongue.request_id_header))
            kind = stream.response.headers.get("content-type", "").lower()
            if kind.startswith("application/json"):
                self._take_whole(stream.response)
            elif not kind.startswith("text/event-stream"):
                raise HeardError("the answer is no stream of events")
            else:
                self._take_events(stream)
            if self.heard.error is not None:
                raise HeardError("the answer is an error")
        finally:
            stream.response.close()

    def _take_events(self, stream: Streaming) -> None:
        for event in stream:
            if not isinstance(event, BaseModel):
                raise HeardError("an event of the stream is not what the protocol says")
            # The SDKs build events without a check, so that a field may hold anything.
            self.tongue.hear(self.heard, event.model_dump(mode="python", warnings=False))
            self.began()
            self.call.check()

    def _take_whole(self, response: httpx2.Response) -> None:
        """Some servers do not stream, whatever they are asked."""
        try:
            whole = json.loads(response.read())
        except (ValueError, RecursionError):
            raise HeardError("the answer is no JSON") from None
        if not isinstance(whole, dict):
            raise HeardError("the answer is no JSON object")
        error = whole.get("error")
        self.heard.error = error if isinstance(error, dict) else None
        try:
            for event in () if self.heard.error else self.tongue.events_of(whole):
                self.tongue.hear(self.heard, event)
            self.began()
        except (TypeError, AttributeError, ValueError):
            raise HeardError("the answer is not what the protocol says") from None

    def failure(self, error: Exception) -> ModelError:
        """Tell what an error means. It is not kept: requests with their headers hang on those of the SDKs."""
        if self.call.ended is not None:
            return self._error(self.call.ended, f"{self.endpoint.name}: {self.call.sentence}")
        if self.heard.error is not None:
            return self._refused(200, dict(self.heard.error), httpx2.Headers())
        if isinstance(error, HeardError):
            return self._error(Trouble.malformed, f"{self.endpoint.name}: {error}")
        response = getattr(error, "response", None)
        body = getattr(error, "body", None)
        if isinstance(error, self.tongue.errors) and (isinstance(response, httpx2.Response) or body is not None):
            return self._refused(
                response.status_code if isinstance(response, httpx2.Response) else 200,
                body[:CHARACTERS_OF_AN_ERROR] if isinstance(body, str) else body,
                response.headers if isinstance(response, httpx2.Response) else httpx2.Headers(),
            )
        causes = list(_causes(error))
        # The sentences name no address: they reach comments, and that of a relay inside is nobody's business there.
        if any(
            isinstance(it, ssl.SSLCertVerificationError) for it in causes
        ):  # a ValueError too, so that it comes first
            sentence = f"{self.endpoint.name} shows a certificate that this host does not trust"
            return self._error(Trouble.rejected, sentence)
        nonsense = any(isinstance(it, ValueError | RecursionError | httpcore2.RemoteProtocolError) for it in causes)
        if nonsense and not any(_broke_off(it) for it in causes):
            return self._error(Trouble.malformed, f"{self.endpoint.name} does not speak its protocol")
        if any(isinstance(it, httpcore2.WriteTimeout | httpcore2.ReadTimeout) for it in causes):
            return self._error(Trouble.overdue, f"{self.endpoint.name} does not take the question in")
        if self.call.taken_bytes:
            return self._error(Trouble.unreachable, f"the connection to {self.endpoint.name} broke off")
        return self._error(Trouble.unreachable, f"{self.endpoint.name} could not be reached")

    def _error(self, trouble: Trouble, sentence: str) -> ModelError:
        return ModelError(trouble, sentence, provider=self.endpoint.name, usage=self.used(), request_id=self.request_id)

    def used(self) -> Usage:
        """Give what the provider will bill; nothing where it did not take the request."""
        return billed(self.heard, self.question) if self.heard.begun else Usage()

    def _refused(self, status: int, body: object, headers: httpx2.Headers) -> ModelError:
        request_id = short_id(headers.get(self.tongue.request_id_header)) or self.request_id
        key = self.endpoint.key.get_secret_value() if self.endpoint.key is not None else ""
        said = quotable(body, self.question, (key,))
        refused = refusal(self.endpoint.name, status, body, headers, said=said, request_id=request_id)
        refused.usage = self._used_for(refused.trouble)
        return refused

    def _used_for(self, trouble: Trouble) -> Usage:
        """Give what a provider will bill that ended the request with an error of its own."""
        if trouble in UNBILLED and self.heard.usage == Usage() and not self.heard.characters:
            return Usage()
        if trouble in READ_AND_REFUSED and not self.heard.begun:
            return Usage(input_tokens=most_of(self.question, None).input_tokens)
        return self.used()


def asked(
    endpoint: Endpoint,
    tongue: Tongue,
    question: Question,
    timeout_s: float,
    cancelled: Callable[[], bool],
    began: Callable[[], None] = lambda: None,
) -> Answer:
    """Ask once; ``began`` is called with each event of the stream, the first one included.

    Raises:
        ModelError: there is no answer that can be used; neither its cause nor its context is kept.
        OpenFormError: the question's form cannot be held strictly, a fault of the program.
    """
    call = Call(timeout_s, endpoint.quiet_s, endpoint.connect_s, cancelled)
    exchange = Exchange(endpoint, tongue, call, question, began)
    failure: ModelError | None = None
    try:
        with client_for(call, _certificates(), endpoint.proxy) as http:
            exchange.listen(http)
    except (ModelError, OpenFormError):
        raise
    except (*tongue.errors, *FAILURES) as error:
        failure = exchange.failure(error)
    if failure is None:
        try:
            data = concluded(exchange.heard, question, endpoint.name)
        except ModelError as error:
            failure = error
            failure.usage, failure.request_id = exchange.used(), exchange.request_id
        else:
            heard = exchange.heard
            model = heard.model or endpoint.model
            return Answer(heard.text, data, exchange.used(), endpoint.name, model, exchange.request_id)
    # Raised here, outside of any handler, so that no error of an SDK hangs on it as its context.
    raise failure


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _causes(error: BaseException) -> Iterable[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _broke_off(error: BaseException) -> bool:
    """Tell a connection that ended too early from nonsense on it; the library has one error for both."""
    return isinstance(error, httpcore2.RemoteProtocolError) and (
        "peer closed connection" in str(error) or "disconnected without" in str(error)
    )
