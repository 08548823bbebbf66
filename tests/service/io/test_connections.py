"""Connections: whoever keeps one without a request loses it, and those who have a request are answered meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from service import server
from service.metrics import CONNECTIONS_DROPPED

HALF_HEADER = b"POST /webhook HTTP/1.1\r\nhost: x\r\nx-half"
HALF_BODY = b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf"
UNREAD_BODY = b"POST /livez HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nhalf"
ANSWERED = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n"


def application() -> FastAPI:
    app = FastAPI()

    @app.api_route("/livez", methods=["GET", "POST"])
    async def live() -> PlainTextResponse:
        return PlainTextResponse("alive\n")

    @app.post("/read")
    async def read(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{len(await request.body())}")

    @app.get("/slow")
    async def slow() -> PlainTextResponse:
        await asyncio.sleep(1.0)
        return PlainTextResponse("slow\n")

    @app.get("/large")
    async def large() -> PlainTextResponse:
        return PlainTextResponse("x" * 30_000_000)

    return app


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The service's own server, as ``server.run`` sets it up, with short times."""
    monkeypatch.setattr(server, "RECEIVE_S", 0.4)
    made: list[uvicorn.Server] = []

    def remembered(config: uvicorn.Config) -> uvicorn.Server:
        made.append(uvicorn.Server(config))
        return made[0]

    monkeypatch.setattr(sys.modules["uvicorn.main"], "Server", remembered)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()[1]
    thread = threading.Thread(target=server.run, args=(application(), "127.0.0.1", free))
    thread.start()
    until(lambda: bool(made) and made[0].started)
    yield free
    made[0].should_exit = True
    made[0].force_exit = True
    thread.join(20)
    assert not thread.is_alive()


def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "it did not come true in time"
        time.sleep(0.02)


def connected(port: int, sent: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=20)
    made.sendall(sent)
    return made


def answer(port: int, sent: bytes = ANSWERED) -> bytes:
    with connected(port, sent) as asked:
        return asked.recv(65536)


def whole(peer: socket.socket) -> bytes:
    """Read until the server ends the connection."""
    return b"".join(iter(lambda: peer.recv(65536), b""))


def is_dropped(peer: socket.socket) -> bool:
    """Tell whether the server ended a connection, after whatever it had answered."""
    with contextlib.suppress(ConnectionResetError):
        while peer.recv(65536):
            pass
    return True


def dropped(reason: str) -> float:
    return CONNECTIONS_DROPPED.labels(reason=reason)._value.get()


@pytest.mark.parametrize("sent", [b"", HALF_HEADER, HALF_BODY], ids=["nothing", "half a header", "half a body"])
def test_a_hundred_connections_without_a_whole_request_keep_nobody_from_being_answered(port: int, sent: bytes) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(connected(port, sent))
        assert answer(port).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [b"", HALF_HEADER, ANSWERED, UNREAD_BODY, ANSWERED + HALF_HEADER],
    ids=[
        "nothing",
        "half a header",
        "nothing after an answer",
        "half a body after the answer",
        "half of a second header",
    ],
)
def test_a_connection_that_sends_no_whole_request_in_time_is_dropped(port: int, sent: bytes) -> None:
    start_s = time.monotonic()
    with connected(port, sent) as peer:
        assert is_dropped(peer)
    assert time.monotonic() - start_s < 10.0


def test_a_header_that_comes_byte_by_byte_gains_no_time(port: int) -> None:
    before, start_s = dropped("late"), time.monotonic()
    with connected(port) as peer, contextlib.suppress(OSError):
        for byte in HALF_HEADER * 10:
            peer.sendall(bytes([byte]))
            time.sleep(0.05)
            assert time.monotonic() - start_s < 10.0
    assert dropped("late") == before + 1


def test_a_request_may_take_longer_to_answer_than_to_send(port: int) -> None:
    with connected(port, SLOW) as asked:
        assert whole(asked).endswith(b"slow\n")


def test_whoever_reads_slowly_keeps_the_connection_and_whoever_does_not_read_loses_it(port: int) -> None:
    before = dropped("late")
    with connected(port, LARGE) as slow, connected(port, LARGE) as never:
        read = 0
        while read < 30_000_000:
            piece = slow.recv(2_000_000)
            assert piece, "it was dropped while it was reading"
            read += len(piece)
            time.sleep(0.03)
        until(lambda: dropped("late") >= before + 1)
        assert is_dropped(never)


def test_beyond_the_limit_the_oldest_without_a_request_makes_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RECEIVE_S", 60.0)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 5)
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(connected(port, SLOW))
        time.sleep(0.2)
        waiting = [stack.enter_context(connected(port, HALF_HEADER)) for _ in range(4)]
        assert answer(port).startswith(b"HTTP/1.1 200")
        assert is_dropped(waiting[0])
        waiting[1].settimeout(0.2)
        with pytest.raises(TimeoutError):
            waiting[1].recv(1)
        assert whole(slow).endswith(b"slow\n")
