"""Reactions: one of each kind from each user."""

from __future__ import annotations

from service.localhub.errors import invalid, not_found
from service.localhub.payloads.issues import REACTIONS
from service.localhub.state import Reaction
from service.localhub.world import Actor, World


def react(world: World, reactions: list[Reaction], actor: Actor, content: object) -> tuple[Reaction, bool]:
    """Leave a reaction; False where it stood there already. Raises: ApiError 422."""
    if content not in REACTIONS:
        raise invalid("Reaction", "content", "invalid")
    for reaction in reactions:
        if reaction.content == content and reaction.login == actor.login:
            return reaction, False
    reaction = Reaction(world.state.new_id(), str(content), actor.login, world.clock())
    reactions.append(reaction)
    return reaction, True


def take_back(reactions: list[Reaction], reaction_id: int) -> None:
    """Remove a reaction. Raises: ApiError 404."""
    for reaction in reactions:
        if reaction.id == reaction_id:
            reactions.remove(reaction)
            return
    raise not_found()
