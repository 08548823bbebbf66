"""A server on this machine that speaks a provider's protocol over real HTTP, checks each request, and fails as it is told."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

PATIENCE_S = 120.0  # of a reply that hangs until its client goes away


class WrongRequestError(Exception):
    """A request that the provider would refuse with status 400."""


@dataclass(frozen=True)
class Reply:
    """What the server does with one request; the pieces are written and flushed one by one."""

    pieces: Iterable[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pause_s: float = 0.0  # before each piece
    hang_before_headers: bool = False
    hang_after: int | None = None  # that many pieces were written
    reset_after: int | None = None
    drop_after: int | None = None  # the connection ends without the end of the answer


@dataclass
class Asked:
    """A request that came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    left: threading.Event = field(default_factory=threading.Event)  # its client went away while it was waited for


@dataclass
class ProtocolServer:
    """A provider: its replies in order, what it was asked, and what was wrong with that."""

    base_url: str
    check: Callable[[Asked], None]
    wrong: Callable[[str], Reply]
    replies: deque[Reply | Callable[[Asked], Reply]] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def next(self, *replies: Reply | Callable[[Asked], Reply]) -> None:
        """Answer the next requests with these, each once, in this order; a function gives the reply to its request."""
        self.replies.extend(replies)

    def reply_to(self, asked: Asked) -> Reply:
        """Take a request in."""
        self.asked.append(asked)
        try:
            self.check(asked)
        except WrongRequestError as error:
            self.faults.append(str(error))
            return self.wrong(str(error))
        if not self.replies:
            self.faults.append("a request came that no reply was made for")
            return self.wrong("no reply is left")
        reply = self.replies.popleft()
        return reply if isinstance(reply, Reply) else reply(asked)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: ProtocolServer  # set in a subclass for each server

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.path, headers, json.loads(text))
        reply = self.provider.reply_to(asked)
        self.close_connection = True
        try:
            self._write(reply, asked)
        except (BrokenPipeError, ConnectionResetError):
            asked.left.set()

    def _write(self, reply: Reply, asked: Asked) -> None:
        if reply.hang_before_headers:
            self._hang(asked)
            return
        self.send_response_only(reply.status)
        for name, value in ({"content-type": "text/event-stream"} | reply.headers).items():
            self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for count, piece in enumerate(chain(reply.pieces, (b"",))):
            if count == reply.hang_after:
                self._hang(asked)
                return
            if count == reply.reset_after:
                # Without lingering a close is a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                return
            if count == reply.drop_after:
                return
            time.sleep(reply.pause_s)
            if piece:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _hang(self, asked: Asked) -> None:
        self.connection.settimeout(PATIENCE_S)
        if self.connection.recv(1) == b"":
            asked.left.set()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        with suppress(OSError):  # the client may be gone, and a reply may have closed the connection
            super().handle()

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()


@contextmanager
def serving(
    check: Callable[[Asked], None],
    wrong: Callable[[str], Reply],
    path: str = "",
    tls: ssl.SSLContext | None = None,
) -> Iterator[ProtocolServer]:
    """Serve on loopback until the end of the block; wrong requests and replies that nobody asked for fail the test then."""
    provider = ProtocolServer("", check, wrong)
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    provider.base_url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}{path}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert provider.faults == []
    assert not provider.replies, "a reply was made that nobody asked for"
