"""Issues, comments, reactions, labels and events. Pure."""

from __future__ import annotations

from service.localhub.payloads.apps import app
from service.localhub.payloads.people import Json, association, iso, node_id, user
from service.localhub.state import Comment, Event, Issue, Label, Reaction, Repository
from service.localhub.world import World

REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")


def issue_html_url(world: World, repository: Repository, item: Issue) -> str:
    """Where a person reads it."""
    return f"{world.base_url}/{repository.full_name}/{'pull' if item.pull else 'issues'}/{item.number}"


def issue(world: World, repository: Repository, item: Issue) -> Json:
    """An issue; a pull request looks like one that has ``pull_request``."""
    repository_url = f"{world.api_url}/repos/{repository.full_name}"
    url = f"{repository_url}/issues/{item.number}"
    html_url = issue_html_url(world, repository, item)
    shape: Json = {
        "id": item.id,
        "node_id": node_id("pull" if item.pull else "issue", item.pull.id if item.pull else item.id),
        "url": url,
        "repository_url": repository_url,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": html_url,
        "number": item.number,
        "title": item.title,
        "user": user(world, world.user(item.login)),
        "labels": [label(world, repository, repository.labels[name]) for name in item.labels],
        "state": item.state,
        "state_reason": item.state_reason,
        "locked": False,
        "assignee": user(world, world.user(item.assignees[0])) if item.assignees else None,
        "assignees": [user(world, world.user(login)) for login in item.assignees],
        "milestone": None,
        "comments": len(item.comments),
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "closed_at": iso(item.closed_at),
        "author_association": association(repository, item.login),
        "active_lock_reason": None,
        "body": item.body,
        "reactions": reaction_counts(url, item.reactions),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": _via(world, item.app_id),
    }
    if item.pull is not None:
        shape["draft"] = item.pull.draft
        shape["pull_request"] = {
            "url": f"{repository_url}/pulls/{item.number}",
            "html_url": html_url,
            "diff_url": f"{html_url}.diff",
            "patch_url": f"{html_url}.patch",
            "merged_at": iso(item.pull.merged_at),
        }
    return shape


def comment(world: World, repository: Repository, parent: Issue, item: Comment) -> Json:
    """A comment of an issue or pull request."""
    repository_url = f"{world.api_url}/repos/{repository.full_name}"
    url = f"{repository_url}/issues/comments/{item.id}"
    return {
        "id": item.id,
        "node_id": node_id("comment", item.id),
        "url": url,
        "html_url": f"{issue_html_url(world, repository, parent)}#issuecomment-{item.id}",
        "issue_url": f"{repository_url}/issues/{parent.number}",
        "user": user(world, world.user(item.login)),
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "author_association": association(repository, item.login),
        "body": item.body,
        "reactions": reaction_counts(url, item.reactions),
        "performed_via_github_app": _via(world, item.app_id),
    }


def reaction_counts(url: str, reactions: list[Reaction]) -> Json:
    """How many of each there are."""
    counts: Json = {name: sum(one.content == name for one in reactions) for name in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(reactions)} | counts


def reaction(world: World, item: Reaction) -> Json:
    """One reaction."""
    return {
        "id": item.id,
        "node_id": node_id("reaction", item.id),
        "user": user(world, world.user(item.login)),
        "content": item.content,
        "created_at": iso(item.created_at),
    }


def label(world: World, repository: Repository, item: Label) -> Json:
    """A label."""
    return {
        "id": item.id,
        "node_id": node_id("label", item.id),
        "url": f"{world.api_url}/repos/{repository.full_name}/labels/{item.name}",
        "name": item.name,
        "color": item.color,
        "default": False,
        "description": item.description,
    }


def event(world: World, repository: Repository, item: Event) -> Json:
    """Something that happened, such as ``closed``."""
    return {
        "id": item.id,
        "url": f"{world.api_url}/repos/{repository.full_name}/issues/events/{item.id}",
        "actor": user(world, world.user(item.login)),
        "event": item.kind,
        "commit_id": item.detail.get("after"),
        "created_at": iso(item.at),
    }


def _via(world: World, app_id: int | None) -> Json | None:
    return None if app_id is None else app(world, world.state.apps[app_id])
