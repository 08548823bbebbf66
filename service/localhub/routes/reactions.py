"""Reactions on issues, comments and review comments: one set of answers for the three."""

from __future__ import annotations

from service.localhub import payloads
from service.localhub.actions.issues import find_comment
from service.localhub.actions.reactions import react, take_back
from service.localhub.actions.reviews import find_note
from service.localhub.routes.call import Call, Handler, Reply
from service.localhub.state import Reaction


def _of_issue(call: Call) -> list[Reaction]:
    return call.world.issue(call.repo, call.params["number"]).reactions


def _of_comment(call: Call) -> list[Reaction]:
    return find_comment(call.repo, call.params["comment_id"])[1].reactions


def _of_note(call: Call) -> list[Reaction]:
    return find_note(call.repo, call.params["comment_id"])[1].reactions


def _list(call: Call, reactions: list[Reaction]) -> Reply:
    content = call.query.get("content")
    found = [item for item in reactions if content in (None, item.content)]
    return call.page(found, lambda item: payloads.reaction(call.world, item))


def _create(call: Call, reactions: list[Reaction]) -> Reply:
    reaction, created = react(call.world, reactions, call.actor, call.body.get("content"))
    return Reply(payloads.reaction(call.world, reaction), 201 if created else 200)


def _delete(call: Call, reactions: list[Reaction]) -> Reply:
    take_back(reactions, call.params["reaction_id"])
    return Reply(None, 204)


HANDLERS: dict[str, Handler] = {
    "list_issue_reactions": lambda call: _list(call, _of_issue(call)),
    "create_issue_reaction": lambda call: _create(call, _of_issue(call)),
    "delete_issue_reaction": lambda call: _delete(call, _of_issue(call)),
    "list_comment_reactions": lambda call: _list(call, _of_comment(call)),
    "create_comment_reaction": lambda call: _create(call, _of_comment(call)),
    "delete_comment_reaction": lambda call: _delete(call, _of_comment(call)),
    "list_review_comment_reactions": lambda call: _list(call, _of_note(call)),
    "create_review_comment_reaction": lambda call: _create(call, _of_note(call)),
    "delete_review_comment_reaction": lambda call: _delete(call, _of_note(call)),
}
