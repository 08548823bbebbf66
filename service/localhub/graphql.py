"""GraphQL, for the four mutations that REST does not have, and `node` to read what they changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.localhub.actions import pulls
from service.localhub.auth import Viewer, allow, can_see
from service.localhub.errors import ApiError, forbidden, not_found, unauthorized, unprocessable
from service.localhub.operations import MUTATIONS, Operation
from service.localhub.payloads import node_id
from service.localhub.state import Comment, Issue, Repository, Review, ReviewComment
from service.localhub.world import World

_CLASSIFIERS = ("ABUSE", "DUPLICATE", "OFF_TOPIC", "OUTDATED", "RESOLVED", "SPAM")
_MUTATION = re.compile(r"\{\s*(\w+)\s*\(\s*input\s*:")
_READ = Operation("graphql_query", "POST", "/graphql", ("issues", "pull_requests"))
_WRITE = Operation("graphql_mutation", "POST", "/graphql", ("issues", "pull_requests"), writes=True)

Node = Issue | Comment | Review | ReviewComment


@dataclass(frozen=True)
class Found:
    """A node with its type's name and where it stands."""

    kind: str
    node: Node
    repository: Repository


def operation_of(body: Mapping[str, Any]) -> str:
    """The name under which faults for this request are injected."""
    match = _MUTATION.search(str(body.get("query", "")))
    return MUTATIONS.get(match[1], "*") if match else "*"


def answer(world: World, viewer: Viewer, body: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out a query; what is wrong with it is told under ``errors``. Raises: ApiError 401 for nobody."""
    if viewer.actor is None:
        raise unauthorized("Requires authentication")
    query, variables = str(body.get("query", "")), body.get("variables") or {}
    match = _MUTATION.search(query)
    name = match[1] if match else "node"
    try:
        shape = _mutate(world, viewer, name, variables.get("input") or {}) if match else _read(world, viewer, variables)
    except ApiError as error:
        kind = {404: "NOT_FOUND", 403: "FORBIDDEN"}.get(error.status, "UNPROCESSABLE")
        return {"data": {name: None}, "errors": [{"type": kind, "path": [name], "message": _message(error, variables)}]}
    return {"data": {name: _selected(shape, query)}}


def _mutate(world: World, viewer: Viewer, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if name not in MUTATIONS:
        raise unprocessable(f"Field '{name}' doesn't exist on type 'Mutation'")
    found = _find(world, viewer, str(given.get("pullRequestId") or given.get("subjectId") or ""))
    allow(world, viewer, _WRITE, found.repository)
    trusted = viewer.installation is not None or world.has_role(found.repository, viewer.login or "", "write")
    if not trusted and viewer.login != found.node.login:
        raise forbidden(f"{viewer.login} does not have the correct permissions to execute `{name}`")
    done: dict[str, Any] = {"clientMutationId": given.get("clientMutationId")}
    if "PullRequest" in name:
        return done | _change_draft(world, viewer, found, draft=name == "convertPullRequestToDraft")
    return done | _change_minimized(found, name, given.get("classifier"))


def _change_draft(world: World, viewer: Viewer, found: Found, draft: bool) -> dict[str, Any]:
    if not isinstance(found.node, Issue) or found.node.pull is None or viewer.actor is None:
        raise not_found()
    pulls.set_draft(world, found.repository, found.node, viewer.actor, draft)
    return {"pullRequest": _shape(found)}


def _change_minimized(found: Found, name: str, classifier: object) -> dict[str, Any]:
    if isinstance(found.node, Issue):
        raise not_found()
    if name == "unminimizeComment":
        found.node.minimized = None
        return {"unminimizedComment": _shape(found)}
    if classifier not in _CLASSIFIERS:
        raise unprocessable(f"Argument 'classifier' has an invalid value ({classifier})")
    found.node.minimized = str(classifier).lower().replace("_", "-")
    return {"minimizedComment": _shape(found)}


def _read(world: World, viewer: Viewer, variables: Mapping[str, Any]) -> dict[str, Any]:
    found = _find(world, viewer, str(variables.get("id", "")))
    allow(world, viewer, _READ, found.repository)
    return _shape(found)


def _shape(found: Found) -> dict[str, Any]:
    shape: dict[str, Any] = {"__typename": found.kind}
    if isinstance(found.node, Issue):
        if found.node.pull is not None:
            shape |= {"id": node_id("pull", found.node.pull.id), "isDraft": found.node.pull.draft}
        return shape | {"number": found.node.number, "title": found.node.title}
    reason = found.node.minimized
    return shape | {"isMinimized": reason is not None, "minimizedReason": reason, "body": found.node.body}


def _selected(shape: Any, query: str) -> Any:
    """Only what the query names, since a field that was not asked for must not be relied on."""
    if not isinstance(shape, dict):
        return shape
    return {key: _selected(value, query) for key, value in shape.items() if re.search(rf"\b{key}\b", query)}


def _find(world: World, viewer: Viewer, wanted: str) -> Found:
    for repository in world.state.repositories.values():
        for known, kind, node in _nodes(repository):
            if known == wanted and can_see(world, viewer, repository):
                return Found(kind, node, repository)
    raise not_found()


def _nodes(repository: Repository) -> Iterator[tuple[str, str, Node]]:
    for issue in repository.issues.values():
        for comment in issue.comments:
            yield node_id("comment", comment.id), "IssueComment", comment
        if issue.pull is None:
            yield node_id("issue", issue.id), "Issue", issue
            continue
        yield node_id("pull", issue.pull.id), "PullRequest", issue
        for review in issue.pull.reviews:
            yield node_id("review", review.id), "PullRequestReview", review
        for note in issue.pull.review_comments:
            yield node_id("review_comment", note.id), "PullRequestReviewComment", note


def _message(error: ApiError, variables: Mapping[str, Any]) -> str:
    if error.status != 404:
        return error.message
    given = variables.get("input") or {}
    wanted = given.get("pullRequestId") or given.get("subjectId") or variables.get("id")
    return f"Could not resolve to a node with the global id of '{wanted}'."
