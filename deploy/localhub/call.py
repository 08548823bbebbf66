"""One request of the API and its reply, as the routes see them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from deploy.localhub.auth import Viewer
from deploy.localhub.operations import RouteRow, unauthorized, unprocessable
from deploy.localhub.state import Repository
from deploy.localhub.world import Actor, World

_DEFAULT_PAGE, _LARGEST_PAGE = 30, 100


@dataclass(frozen=True)
class HttpReply:
    """What goes back: ``data`` as JSON, None for an empty body."""

    data: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AdmittedRequest:
    """A request that was let in. ``repo`` and ``actor`` are those of the route and of the credential."""

    world: World
    viewer: Viewer
    operation: RouteRow
    path: str
    params: Mapping[str, Any]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    repository: Repository | None = None

    @property
    def repo(self) -> Repository:
        """The repository that the route names."""
        assert self.repository is not None, "the route has no repository"
        return self.repository

    @property
    def actor(self) -> Actor:
        """Who acts. Raises: ApiError 401."""
        if self.viewer.actor is None:
            raise unauthorized("Requires authentication")
        return self.viewer.actor

    def names(self, key: str) -> list[str]:
        """A list of strings in the body. Raises: ApiError 422."""
        value = self.body.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise unprocessable(f"Invalid request.\n\n{key!r} is not an array of strings.")
        return value

    def page(self, items: Sequence[Any], shape: Callable[[Any], Any], key: str | None = None) -> HttpReply:
        """One page with its Link header; only what is on the page is shaped. ``key`` wraps it with a total."""
        size = min(max(_number(self.query.get("per_page"), _DEFAULT_PAGE), 1), _LARGEST_PAGE)
        number = max(_number(self.query.get("page"), 1), 1)
        last = max((len(items) + size - 1) // size, 1)
        shown = [shape(item) for item in items[(number - 1) * size : number * size]]
        data: Any = shown if key is None else {"total_count": len(items), key: shown}
        return HttpReply(data, headers=self._links(number, last))

    def _links(self, number: int, last: int) -> dict[str, str]:
        pages: dict[str, int] = {}
        if number < last:
            pages |= {"next": number + 1, "last": last}
        if number > 1:
            pages |= {"prev": number - 1, "first": 1}
        if not pages:
            return {}
        root = f"{self.world.api_url}{self.path}"
        links = [f'<{root}?{urlencode({**self.query, "page": page})}>; rel="{name}"' for name, page in pages.items()]
        return {"link": ", ".join(links)}


Handler = Callable[[AdmittedRequest], HttpReply]


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdigit() else default
