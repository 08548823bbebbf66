"""Users and the service itself."""

from __future__ import annotations

from service.localhub import payloads
from service.localhub.errors import not_found
from service.localhub.rate_limit import status
from service.localhub.routes.call import Call, Handler, Reply


def get_meta(_call: Call) -> Reply:
    """What the service says of itself."""
    return Reply({"verifiable_password_authentication": False, "installed_version": "localhub"})


def get_rate_limit(call: Call) -> Reply:
    """How much may still be asked."""
    core = status(call.world)
    return Reply({"resources": {"core": core, "search": core, "graphql": core}, "rate": core})


def get_authenticated_user(call: Call) -> Reply:
    """Whose token it is."""
    return Reply(payloads.user(call.world, call.actor.user))


def get_user(call: Call) -> Reply:
    """A user by login."""
    user = call.world.find_user(call.params["login"])
    if user is None:
        raise not_found()
    return Reply(payloads.user(call.world, user))


def get_team_membership(call: Call) -> Reply:
    """Whether somebody is in a team."""
    members = call.world.state.teams.get(f"{call.params['login']}/{call.params['slug']}".lower(), [])
    if call.params["member"].lower() not in members:
        raise not_found()
    return Reply({"state": "active", "role": "member"})


HANDLERS: dict[str, Handler] = {
    "get_meta": get_meta,
    "get_rate_limit": get_rate_limit,
    "get_authenticated_user": get_authenticated_user,
    "get_user": get_user,
    "get_team_membership": get_team_membership,
}
