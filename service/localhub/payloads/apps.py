"""Apps, installations and the log of webhook deliveries. Pure."""

from __future__ import annotations

import json

from service.localhub.payloads.people import Json, iso, node_id, user
from service.localhub.state import App, Delivery, Installation
from service.localhub.world import World


def app(world: World, item: App) -> Json:
    """An app as ``GET /app`` and ``performed_via_github_app`` show it."""
    return {
        "id": item.id,
        "slug": item.slug,
        "node_id": node_id("app", item.id),
        "client_id": item.client_id,
        "owner": user(world, world.user(item.owner)),
        "name": item.name,
        "description": "",
        "external_url": world.base_url,
        "html_url": f"{world.base_url}/apps/{item.slug}",
        "created_at": iso(item.created_at),
        "updated_at": iso(item.created_at),
        "permissions": item.permissions,
        "events": item.events,
        "installations_count": sum(one.app_id == item.id for one in world.state.installations.values()),
    }


def hook_config(item: App) -> Json:
    """Where the app's webhook goes; the secret is never shown."""
    return {"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": item.hook_url}


def short_installation(item: Installation) -> Json:
    """What every webhook of an app holds."""
    return {"id": item.id, "node_id": f"{node_id('installation', item.id)}"}


def installation(world: World, item: Installation) -> Json:
    """An installation."""
    application = world.state.apps[item.app_id]
    account = user(world, world.user(item.account))
    return {
        "id": item.id,
        "account": account,
        "repository_selection": "all" if item.repository_ids is None else "selected",
        "access_tokens_url": f"{world.api_url}/app/installations/{item.id}/access_tokens",
        "repositories_url": f"{world.api_url}/installation/repositories",
        "html_url": f"{world.base_url}/settings/installations/{item.id}",
        "app_id": application.id,
        "app_slug": application.slug,
        "target_id": account["id"],
        "target_type": account["type"],
        "permissions": item.permissions,
        "events": application.events,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.created_at),
        "single_file_name": None,
        "suspended_by": None,
        "suspended_at": None,
    }


def delivery(item: Delivery, full: bool = False) -> Json:
    """An entry of the log; ``full`` adds the request and the response."""
    shape: Json = {
        "id": item.id,
        "guid": item.guid,
        "delivered_at": iso(item.created_at),
        "redelivery": item.redelivery,
        "duration": item.duration_s,
        "status": item.status,
        "status_code": item.status_code or 0,
        "event": item.event,
        "action": item.action,
        "installation_id": item.installation_id,
        "repository_id": item.repository_id,
        "throttled_at": None,
    }
    if full:
        shape["url"] = item.url
        shape["request"] = {"headers": item.request_headers, "payload": json.loads(item.payload)}
        shape["response"] = {"headers": item.response_headers, "payload": item.response_body}
    return shape
