"""One request to one provider: an HTTP client that can be ended at any moment, and one error of ours for whatever goes wrong.

The SDKs' own clients wait for the next bytes without looking up, and hold a connection as long as bytes trickle in.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn, Protocol

import httpcore2
import httpx2
from pydantic import BaseModel, SecretStr

from workers.models.forms import OpenFormError
from workers.models.ledger import most_of
from workers.models.protocol import Answer, Endpoint, ModelError, Question, Trouble, Usage
from workers.models.responses import StreamedAnswer, StreamError, billed, conclude, quotable, refusal, short_id

POLL_S = 0.25  # how long a cancelled request goes on at most while no byte comes
MOST_BYTES = 64 << 20  # of a whole answer: some 250 bytes of protocol around each token
MOST_EVENT_BYTES = 8 << 20  # of one event of the stream, which the SDKs join and parse as a whole
PIECE_BYTES = 1 << 16
PLAIN, ZIPPED = ("", "identity"), ("gzip", "x-gzip", "deflate")
GZIP = 0x1F  # the first byte. Source: RFC 1952, 2.3.1
ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")  # of an event
# At DEBUG these write whole requests, prompts included.
TALKATIVE = ("anthropic", "openai", "httpx2", "httpcore2")


@dataclass
class ActiveRequest:
    """One request on its way: how long it may take, who may end it, and why it was ended from here."""

    timeout_s: float
    quiet_s: float
    connect_s: float
    cancelled: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    ended: Trouble | None = None
    sentence: str = ""
    taken_bytes: int = 0
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self.deadline = self.clock() + self.timeout_s

    def check(self) -> float:
        """The seconds left, and end the request where there is no reason to go on."""
        if self.cancelled():
            self.end(Trouble.cancelled, "the request was cancelled")
        left = self.deadline - self.clock()
        if left <= 0:
            self.end(Trouble.overdue, f"there was no whole answer within {self.timeout_s:g} s")
        return left

    def end(self, trouble: Trouble, sentence: str) -> NoReturn:
        """End the request for a reason of ours; the SDKs wrap what is raised, so that the reason is kept here."""
        self.ended, self.sentence = trouble, sentence
        raise httpx2.ReadError(sentence)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream, call: ActiveRequest) -> None:
        self._inner = inner
        self._call = call

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        began = self._call.clock()
        while True:
            left = self._call.check()
            try:
                chunk = self._inner.read(max_bytes, max(0.01, min(POLL_S, left)))
            except httpcore2.ReadTimeout:
                if self._call.clock() - began >= self._call.quiet_s:
                    self._call.end(Trouble.overdue, f"nothing came for {self._call.quiet_s:g} s")
                continue
            self._call.taken_bytes += len(chunk)
            if self._call.taken_bytes > MOST_BYTES:
                self._call.end(Trouble.malformed, f"the answer is larger than {MOST_BYTES >> 20} MiB")
            return chunk

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, min(self._call.quiet_s, self._call.check()))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        wait_s = min(self._call.connect_s, self._call.check())
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, wait_s), self._call)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, call: ActiveRequest) -> None:
        self._inner = httpcore2.SyncBackend()
        self._call = call

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        wait_s = min(self._call.connect_s, self._call.check())
        inner = self._inner.connect_tcp(host, port, wait_s, local_address, socket_options)
        return _Stream(inner, self._call)


class _Body(httpx2.SyncByteStream):
    """A response's bytes, refused where one event of the stream does not end."""

    def __init__(self, pieces: Iterable[bytes], call: ActiveRequest, stream: Any) -> None:
        self._pieces = pieces
        self._call = call
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        open_bytes, tail = 0, b""
        for chunk in self._pieces:
            self._call.check()
            seen = tail + chunk
            end = max(seen.rfind(mark) + len(mark) if mark in seen else 0 for mark in ENDS)
            open_bytes = len(seen) - end if end else open_bytes + len(chunk)
            if open_bytes > MOST_EVENT_BYTES:
                self._call.end(Trouble.malformed, f"a piece of the answer is larger than {MOST_EVENT_BYTES >> 20} MiB")
            tail = seen[-3:]
            yield chunk

    def close(self) -> None:
        self._stream.close()


def _unzipped(stream: Iterable[bytes], call: ActiveRequest) -> Iterator[bytes]:
    """A relay may compress what was asked for plainly. In pieces of a bounded size: few bytes can unfold to any number."""
    unfolding, taken = None, 0
    for chunk in stream:
        left, full = chunk, False
        while left or full:
            if unfolding is None or unfolding.eof:  # gzip may have several members
                unfolding = zlib.decompressobj(wbits=_window(left))
            try:
                piece = unfolding.decompress(left, PIECE_BYTES)
            except zlib.error:
                call.end(Trouble.malformed, "the answer is not compressed as it says")
            left = unfolding.unused_data if unfolding.eof else unfolding.unconsumed_tail
            full = len(piece) == PIECE_BYTES and not unfolding.eof
            taken += len(piece)
            if taken > MOST_BYTES:
                call.end(Trouble.malformed, f"the answer is larger than {MOST_BYTES >> 20} MiB")
            yield piece


def _window(head: bytes) -> int:
    """What zlib has to know of compressed bytes: they begin with a header of gzip or zlib, or, as some send deflate, with none."""
    return zlib.MAX_WBITS | 32 if head[0] == GZIP or head[0] & 15 == zlib.DEFLATED else -zlib.MAX_WBITS


class _Transport(httpx2.BaseTransport):
    def __init__(self, call: ActiveRequest, context: ssl.SSLContext, proxy: SecretStr | None) -> None:
        self._call = call
        backend = _Backend(call)
        self._pool: httpcore2.ConnectionPool
        if proxy is None:
            self._pool = httpcore2.ConnectionPool(ssl_context=context, network_backend=backend, max_connections=1)
        else:
            known = httpx2.Proxy(proxy.get_secret_value())
            self._pool = httpcore2.HTTPProxy(
                str(known.url), known.raw_auth, ssl_context=context, network_backend=backend, max_connections=1
            )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        where = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        outgoing = httpcore2.Request(
            request.method, where, headers=request.headers.raw, content=request.stream, extensions=request.extensions
        )
        response = self._pool.handle_request(outgoing)
        headers = httpx2.Headers(response.headers)
        encoding = headers.pop("content-encoding", "").strip().lower()
        if encoding not in (*PLAIN, *ZIPPED):
            response.close()
            self._call.end(Trouble.malformed, "the answer is compressed otherwise than by gzip or deflate")
        raw: Any = response.stream
        pieces = raw if encoding in PLAIN else _unzipped(raw, self._call)
        return httpx2.Response(
            response.status,
            headers=headers,
            stream=_Body(pieces, self._call, raw),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


def client_for(call: ActiveRequest, context: ssl.SSLContext, proxy: SecretStr | None = None) -> httpx2.Client:
    """An HTTP client for one request. It follows no redirect, so that a key goes to the configured address alone.

    A proxy is the configured one, never one of the environment.
    """
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    return httpx2.Client(
        transport=_Transport(call, context, proxy),
        trust_env=False,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
    )


CHARACTERS_OF_AN_ERROR = 20_000  # of a body that is no success; anything longer says nothing more
FAILURES: tuple[type[Exception], ...] = (
    StreamError,
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


class Streaming(Protocol):
    """A stream of one of the SDKs: typed events, over a response."""

    response: httpx2.Response

    def __iter__(self) -> Iterator[Any]:
        """The events."""
        ...


@dataclass(frozen=True)
class Sdk:
    """How one SDK is called."""

    open: Callable[[httpx2.Client], Streaming]
    read: Callable[[StreamedAnswer, Mapping[str, Any]], None]
    events_of: Callable[[Mapping[str, Any]], list[dict[str, Any]]]  # of an answer that came at once
    errors: tuple[type[Exception], ...]  # the root of the SDK's own
    request_id_header: str


@dataclass
class Exchange:
    """The state of one request, for its answer and for its error."""

    endpoint: Endpoint
    sdk: Sdk
    call: ActiveRequest
    question: Question
    began: Callable[[], None] = lambda: None
    streamed: StreamedAnswer = field(default_factory=StreamedAnswer)
    request_id: str | None = None

    def listen(self, http: httpx2.Client) -> None:
        """Send the request and take in the stream to its end.

        Raises:
            Exception: any of the SDK's, of the client's below it, or ``StreamError``; ``failure`` tells what they mean.
        """
        stream = self.sdk.open(http)
        self.streamed.begun = True
        try:
            self.request_id = short_id(stream.response.headers.get(self.sdk.request_id_header))
            kind = stream.response.headers.get("content-type", "").lower()
            if kind.startswith("text/event-stream"):
                self._take_events(stream)
            else:
                self._take_whole(stream.response)
            if self.streamed.error is not None:
                raise StreamError("the answer is an error")
        finally:
            stream.response.close()

    def _take_events(self, stream: Streaming) -> None:
        for event in stream:
            if not isinstance(event, BaseModel):
                raise StreamError("an event of the stream is not what the protocol says")
            # The SDKs build events without a check, so that a field may hold anything.
            self.sdk.read(self.streamed, event.model_dump(mode="python", warnings=False))
            self.began()
            self.call.check()

    def _take_whole(self, response: httpx2.Response) -> None:
        """Some servers do not stream, whatever they are asked."""
        try:
            whole = json.loads(response.read())
        except (ValueError, RecursionError):
            raise StreamError("the answer is no stream of events") from None
        if not isinstance(whole, dict):
            raise StreamError("the answer is no JSON object")
        error = whole.get("error")
        self.streamed.error = error if isinstance(error, dict) else None
        try:
            for event in () if self.streamed.error else self.sdk.events_of(whole):
                self.sdk.read(self.streamed, event)
            self.began()
        except (TypeError, AttributeError, ValueError):
            raise StreamError("the answer is not what the protocol says") from None

    def failure(self, error: Exception) -> ModelError:
        """What an error means. It is not kept: requests with their headers hang on those of the SDKs."""
        if self.call.ended is not None:
            return self._error(self.call.ended, f"{self.endpoint.name}: {self.call.sentence}")
        if self.streamed.error is not None:
            return self._refused(200, dict(self.streamed.error), httpx2.Headers())
        if isinstance(error, StreamError):
            return self._error(Trouble.malformed, f"{self.endpoint.name}: {error}")
        response = getattr(error, "response", None)
        body = getattr(error, "body", None)
        if isinstance(error, self.sdk.errors) and (isinstance(response, httpx2.Response) or body is not None):
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
        """The tokens that the provider will bill; none where it did not take the request."""
        return billed(self.streamed, self.question) if self.streamed.begun else Usage()

    def _refused(self, status: int, body: object, headers: httpx2.Headers) -> ModelError:
        request_id = short_id(headers.get(self.sdk.request_id_header)) or self.request_id
        key = self.endpoint.key.get_secret_value() if self.endpoint.key is not None else ""
        excerpt = quotable(body, self.question, (key,))
        refused = refusal(self.endpoint.name, status, body, headers, excerpt=excerpt, request_id=request_id)
        refused.usage = self._used_for(refused.trouble)
        return refused

    def _used_for(self, trouble: Trouble) -> Usage:
        """What a provider will bill that ended the request with an error of its own."""
        if trouble in UNBILLED and self.streamed.usage == Usage() and not self.streamed.characters:
            return Usage()
        if trouble in READ_AND_REFUSED and not self.streamed.begun:
            return Usage(input_tokens=most_of(self.question, None).input_tokens)
        return self.used()


def send(
    endpoint: Endpoint,
    sdk: Sdk,
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
    call = ActiveRequest(timeout_s, endpoint.quiet_s, endpoint.connect_s, cancelled)
    exchange = Exchange(endpoint, sdk, call, question, began)
    failure: ModelError | None = None
    try:
        with client_for(call, _certificates(), endpoint.proxy) as http:
            exchange.listen(http)
    except (ModelError, OpenFormError):
        raise
    except (*sdk.errors, *FAILURES) as error:
        failure = exchange.failure(error)
    if failure is None:
        try:
            data = conclude(exchange.streamed, question, endpoint.name)
        except ModelError as error:
            failure = error
            failure.usage, failure.request_id = exchange.used(), exchange.request_id
        else:
            streamed = exchange.streamed
            model = streamed.model or endpoint.model
            return Answer(streamed.text, data, exchange.used(), endpoint.name, model, exchange.request_id)
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
    """Whether a connection ended too early, rather than sent nonsense; the library has one error for both."""
    return isinstance(error, httpcore2.RemoteProtocolError) and (
        "peer closed connection" in str(error) or "disconnected without" in str(error)
    )
