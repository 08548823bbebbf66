"""The hub as an ASGI application; only requests for this machine's own names are answered."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from service.localhub.api import api_routes
from service.localhub.downloads import download_routes
from service.localhub.pages import page_routes
from service.localhub.world import World

# A page on the internet whose name was made to point to 127.0.0.1 sends its own name as Host.
_HOSTS = ["127.0.0.1", "localhost"]


def make_app(world: World) -> Starlette:
    """API, git and pages over one world."""
    routes = [*api_routes(world), *download_routes(world), *page_routes(world)]
    return Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)])
