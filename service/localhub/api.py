"""The API as one pass for every request: faults, who it is, whether it may, the route, and the headers of the answer."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from service.localhub import graphql, rate_limit
from service.localhub.auth import allow, can_see, identify
from service.localhub.errors import ApiError, not_found, unprocessable
from service.localhub.faults import FaultKind
from service.localhub.operations import OPERATIONS, Operation
from service.localhub.routes import HANDLERS, Call, Handler, Reply
from service.localhub.world import RequestRecord, World

_PREFIX = "/api/v3"


@dataclass(frozen=True)
class _Asked:
    """A request, read to its end."""

    method: str
    path: str
    params: Mapping[str, Any]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes = b""

    def json(self) -> dict[str, Any]:
        """The body. Raises: ApiError 400, 422."""
        if not self.content:
            return {}
        try:
            body = json.loads(self.content)
        except ValueError as error:
            raise ApiError(400, "Problems parsing JSON") from error
        if isinstance(body, list) and self.path.endswith("/labels"):
            return {"labels": body}  # Labels alone may come as a bare array.
        if not isinstance(body, dict):
            raise unprocessable("Invalid request.\n\nThe body is not an object.")
        return body


@dataclass
class _Heard:
    """What became of a request so far, for the log of requests."""

    login: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


class BrokenResponse(Response):
    """An answer that stops before its end: the caller sees a broken connection and learns nothing."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Promise more than is sent, so that the server closes the connection."""
        headers = [(b"content-length", b"4096"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


def api_routes(world: World) -> list[Route]:
    """Every route of the table with its handler, and GraphQL."""
    routes = [
        Route(_PREFIX + row.path, _endpoint(world, row, HANDLERS[row.name]), methods=[row.method]) for row in OPERATIONS
    ]
    return [
        *routes,
        Route("/api/graphql", _graphql_endpoint(world), methods=["POST"]),
        Route(_PREFIX + "/{rest:path}", _unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]


def _endpoint(world: World, operation: Operation, handler: Handler) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        asked = await _read(request)
        return await run_in_threadpool(respond, world, operation.name, asked.method, asked.path, _work(asked))

    def _work(asked: _Asked) -> Callable[[_Heard], Reply]:
        return lambda heard: _carry_out(world, operation, handler, asked, heard)

    return endpoint


def _graphql_endpoint(world: World) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        asked = await _read(request)

        def work(heard: _Heard) -> Reply:
            viewer = identify(world, asked.headers.get("authorization", ""))
            heard.login = viewer.login
            return Reply(graphql.answer(world, viewer, asked.json()))

        try:
            operation = graphql.operation_of(asked.json())
        except ApiError:
            operation = "*"
        return await run_in_threadpool(respond, world, operation, "POST", "/graphql", work)

    return endpoint


async def _read(request: Request) -> _Asked:
    return _Asked(
        method=request.method,
        path=request.url.path.removeprefix(_PREFIX),
        params=request.path_params,
        query=dict(request.query_params),
        headers=request.headers,
        content=await request.body(),
    )


async def _unknown(_request: Request) -> Response:
    return _response(Reply(not_found().body(), 404), {})


def respond(world: World, operation: str, method: str, path: str, work: Callable[[_Heard], Reply]) -> Response:
    """Answer one request: faults before, the work under the lock, faults after."""
    spoiled = world.faults.meet(operation)
    heard = _Heard()
    if spoiled is not None and spoiled.kind is FaultKind.answer:
        reply = Reply(spoiled.body, spoiled.status, spoiled.headers)
    else:
        reply = _reply(world, work, heard)
    with world.lock:
        world.requests.append(RequestRecord(operation, method, path, heard.login, reply.status))
        headers = rate_limit.headers(world)
    if spoiled is not None and spoiled.kind is FaultKind.disconnect:
        return BrokenResponse()
    if spoiled is not None and spoiled.kind is FaultKind.drop:
        reply = Reply(spoiled.body, spoiled.status)
    return _response(reply, headers, heard.headers)


def _reply(world: World, work: Callable[[_Heard], Reply], heard: _Heard) -> Reply:
    with world.lock:
        try:
            return work(heard)
        except ApiError as error:
            return Reply(error.body(), error.status, error.headers)


def _carry_out(world: World, operation: Operation, handler: Handler, asked: _Asked, heard: _Heard) -> Reply:
    viewer = identify(world, asked.headers.get("authorization", ""))
    heard.login = viewer.login
    repository = None
    if "repo" in asked.params:
        repository = world.repository(f"{asked.params['owner']}/{asked.params['repo']}")
        if operation.access.value != "app" and not can_see(world, viewer, repository):
            raise not_found()
    allow(world, viewer, operation, repository)
    call = Call(
        world=world,
        viewer=viewer,
        operation=operation,
        path=asked.path,
        params=asked.params,
        query=asked.query,
        body=asked.json(),
        repository=repository,
    )
    reply = handler(call)
    if asked.method == "GET" and reply.status == 200:
        tag = f'W/"{hashlib.sha256(json.dumps(reply.data).encode()).hexdigest()}"'
        heard.headers["etag"] = tag
        if asked.headers.get("if-none-match") == tag:
            return Reply(None, 304)
    return reply


def _response(reply: Reply, *more: Mapping[str, str]) -> Response:
    headers = {"x-github-request-id": uuid.uuid4().hex.upper()[:16], "x-github-media-type": "github.v3; format=json"}
    for part in more:
        headers |= dict(part)
    headers |= dict(reply.headers)
    if reply.data is None:
        return Response(status_code=reply.status, headers=headers)
    return Response(
        json.dumps(reply.data), status_code=reply.status, headers=headers, media_type="application/json; charset=utf-8"
    )
