"""Users, node ids, times and permissions. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from service.localhub.state import Repository, User
from service.localhub.world import World

Json = dict[str, Any]

# Prefixes of node ids, by which GraphQL finds the object again.
NODE_PREFIXES: dict[str, str] = {
    "user": "U",
    "repository": "R",
    "issue": "I",
    "comment": "IC",
    "pull": "PR",
    "review": "PRR",
    "review_comment": "PRRC",
    "check_run": "CR",
    "app": "A",
    "installation": "MDIzOkludGVncmF0aW9uSW5zdGFsbGF0aW9u",
    "label": "LA",
    "reaction": "REA",
}


def node_id(kind: str, number: int) -> str:
    """The GraphQL id of an object."""
    return f"{NODE_PREFIXES[kind]}_{number}"


def iso(at: datetime | None) -> str | None:
    """A time as GitHub writes it, such as ``2026-01-31T12:00:00Z``."""
    return None if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def user(world: World, someone: User) -> Json:
    """A user, also as ``sender`` and ``owner``."""
    url = f"{world.api_url}/users/{someone.login}"
    return {
        "login": someone.login,
        "id": someone.id,
        "node_id": node_id("user", someone.id),
        "avatar_url": f"{world.base_url}/_static/avatar.svg",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{world.base_url}/{someone.login}",
        "organizations_url": f"{url}/orgs",
        "repos_url": f"{url}/repos",
        "type": someone.type,
        "site_admin": False,
        "name": someone.name,
        "email": someone.email,
    }


def permission(world: World, repository: Repository, login: str) -> Json:
    """A collaborator's permission; ``permission`` knows four levels, ``role_name`` all of them."""
    role = world.role(repository, login)
    legacy = {"maintain": "write", "triage": "read"}.get(role, role)
    someone = user(world, world.user(login))
    return {
        "permission": legacy,
        "role_name": role,
        "user": someone | {"permissions": permission_flags(role), "role_name": role},
    }


def permission_flags(role: str) -> dict[str, bool]:
    """The five flags of a role."""
    order = ("none", "pull", "triage", "push", "maintain", "admin")
    level = ("none", "read", "triage", "write", "maintain", "admin").index(role)
    return {name: order.index(name) <= level for name in reversed(order[1:])}


def association(repository: Repository, login: str) -> str:
    """``author_association`` of what somebody wrote."""
    if login.lower() == repository.owner.lower():
        return "OWNER"
    known = {name.lower() for name in repository.collaborators}
    return "COLLABORATOR" if login.lower() in known else "NONE"


def short_repository(repository: Repository) -> Json:
    """A repository as installation events list it."""
    return {
        "id": repository.id,
        "node_id": node_id("repository", repository.id),
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
    }
