"""What is served beside the API: clone, fetch and push, tarballs, and raw files."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from deploy.localhub.auth import Viewer, can_see, identify, may_write_code
from deploy.localhub.git import GitHttpRequest, serve
from deploy.localhub.operations import ApiError, FaultKind, forbidden, not_found, unauthorized
from deploy.localhub.pulls import refs_compared
from deploy.localhub.state import Repository
from deploy.localhub.world import World

_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SAFE = {"x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'; sandbox"}

Work = Callable[[World, Request, bytes], Response]


def download_routes(world: World) -> list[Route]:
    """Git over HTTP, archives and raw files."""
    return [
        Route("/{owner}/{repo}/info/refs", _endpoint(world, "git_fetch", _git_refs), methods=["GET"]),
        Route("/{owner}/{repo}/git-upload-pack", _endpoint(world, "git_fetch", _git_fetch), methods=["POST"]),
        Route("/{owner}/{repo}/git-receive-pack", _endpoint(world, "git_push", _git_push), methods=["POST"]),
        Route("/_codeload/{owner}/{repo}/legacy.tar.gz/{sha}", _endpoint(world, "download_archive", _archive)),
        Route("/raw/{owner}/{repo}/{sha}/{path:path}", _endpoint(world, "raw_file", _raw_file)),
        Route("/{owner}/{repo}/raw/{sha}/{path:path}", _endpoint(world, "raw_file", _raw_file)),
    ]


def _endpoint(world: World, operation: str, work: Work) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_respond, world, operation, work, request, await request.body())

    return endpoint


def _respond(world: World, operation: str, work: Work, request: Request, body: bytes) -> Response:
    spoiled = world.faults.meet(operation)
    if spoiled is not None and spoiled.kind is FaultKind.answer:
        return Response(status_code=spoiled.status, headers=spoiled.headers)
    try:
        response = work(world, request, body)
    except ApiError as error:
        challenge = {"www-authenticate": 'Basic realm="localhub"'} if error.status == 401 else {}
        response = Response(error.message, error.status, headers=challenge, media_type="text/plain")
    return response if spoiled is None else Response(status_code=502)


def _git_refs(world: World, request: Request, body: bytes) -> Response:
    if request.query_params.get("service") == "git-receive-pack":
        repository, viewer = _admit_push(world, request)
        return _serve(world, repository, "/info/refs", request, body, viewer.login)
    return _serve(world, _admit(world, request)[0], "/info/refs", request, body, None)


def _git_fetch(world: World, request: Request, body: bytes) -> Response:
    return _serve(world, _admit(world, request)[0], "/git-upload-pack", request, body, None)


def _git_push(world: World, request: Request, body: bytes) -> Response:
    # The lock is held, so that what differs afterwards was changed by this push and by nobody else.
    with world.lock:
        repository, viewer = _admit_push(world, request)
        assert viewer.actor is not None, "_admit_push lets nobody in without a user"
        git = world.git(repository)
        before = git.refs()
        response = _serve(world, repository, "/git-receive-pack", request, body, viewer.login)
        refs_compared(world, repository, before, git.refs(), viewer.actor)
        return response


def _admit(world: World, request: Request) -> tuple[Repository, Viewer]:
    with world.lock:
        viewer = identify(world, request.headers.get("authorization", ""))
        name = request.path_params["repo"].removesuffix(".git")
        repository = world.find_repository(f"{request.path_params['owner']}/{name}")
        if repository is not None and can_see(world, viewer, repository):
            return repository, viewer
    raise unauthorized("Authentication required") if viewer.actor is None else not_found()


def _admit_push(world: World, request: Request) -> tuple[Repository, Viewer]:
    repository, viewer = _admit(world, request)
    if viewer.actor is None:
        raise unauthorized("Authentication required")
    if not may_write_code(world, viewer, repository):
        raise forbidden(f"Permission to {repository.full_name} denied to {viewer.login}.")
    return repository, viewer


def _serve(
    world: World, repository: Repository, path_info: str, request: Request, body: bytes, remote_user: str | None
) -> Response:
    asked = GitHttpRequest(
        method=request.method,
        path_info=path_info,
        query=request.url.query,
        content_type=request.headers.get("content-type", ""),
        content_encoding=request.headers.get("content-encoding", ""),
        protocol=request.headers.get("git-protocol", ""),
        remote_user=remote_user,
        body=body,
    )
    answer = serve(world.git(repository).path, asked)
    return Response(answer.body, answer.status, headers=answer.headers)


def _archive(world: World, request: Request, _body: bytes) -> Response:
    with world.lock:
        ticket = world.archive_tickets.get(request.query_params.get("token", ""))
        name = f"{request.path_params['owner']}/{request.path_params['repo']}"
        repository = world.repository(name)
        if ticket != (repository.id, request.path_params["sha"]):
            raise not_found()
    sha = request.path_params["sha"]
    top = f"{repository.owner}-{repository.name}-{sha[:7]}"
    content = world.git(repository).archive(sha, top)
    headers = {"content-disposition": f"attachment; filename={top}.tar.gz"}
    return Response(content, media_type="application/x-gzip", headers=headers)


def _raw_file(world: World, request: Request, _body: bytes) -> Response:
    with world.lock:
        repository = world.repository(f"{request.path_params['owner']}/{request.path_params['repo']}")
    # Pages are read without a token, so a raw file is shown to whoever reaches this machine's loopback.
    git = world.git(repository)
    commit = git.resolve(request.path_params["sha"])
    content = git.file(commit, request.path_params["path"]) if commit else None
    if content is None:
        raise not_found()
    guessed = mimetypes.guess_type(request.path_params["path"])[0]
    kind = guessed if guessed in _IMAGES else "text/plain; charset=utf-8"
    return Response(content, media_type=kind, headers=_SAFE)
