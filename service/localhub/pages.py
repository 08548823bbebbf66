"""The pages on which a person reads and writes the conversation."""

from __future__ import annotations

from starlette.routing import BaseRoute

from service.localhub.world import World


def page_routes(_world: World) -> list[BaseRoute]:
    """Every page."""
    return []
