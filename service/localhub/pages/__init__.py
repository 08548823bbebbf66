"""The pages on which a person reads and writes the conversation; they show all there is, since only this machine sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from service.localhub.errors import ApiError
from service.localhub.pages import reading, writing
from service.localhub.pages.render import FOLDER, page
from service.localhub.world import World

Reader = Callable[[World, Request], Response]
Writer = Callable[[World, Request, writing.Form], Response]

_R = "/{owner}/{repo}"
_READERS: tuple[tuple[str, Reader], ...] = (
    ("/", reading.index),
    (_R, reading.home),
    (f"{_R}/tree/{{rest:path}}", reading.tree),
    (f"{_R}/blob/{{rest:path}}", reading.blob),
    (f"{_R}/commit/{{sha}}", reading.commit),
    (f"{_R}/runs/{{check_run_id:int}}", reading.check_run),
    (f"{_R}/issues", reading.issue_list),
    (f"{_R}/pulls", reading.issue_list),
    (f"{_R}/issues/new", reading.new_issue),
    (f"{_R}/issues/{{number:int}}", reading.issue),
    (f"{_R}/pull/{{number:int}}.patch", reading.pull_patch),
    (f"{_R}/pull/{{number:int}}", reading.issue),
    (f"{_R}/pull/{{number:int}}/commits", reading.pull_commits),
    (f"{_R}/pull/{{number:int}}/files", reading.pull_files),
    (f"{_R}/pull/{{number:int}}/checks", reading.pull_checks),
)
_WRITERS: tuple[tuple[str, Writer], ...] = (
    (f"{_R}/issues/new", writing.new_issue),
    (f"{_R}/issues/{{number:int}}/comments", writing.comment),
    (f"{_R}/issues/{{number:int}}/state", writing.state),
    (f"{_R}/comments/{{comment_id:int}}", writing.edit_comment),
    (f"{_R}/pull/{{number:int}}/reviews", writing.review),
    (f"{_R}/pull/{{number:int}}/draft", writing.draft),
    (f"{_R}/pull/{{number:int}}/merge", writing.merge),
    (f"{_R}/runs/{{check_run_id:int}}/rerequest", writing.rerequest),
)


def page_routes(world: World) -> list[BaseRoute]:
    """Every page and form, and the style sheet."""
    routes: list[BaseRoute] = [Mount("/_static", StaticFiles(directory=FOLDER / "static"))]
    routes += [Route(path, _reader(world, reader), methods=["GET"]) for path, reader in _READERS]
    routes += [Route(path, _writer(world, writer), methods=["POST"]) for path, writer in _WRITERS]
    return routes


def _reader(world: World, reader: Reader) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        return await run_in_threadpool(_answer, world, request, lambda: reader(world, request))

    return endpoint


def _writer(world: World, writer: Writer) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True))

        def write() -> Response:
            writing.refuse_other_sites(request)
            return writer(world, request, form)

        return await run_in_threadpool(_answer, world, request, write)

    return endpoint


def _answer(world: World, request: Request, work: Callable[[], Response]) -> Response:
    with world.lock:
        try:
            return work()
        except ApiError as error:
            return page(world, request, "error.html", status=error.status, error=error)
