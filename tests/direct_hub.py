"""Requests to a hub of this process without sockets: its application is called in the thread that asks.

Two threads, an event loop and TCP take longer than most answers of localhub's API do. Pages, downloads, git and HEAD go through
the socket, and so does everything in tests that do not ask for this.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter
from starlette.types import Message
from urllib3 import HTTPHeaderDict, HTTPResponse

from deploy.localhub import api
from deploy.localhub.server import HubServer

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_by_socket = HTTPAdapter.send


async def _here(work: Callable[..., Any], *arguments: Any) -> Any:
    return work(*arguments)


@contextmanager
def direct(server: HubServer) -> Iterator[None]:
    """Answer what is asked of a hub's API here, and all else by its socket."""
    app = server._server.config.app

    def send(self: HTTPAdapter, request: requests.PreparedRequest, *given: Any, **named: Any) -> requests.Response:
        asked = urlsplit(request.url or "")
        if asked.port != server.port or not asked.path.startswith("/api/") or request.method not in METHODS:
            return _by_socket(self, request, *given, **named)
        return self.build_response(request, _answer(app, request))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPAdapter, "send", send)
        patch.setattr("requests.sessions.get_environ_proxies", lambda *_, **__: {})  # which reads the environment twice
        patch.setattr(api, "run_in_threadpool", _here)
        yield


def _answer(app: Any, request: requests.PreparedRequest) -> HTTPResponse:
    """What the application sends, which awaits nothing but its two channels.

    Raises:
        ChunkedEncodingError: the answer stops before its end.
    """
    asked = urlsplit(request.url or "")
    content = request.body or b""
    body = content.encode() if isinstance(content, str) else content
    headers = {name.lower(): value for name, value in request.headers.items()} | {"host": asked.netloc}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": asked.scheme,
        "path": unquote(asked.path),
        "raw_path": asked.path.encode(),
        "query_string": asked.query.encode(),
        "root_path": "",
        "headers": [(_bytes(name), _bytes(value)) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": (asked.hostname, asked.port),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    coroutine = app(scope, receive, send)
    try:
        coroutine.send(None)
    except StopIteration:
        pass
    else:
        coroutine.close()
        raise AssertionError(f"{request.method} {asked.path} waits for something")
    start, *parts = sent
    if parts[-1].get("more_body"):
        raise requests.exceptions.ChunkedEncodingError("the answer stops before its end")
    return HTTPResponse(
        io.BytesIO(b"".join(part.get("body", b"") for part in parts)),
        HTTPHeaderDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]),
        start["status"],
        reason="",
        preload_content=False,
        request_method=request.method,
    )


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("latin-1")
