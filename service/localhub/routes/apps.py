"""Apps: what they are, where they are installed, their tokens, and the log of their webhook."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

from service.localhub import payloads, webhooks
from service.localhub.auth import covers
from service.localhub.errors import not_found, unprocessable
from service.localhub.routes.call import Call, Handler, Reply
from service.localhub.state import App, Delivery, Installation, Repository, Token

TOKEN_LIFETIME = timedelta(hours=1)
_LEVELS = ("none", "read", "write", "admin")


def get_app(call: Call) -> Reply:
    """The app of the JWT."""
    return Reply(payloads.app(call.world, _app(call)))


def get_app_hook_config(call: Call) -> Reply:
    """Where its webhook goes."""
    return Reply(payloads.hook_config(_app(call)))


def list_hook_deliveries(call: Call) -> Reply:
    """Its deliveries, newest first; ``cursor`` is the id to go on from."""
    mine = [item for item in reversed(call.world.state.deliveries) if item.app_id == _app(call).id]
    mine = [item for item in mine if item.status_code is not None]
    cursor = call.query.get("cursor")
    if cursor is not None and cursor.isdigit():
        mine = [item for item in mine if item.id < int(cursor)]
    reply = call.page(mine, payloads.delivery)
    size = len(reply.data)
    if size == 0 or size == len(mine):
        return Reply(reply.data)
    root = f"{call.world.api_url}{call.path}"
    following = f"{root}?per_page={size}&cursor={mine[size - 1].id}"
    return Reply(reply.data, headers={"link": f'<{following}>; rel="next"'})


def get_hook_delivery(call: Call) -> Reply:
    """One delivery with its request and response."""
    return Reply(payloads.delivery(_delivery(call), full=True))


def redeliver_hook_delivery(call: Call) -> Reply:
    """Send it again, under the same delivery id."""
    webhooks.redeliver(call.world, _delivery(call))
    return Reply({}, 202)


def list_installations(call: Call) -> Reply:
    """Where the app is installed."""
    mine = [item for item in call.world.state.installations.values() if item.app_id == _app(call).id]
    return call.page(mine, lambda item: payloads.installation(call.world, item))


def get_installation(call: Call) -> Reply:
    """One installation."""
    return Reply(payloads.installation(call.world, _installation(call)))


def get_repo_installation(call: Call) -> Reply:
    """The installation that covers a repository."""
    for item in call.world.state.installations.values():
        if item.app_id == _app(call).id and covers(item, call.repo):
            return Reply(payloads.installation(call.world, item))
    raise not_found()


def get_account_installation(call: Call) -> Reply:
    """The installation on an account."""
    for item in call.world.state.installations.values():
        if item.app_id == _app(call).id and item.account.lower() == call.params["login"].lower():
            return Reply(payloads.installation(call.world, item))
    raise not_found()


def create_installation_token(call: Call) -> Reply:
    """A token of an hour, perhaps narrowed to repositories and permissions. Raises: ApiError 422 where it would widen."""
    world, installation = call.world, _installation(call)
    permissions = _narrowed_permissions(installation, call.body.get("permissions"))
    repositories = _narrowed_repositories(call, installation)
    token = Token(
        value=f"ghs_{secrets.token_hex(18)}",
        installation_id=installation.id,
        permissions=permissions,
        repository_ids=None if repositories is None else [item.id for item in repositories],
        expires_at=world.clock() + TOKEN_LIFETIME,
    )
    world.state.tokens[token.value] = token
    shape: dict[str, Any] = {
        "token": token.value,
        "expires_at": payloads.iso(token.expires_at),
        "permissions": permissions,
        "repository_selection": "all" if installation.repository_ids is None and repositories is None else "selected",
    }
    if repositories is not None:
        shape["repositories"] = [payloads.repository(world, item) for item in repositories]
    return Reply(shape, 201)


def list_installation_repositories(call: Call) -> Reply:
    """The repositories that an installation's token reaches."""
    token, installation = call.viewer.token, call.viewer.installation
    assert token is not None and installation is not None, "the operations table lets only installations in"
    reached = [item for item in call.world.state.repositories.values() if covers(installation, item)]
    if token.repository_ids is not None:
        reached = [item for item in reached if item.id in token.repository_ids]
    return call.page(reached, lambda item: payloads.repository(call.world, item), "repositories")


def _narrowed_permissions(installation: Installation, wanted: object) -> dict[str, str]:
    if wanted is None or wanted == {}:  # PyGithub sends an empty object for "all of them".
        return dict(installation.permissions) | {"metadata": "read"}
    if not isinstance(wanted, dict):
        raise unprocessable("Invalid request.\n\nFor 'properties/permissions', it is not an object.")
    for scope, level in wanted.items():
        held = "read" if scope == "metadata" else installation.permissions.get(scope, "none")
        if level not in _LEVELS or _LEVELS.index(level) > _LEVELS.index(held):
            raise unprocessable("The permissions requested are not granted to this installation.")
    return {**wanted, "metadata": "read"}


def _narrowed_repositories(call: Call, installation: Installation) -> list[Repository] | None:
    names, ids = call.body.get("repositories"), call.body.get("repository_ids")
    if not names and not ids:
        return None
    reached = [item for item in call.world.state.repositories.values() if covers(installation, item)]
    chosen = [item for item in reached if item.name in (names or []) or item.id in (ids or [])]
    if len(chosen) < len({*(names or [])}) or len(chosen) < len({*(ids or [])}):
        message = (
            "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
        raise unprocessable(message)
    return chosen


def _app(call: Call) -> App:
    assert call.viewer.app is not None, "the operations table lets only apps in"
    return call.viewer.app


def _installation(call: Call) -> Installation:
    found = call.world.state.installations.get(call.params["installation_id"])
    if found is None or found.app_id != _app(call).id:
        raise not_found()
    return found


def _delivery(call: Call) -> Delivery:
    for item in call.world.state.deliveries:
        if item.id == call.params["delivery_id"] and item.app_id == _app(call).id:
            return item
    raise not_found()


HANDLERS: dict[str, Handler] = {
    "get_app": get_app,
    "get_app_hook_config": get_app_hook_config,
    "list_hook_deliveries": list_hook_deliveries,
    "get_hook_delivery": get_hook_delivery,
    "redeliver_hook_delivery": redeliver_hook_delivery,
    "list_installations": list_installations,
    "get_installation": get_installation,
    "get_repo_installation": get_repo_installation,
    "get_org_installation": get_account_installation,
    "get_user_installation": get_account_installation,
    "create_installation_token": create_installation_token,
    "list_installation_repositories": list_installation_repositories,
}
