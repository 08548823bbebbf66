"""Templates with what every page needs: the repository's head, who can act, markdown and times."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from service.localhub import markdown
from service.localhub.pages.diff import hunk_rows
from service.localhub.state import Repository
from service.localhub.world import World

FOLDER = Path(__file__).resolve().parent.parent
ACTING_AS = "acting_as"
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}
_EMOJI = {
    "+1": "👍",
    "-1": "👎",
    "laugh": "😄",
    "hooray": "🎉",
    "confused": "😕",
    "heart": "❤️",
    "rocket": "🚀",
    "eyes": "👀",
}
_EVENTS = {
    "closed": "closed this",
    "reopened": "reopened this",
    "merged": "merged this",
    "ready_for_review": "marked this as ready for review",
    "converted_to_draft": "turned this into a draft",
    "review_requested": "asked for a review from",
    "review_request_removed": "no longer asks for a review from",
    "review_dismissed": "dismissed a review:",
    "labeled": "added the label",
    "unlabeled": "removed the label",
    "force_pushed": "rewrote the branch, now at",
}
_REVIEWS = {
    "APPROVED": "approved these changes",
    "CHANGES_REQUESTED": "asked for changes",
    "COMMENTED": "reviewed",
    "DISMISSED": "reviewed (dismissed)",
}


def _when(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%d %b %Y, %H:%M UTC").lstrip("0")


def _reaction(text: str) -> Markup:
    content, _, login = text.partition(" by ")
    return Markup('<span class="reaction" title="{0}"><span aria-hidden="true">{1}</span> {0}</span>').format(
        login, _EMOJI.get(content, content)
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "when": _when,
        "reaction": _reaction,
        "event_words": lambda kind: _EVENTS.get(kind, kind.replace("_", " ")),
        "review_words": lambda state: _REVIEWS.get(state, state.lower()),
        "short": lambda sha: sha[:7],
        "hunk_rows": hunk_rows,
        "kind_of": lambda entry: type(entry).__name__,
    }
    return environment


_ENVIRONMENT = _environment()


def page(
    world: World, request: Request, template: str, repository: Repository | None = None, status: int = 200, **more: Any
) -> HTMLResponse:
    """A page; ``markdown`` in a template makes a text harmless HTML."""
    people = [user.login for user in world.state.users.values() if user.type == "User"]
    acting = unquote(request.cookies.get(ACTING_AS, ""))
    values = {
        "world": world,
        "repo": repository,
        "people": people,
        "acting": acting if acting in people else (people[0] if people else ""),
        "markdown": lambda text: Markup(markdown.render(text, world.base_url)),  # noqa: S704 - sanitized by allow-list
        "document": lambda text: Markup(markdown.render_document(text, world.base_url)),  # noqa: S704 - likewise
        "bots": {user.login for user in world.state.users.values() if user.type == "Bot"},
    }
    html = _ENVIRONMENT.get_template(template).render(values | more)
    return HTMLResponse(html, status, headers=_HEADERS)
