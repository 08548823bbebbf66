"""The hub as an ASGI application; only requests for this machine's own names are answered."""

from __future__ import annotations

import logging
import traceback

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse

from service.localhub.api import api_routes
from service.localhub.downloads import download_routes
from service.localhub.pages import page_routes
from service.localhub.world import World

# A page on the internet whose name was made to point to 127.0.0.1 sends its own name as Host.
_HOSTS = ["127.0.0.1", "localhost"]
_LOG = logging.getLogger(__name__)


def make_app(world: World) -> Starlette:
    """API, git and pages over one world."""
    routes = [*api_routes(world), *download_routes(world), *page_routes(world)]

    async def broken(request: Request, error: Exception) -> JSONResponse:
        world.errors.append("".join(traceback.format_exception(error)))
        _LOG.error("localhub broke on %s %s", request.method, request.url.path, exc_info=error)
        return JSONResponse({"message": "Server Error", "status": "500"}, 500)

    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)],
        exception_handlers={Exception: broken},
    )
