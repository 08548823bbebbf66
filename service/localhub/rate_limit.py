"""The rate limit as headers and as JSON: generous, since the hub's real limits are injected faults."""

from __future__ import annotations

from typing import Any

from service.localhub.world import World

LIMIT = 5000
_WINDOW_S = 3600
_MOST_USED = 1000  # A hub that runs for days must not slow down a bot that minds its limits.


def status(world: World) -> dict[str, Any]:
    """The window as it is. Units: ``reset`` in seconds since 1970."""
    now = int(world.clock().timestamp())
    used = len(world.requests) % _MOST_USED
    return {"limit": LIMIT, "remaining": LIMIT - used, "reset": now - now % _WINDOW_S + _WINDOW_S, "used": used}


def headers(world: World) -> dict[str, str]:
    """The headers of every response."""
    shape = {f"x-ratelimit-{name}": str(value) for name, value in status(world).items()}
    return shape | {"x-ratelimit-resource": "core"}
