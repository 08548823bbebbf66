"""The way to a provider: an HTTP client that can be ended at any moment, follows nobody elsewhere and bounds what it takes in.

The SDKs' own clients wait for the next bytes without looking up, and hold a connection as long as bytes trickle in.
"""

from __future__ import annotations

import logging
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import httpcore2
import httpx2
from pydantic import SecretStr

from workers.models.protocol import Trouble

POLL_S = 0.25  # how long a cancelled request goes on at most while no byte comes
MOST_BYTES = 64 << 20  # of a whole answer: some 250 bytes of protocol around each token
MOST_EVENT_BYTES = 8 << 20  # of one event of the stream, which the SDKs join and parse as a whole
PIECE_BYTES = 1 << 16
ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")  # of an event

# At DEBUG these write whole requests, prompts included.
TALKATIVE = ("anthropic", "openai", "httpx2", "httpcore2")


@dataclass
class Call:
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
        """Give the seconds left, and end the request where there is no reason to go on."""
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
    def __init__(self, inner: httpcore2.NetworkStream, call: Call) -> None:
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
    def __init__(self, call: Call) -> None:
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

    def __init__(self, pieces: Iterable[bytes], call: Call, stream: Any) -> None:
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


def _unzipped(stream: Iterable[bytes], call: Call) -> Iterator[bytes]:
    """A relay may compress what was asked for plainly. In pieces of a bounded size: few bytes can unfold to any number."""
    unfolding = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    taken = 0
    for chunk in stream:
        left, full = chunk, True
        while (left or full) and not unfolding.eof:
            try:
                piece = unfolding.decompress(left, PIECE_BYTES)
            except zlib.error:
                call.end(Trouble.malformed, "the answer is not compressed as it says")
            left, full = unfolding.unconsumed_tail, len(piece) == PIECE_BYTES
            taken += len(piece)
            if taken > MOST_BYTES:
                call.end(Trouble.malformed, f"the answer is larger than {MOST_BYTES >> 20} MiB")
            yield piece


class _Transport(httpx2.BaseTransport):
    def __init__(self, call: Call, context: ssl.SSLContext, proxy: SecretStr | None) -> None:
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
        encoding = headers.pop("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            response.close()
            self._call.end(Trouble.malformed, "the answer is compressed otherwise than by gzip")
        raw: Any = response.stream
        pieces = raw if encoding == "identity" else _unzipped(raw, self._call)
        return httpx2.Response(
            response.status,
            headers=headers,
            stream=_Body(pieces, self._call, raw),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


def client_for(call: Call, context: ssl.SSLContext, proxy: SecretStr | None = None) -> httpx2.Client:
    """Give an HTTP client for one request. It follows no redirect, so that a key goes to the configured address alone.

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
