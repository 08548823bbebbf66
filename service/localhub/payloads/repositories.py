"""A repository. Pure."""

from __future__ import annotations

from service.localhub.payloads.people import Json, iso, permission_flags, short_repository, user
from service.localhub.state import Repository, User
from service.localhub.world import World


def repository(world: World, item: Repository, viewer_login: str | None = None) -> Json:
    """A repository with its URLs; ``permissions`` are the viewer's."""
    url = f"{world.api_url}/repos/{item.full_name}"
    html_url = f"{world.base_url}/{item.full_name}"
    owner = world.find_user(item.owner) or User(0, item.owner, "Organization", item.owner, "")
    open_issues = sum(issue.state == "open" for issue in item.issues.values())
    shape: Json = short_repository(item) | {
        "owner": user(world, owner),
        "html_url": html_url,
        "description": item.description,
        "fork": item.parent_id is not None,
        "url": url,
        "archived": False,
        "disabled": False,
        "visibility": "private" if item.private else "public",
        "default_branch": item.default_branch,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.pushed_at),
        "pushed_at": iso(item.pushed_at),
        "git_url": f"{html_url}.git",
        "clone_url": f"{html_url}.git",
        "ssh_url": f"{html_url}.git",
        "size": 0,
        "stargazers_count": 0,
        "watchers_count": 0,
        "forks_count": sum(other.parent_id == item.id for other in world.state.repositories.values()),
        "language": "Python",
        "has_issues": True,
        "open_issues_count": open_issues,
        "open_issues": open_issues,
        "license": None,
        "allow_forking": True,
        "topics": [],
        "archive_url": f"{url}/{{archive_format}}{{/ref}}",
        "branches_url": f"{url}/branches{{/branch}}",
        "collaborators_url": f"{url}/collaborators{{/collaborator}}",
        "comments_url": f"{url}/comments{{/number}}",
        "commits_url": f"{url}/commits{{/sha}}",
        "compare_url": f"{url}/compare/{{base}}...{{head}}",
        "contents_url": f"{url}/contents/{{+path}}",
        "git_commits_url": f"{url}/git/commits{{/sha}}",
        "git_refs_url": f"{url}/git/refs{{/sha}}",
        "issue_comment_url": f"{url}/issues/comments{{/number}}",
        "issues_url": f"{url}/issues{{/number}}",
        "labels_url": f"{url}/labels{{/name}}",
        "pulls_url": f"{url}/pulls{{/number}}",
        "statuses_url": f"{url}/statuses/{{sha}}",
        "trees_url": f"{url}/git/trees{{/sha}}",
    }
    if viewer_login is not None:
        shape["permissions"] = permission_flags(world.role(item, viewer_login))
    return shape
