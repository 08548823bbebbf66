"""The API: every request is let in, met by a fault, or answered; REST by its table, GraphQL by its mutations."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from deploy.localhub import pulls
from deploy.localhub.auth import Viewer, allow, can_see, identify
from deploy.localhub.call import AdmittedRequest, Handler, HttpReply
from deploy.localhub.code_routes import (
    APP_HANDLERS,
    CHECK_HANDLERS,
    GIT_HANDLERS,
    REPOSITORY_HANDLERS,
    USER_HANDLERS,
)
from deploy.localhub.operations import (
    MUTATIONS,
    OPERATIONS,
    ApiError,
    FaultKind,
    RouteRow,
    forbidden,
    not_found,
    unauthorized,
    unprocessable,
)
from deploy.localhub.payloads import node_id
from deploy.localhub.state import Comment, Issue, Repository, Review, ReviewComment
from deploy.localhub.talk_routes import ISSUE_HANDLERS, PULL_HANDLERS, REACTION_HANDLERS, REVIEW_HANDLERS
from deploy.localhub.world import RequestRecord, World, rate_limit_headers

HANDLERS: dict[str, Handler] = (
    USER_HANDLERS
    | APP_HANDLERS
    | REPOSITORY_HANDLERS
    | GIT_HANDLERS
    | ISSUE_HANDLERS
    | REACTION_HANDLERS
    | PULL_HANDLERS
    | REVIEW_HANDLERS
    | CHECK_HANDLERS
)
_CLASSIFIERS = ("ABUSE", "DUPLICATE", "OFF_TOPIC", "OUTDATED", "RESOLVED", "SPAM")
_MUTATION = re.compile(r"\{\s*(\w+)\s*\(\s*input\s*:")
_READ = RouteRow("graphql_query", "POST", "/graphql", ("issues", "pull_requests"))
_WRITE = RouteRow("graphql_mutation", "POST", "/graphql", ("issues", "pull_requests"), writes=True)

Node = Issue | Comment | Review | ReviewComment


@dataclass(frozen=True)
class FoundNode:
    """A node with its type's name and where it stands."""

    kind: str
    node: Node
    repository: Repository


def operation_of(body: Mapping[str, Any]) -> str:
    """The name under which faults for this request are injected."""
    match = _MUTATION.search(str(body.get("query", "")))
    return MUTATIONS.get(match[1], "*") if match else "*"


def answer(world: World, viewer: Viewer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out a query; what is wrong with it is told under ``errors``. Raises: ApiError 401 for nobody."""
    if viewer.actor is None:
        raise unauthorized("Requires authentication")
    query, variables = str(body.get("query", "")), body.get("variables") or {}
    match = _MUTATION.search(query)
    name = match[1] if match else "node"
    try:
        shape = (
            _mutate(world, viewer, name, variables.get("input") or {})
            if match
            else _read_query(world, viewer, variables)
        )
    except ApiError as error:
        kind = {404: "NOT_FOUND", 403: "FORBIDDEN"}.get(error.status, "UNPROCESSABLE")
        return {"data": {name: None}, "errors": [{"type": kind, "path": [name], "message": _message(error, variables)}]}
    return {"data": {name: _selected(shape, query)}}


def _mutate(world: World, viewer: Viewer, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if name not in MUTATIONS:
        raise unprocessable(f"Field '{name}' doesn't exist on type 'Mutation'")
    found = _find(world, viewer, str(given.get("pullRequestId") or given.get("subjectId") or ""))
    allow(world, viewer, _WRITE, found.repository)
    trusted = viewer.installation is not None or world.has_role(found.repository, viewer.login or "", "write")
    if not trusted and viewer.login != found.node.login:
        raise forbidden(f"{viewer.login} does not have the correct permissions to execute `{name}`")
    done: dict[str, Any] = {"clientMutationId": given.get("clientMutationId")}
    if name == "markPullRequestReadyForReview":
        if not isinstance(found.node, Issue) or found.node.pull is None or viewer.actor is None:
            raise not_found()
        pulls.set_draft(world, found.repository, found.node, viewer.actor, draft=False)
        return done | {"pullRequest": _shape(found)}
    if isinstance(found.node, Issue):
        raise not_found()
    classifier = given.get("classifier")
    if classifier not in _CLASSIFIERS:
        raise unprocessable(f"Argument 'classifier' has an invalid value ({classifier})")
    found.node.minimized = str(classifier).lower().replace("_", "-")
    return done | {"minimizedComment": _shape(found)}


def _read_query(world: World, viewer: Viewer, variables: Mapping[str, Any]) -> dict[str, Any]:
    found = _find(world, viewer, str(variables.get("id", "")))
    allow(world, viewer, _READ, found.repository)
    return _shape(found)


def _shape(found: FoundNode) -> dict[str, Any]:
    shape: dict[str, Any] = {"__typename": found.kind}
    if isinstance(found.node, Issue):
        if found.node.pull is not None:
            shape |= {"id": node_id("pull", found.node.pull.id), "isDraft": found.node.pull.draft}
        return shape | {"number": found.node.number, "title": found.node.title}
    reason = found.node.minimized
    return shape | {"isMinimized": reason is not None, "minimizedReason": reason, "body": found.node.body}


def _selected(shape: Any, query: str) -> Any:
    """Only what the query names, since a field that was not asked for must not be relied on."""
    if not isinstance(shape, dict):
        return shape
    return {key: _selected(value, query) for key, value in shape.items() if re.search(rf"\b{key}\b", query)}


def _find(world: World, viewer: Viewer, wanted: str) -> FoundNode:
    for repository in world.state.repositories.values():
        for known, kind, node in _nodes(repository):
            if known == wanted and can_see(world, viewer, repository):
                return FoundNode(kind, node, repository)
    raise not_found()


def _nodes(repository: Repository) -> Iterator[tuple[str, str, Node]]:
    for issue in repository.issues.values():
        for comment in issue.comments:
            yield node_id("comment", comment.id), "IssueComment", comment
        if issue.pull is None:
            yield node_id("issue", issue.id), "Issue", issue
            continue
        yield node_id("pull", issue.pull.id), "PullRequest", issue
        for review in issue.pull.reviews:
            yield node_id("review", review.id), "PullRequestReview", review
        for note in issue.pull.review_comments:
            yield node_id("review_comment", note.id), "PullRequestReviewComment", note


def _message(error: ApiError, variables: Mapping[str, Any]) -> str:
    if error.status != 404:
        return error.message
    given = variables.get("input") or {}
    wanted = given.get("pullRequestId") or given.get("subjectId") or variables.get("id")
    return f"Could not resolve to a node with the global id of '{wanted}'."


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


def _endpoint(world: World, operation: RouteRow, handler: Handler) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        asked = await _read(request)
        return await run_in_threadpool(respond, world, operation.name, asked.method, asked.path, _work(asked))

    def _work(asked: _Asked) -> Callable[[_Heard], HttpReply]:
        return lambda heard: _carry_out(world, operation, handler, asked, heard)

    return endpoint


def _graphql_endpoint(world: World) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        asked = await _read(request)

        def work(heard: _Heard) -> HttpReply:
            viewer = identify(world, asked.headers.get("authorization", ""))
            heard.login = viewer.login
            return HttpReply(answer(world, viewer, asked.json()))

        try:
            operation = operation_of(asked.json())
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
    return _response(HttpReply(not_found().body(), 404), {})


def respond(world: World, operation: str, method: str, path: str, work: Callable[[_Heard], HttpReply]) -> Response:
    """Answer one request: faults before, the work under the lock, faults after."""
    spoiled = world.faults.meet(operation)
    heard = _Heard()
    if spoiled is not None and spoiled.kind is FaultKind.answer:
        reply = HttpReply(spoiled.body, spoiled.status, spoiled.headers)
    else:
        reply = _reply(world, work, heard)
    with world.lock:
        world.requests.append(RequestRecord(operation, method, path, heard.login, reply.status))
        headers = rate_limit_headers(world)
    if spoiled is not None and spoiled.kind is FaultKind.disconnect:
        return BrokenResponse()
    if spoiled is not None and spoiled.kind is FaultKind.drop:
        reply = HttpReply(spoiled.body, spoiled.status)
    return _response(reply, headers, heard.headers)


def _reply(world: World, work: Callable[[_Heard], HttpReply], heard: _Heard) -> HttpReply:
    with world.lock:
        try:
            return work(heard)
        except ApiError as error:
            return HttpReply(error.body(), error.status, error.headers)


def _carry_out(world: World, operation: RouteRow, handler: Handler, asked: _Asked, heard: _Heard) -> HttpReply:
    viewer = identify(world, asked.headers.get("authorization", ""))
    heard.login = viewer.login
    repository = None
    if "repo" in asked.params:
        repository = world.repository(f"{asked.params['owner']}/{asked.params['repo']}")
        if operation.access.value != "app" and not can_see(world, viewer, repository):
            raise not_found()
    allow(world, viewer, operation, repository)
    call = AdmittedRequest(
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
            return HttpReply(None, 304)
    return reply


def _response(reply: HttpReply, *more: Mapping[str, str]) -> Response:
    headers = {"x-github-request-id": uuid.uuid4().hex.upper()[:16], "x-github-media-type": "github.v3; format=json"}
    for part in more:
        headers |= dict(part)
    headers |= dict(reply.headers)
    if reply.data is None:
        return Response(status_code=reply.status, headers=headers)
    return Response(
        json.dumps(reply.data), status_code=reply.status, headers=headers, media_type="application/json; charset=utf-8"
    )
