"""GitHub's JSON shapes, as far as PyGithub and a bot read them. Pure: the world is read and never changed."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from deploy.localhub.git import BareRepository, CommitData, CommitSignature, DiffFile, GitTreeEntry, changed_files
from deploy.localhub.state import (
    App,
    CheckRun,
    Comment,
    Delivery,
    Event,
    Installation,
    Issue,
    Label,
    Pull,
    Reaction,
    Repository,
    Review,
    ReviewComment,
    User,
)
from deploy.localhub.world import World

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


def check_run(world: World, repository: Repository, item: CheckRun) -> Json:
    """A check run with its output and the pull requests of its commit."""
    url = f"{world.api_url}/repos/{repository.full_name}/check-runs/{item.id}"
    html_url = f"{world.base_url}/{repository.full_name}/runs/{item.id}"
    return {
        "id": item.id,
        "name": item.name,
        "node_id": node_id("check_run", item.id),
        "head_sha": item.head_sha,
        "external_id": item.external_id,
        "url": url,
        "html_url": html_url,
        "details_url": item.details_url or html_url,
        "status": item.status,
        "conclusion": item.conclusion,
        "started_at": iso(item.started_at),
        "completed_at": iso(item.completed_at),
        "output": {
            "title": item.title,
            "summary": item.summary,
            "text": item.text,
            "annotations_count": 0,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": item.id, "head_sha": item.head_sha},
        "app": app(world, world.state.apps[item.app_id]),
        "pull_requests": [
            {
                "id": issue.pull.id,
                "number": issue.number,
                "url": f"{world.api_url}/repos/{repository.full_name}/pulls/{issue.number}",
                "head": {"ref": issue.pull.head_ref, "sha": issue.pull.head_sha},
                "base": {"ref": issue.pull.base_ref, "sha": issue.pull.base_sha},
            }
            for issue in repository.issues.values()
            if issue.pull and issue.state == "open" and issue.pull.head_sha == item.head_sha
        ],
    }


def git_commit(world: World, repository: Repository, item: CommitData) -> Json:
    """A commit as the Git Data API shows it."""
    root = f"{world.api_url}/repos/{repository.full_name}/git"
    return {
        "sha": item.sha,
        "node_id": f"C_{item.sha}",
        "url": f"{root}/commits/{item.sha}",
        "html_url": f"{world.base_url}/{repository.full_name}/commit/{item.sha}",
        "author": _signature(item.author),
        "committer": _signature(item.committer),
        "message": item.message,
        "tree": {"sha": item.tree, "url": f"{root}/trees/{item.tree}"},
        "parents": [{"sha": sha, "url": f"{root}/commits/{sha}"} for sha in item.parents],
        "verification": {"verified": False, "reason": "unsigned", "signature": None, "payload": None},
    }


def commit(world: World, repository: Repository, item: CommitData, files: list[DiffFile] | None = None) -> Json:
    """A commit as the repository API shows it; ``files`` are left out of lists."""
    url = f"{world.api_url}/repos/{repository.full_name}/commits/{item.sha}"
    inner = git_commit(world, repository, item)
    shape: Json = {
        "sha": item.sha,
        "node_id": inner["node_id"],
        "commit": {key: inner[key] for key in ("author", "committer", "message", "tree", "url", "verification")},
        "url": url,
        "html_url": inner["html_url"],
        "comments_url": f"{url}/comments",
        "author": _account(world, item.author),
        "committer": _account(world, item.committer),
        "parents": [
            {"sha": sha, "url": f"{world.api_url}/repos/{repository.full_name}/commits/{sha}"} for sha in item.parents
        ],
    }
    if files is not None:
        added, removed = sum(file.additions for file in files), sum(file.deletions for file in files)
        shape["stats"] = {"additions": added, "deletions": removed, "total": added + removed}
        shape["files"] = [changed_file(world, repository, item.sha, file) for file in files]
    return shape


def changed_file(world: World, repository: Repository, head: str, item: DiffFile) -> Json:
    """A file of a commit, comparison or pull request."""
    path = quote(item.path)
    shape: Json = {
        "sha": item.sha,
        "filename": item.path,
        "status": item.status,
        "additions": item.additions,
        "deletions": item.deletions,
        "changes": item.additions + item.deletions,
        "blob_url": f"{world.base_url}/{repository.full_name}/blob/{head}/{path}",
        "raw_url": f"{world.base_url}/{repository.full_name}/raw/{head}/{path}",
        "contents_url": f"{world.api_url}/repos/{repository.full_name}/contents/{path}?ref={head}",
    }
    if item.patch is not None:
        shape["patch"] = item.patch
    if item.previous_path is not None:
        shape["previous_filename"] = item.previous_path
    return shape


def git_ref(world: World, repository: Repository, name: str, sha: str) -> Json:
    """A ref."""
    root = f"{world.api_url}/repos/{repository.full_name}/git"
    target = {"sha": sha, "type": "commit", "url": f"{root}/commits/{sha}"}
    return {"ref": name, "node_id": f"REF_{name}", "url": f"{root}/{quote(name)}", "object": target}


def git_tree(world: World, repository: Repository, sha: str, entries: list[GitTreeEntry]) -> Json:
    """A tree."""
    root = f"{world.api_url}/repos/{repository.full_name}/git"
    shown = []
    for entry in entries:
        shape: Json = {"path": entry.path, "mode": entry.mode, "type": entry.type, "sha": entry.sha}
        if entry.size is not None:
            shape["size"] = entry.size
        shown.append(shape | {"url": f"{root}/{'trees' if entry.type == 'tree' else 'blobs'}/{entry.sha}"})
    return {"sha": sha, "url": f"{root}/trees/{sha}", "tree": shown, "truncated": False}


def contents(
    world: World, repository: Repository, ref: str, entry: GitTreeEntry, git: BareRepository | None = None
) -> Json:
    """A file or folder of the contents API; with ``git`` a file's content too, in base64 as GitHub wraps it."""
    path = quote(entry.path)
    url = f"{world.api_url}/repos/{repository.full_name}/contents/{path}?ref={quote(ref, safe='')}"
    kinds = {"tree": "dir", "blob": "symlink" if entry.mode == "120000" else "file", "commit": "submodule"}
    is_file = entry.type == "blob"
    raw_url = f"{world.base_url}/{repository.full_name}/raw/{quote(ref)}/{path}"
    shape: Json = {
        "name": entry.path.rsplit("/", 1)[-1],
        "path": entry.path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": url,
        "html_url": f"{world.base_url}/{repository.full_name}/{'blob' if is_file else 'tree'}/{quote(ref)}/{path}",
        "git_url": f"{world.api_url}/repos/{repository.full_name}/git/{'blobs' if is_file else 'trees'}/{entry.sha}",
        "download_url": raw_url if is_file else None,
        "type": kinds.get(entry.type, "file"),
    }
    if git is not None and entry.sha is not None:
        shape["encoding"] = "base64"
        shape["content"] = base64.encodebytes(git.read_object("blob", entry.sha)).decode()
    return shape


def branch(world: World, repository: Repository, name: str, item: CommitData) -> Json:
    """A branch with the commit at its tip."""
    url = f"{world.api_url}/repos/{repository.full_name}/branches/{quote(name)}"
    shape = commit(world, repository, item)
    return {
        "name": name,
        "commit": shape,
        "protected": False,
        "protection": {"enabled": False},
        "protection_url": f"{url}/protection",
        "_links": {"self": url, "html": f"{world.base_url}/{repository.full_name}/tree/{quote(name)}"},
    }


def _signature(item: CommitSignature) -> Json:
    return {"name": item.name, "email": item.email, "date": iso(item.at)}


def _account(world: World, item: CommitSignature) -> Json | None:
    known = (someone for someone in world.state.users.values() if someone.email == item.email)
    someone = next(known, None)
    return user(world, someone) if someone else None


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


_FROM_ISSUE = (
    "number",
    "state",
    "locked",
    "title",
    "user",
    "body",
    "labels",
    "assignee",
    "assignees",
    "milestone",
    "created_at",
    "updated_at",
    "closed_at",
    "author_association",
    "active_lock_reason",
    "html_url",
    "comments",
)


def pull(world: World, repository: Repository, item: Issue, full: bool = True) -> Json:
    """A pull request; ``full`` adds the counts that lists leave out."""
    request = _pull_of(item)
    as_issue = issue(world, repository, item)
    url = f"{world.api_url}/repos/{repository.full_name}/pulls/{item.number}"
    issue_url = as_issue["url"]
    shape: Json = {key: as_issue[key] for key in _FROM_ISSUE} | {
        "id": request.id,
        "node_id": node_id("pull", request.id),
        "url": url,
        "diff_url": f"{as_issue['html_url']}.diff",
        "patch_url": f"{as_issue['html_url']}.patch",
        "issue_url": issue_url,
        "commits_url": f"{url}/commits",
        "review_comments_url": f"{url}/comments",
        "review_comment_url": f"{world.api_url}/repos/{repository.full_name}/pulls/comments{{/number}}",
        "comments_url": f"{issue_url}/comments",
        "statuses_url": f"{world.api_url}/repos/{repository.full_name}/statuses/{request.head_sha}",
        "draft": request.draft,
        "merged_at": iso(request.merged_at),
        "merge_commit_sha": request.merge_commit_sha,
        "requested_reviewers": [user(world, world.user(login)) for login in request.requested_reviewers],
        "requested_teams": [],
        "head": _side(
            world, world.state.repositories.get(request.head_repository_id), request.head_ref, request.head_sha
        ),
        "base": _side(world, repository, request.base_ref, request.base_sha),
        "auto_merge": None,
        "_links": {
            "self": {"href": url},
            "html": {"href": as_issue["html_url"]},
            "issue": {"href": issue_url},
            "comments": {"href": f"{issue_url}/comments"},
            "review_comments": {"href": f"{url}/comments"},
            "commits": {"href": f"{url}/commits"},
        },
    }
    return shape | _counts(world, repository, request) if full else shape


def _counts(world: World, repository: Repository, request: Pull) -> Json:
    git = world.git(repository)
    base = git.merge_base(request.base_sha, request.head_sha) or request.base_sha
    files = changed_files(git, base, request.head_sha)
    return {
        "merged": request.merged_at is not None,
        "mergeable": True,
        "rebaseable": True,
        "mergeable_state": "draft" if request.draft else "clean",
        "merged_by": user(world, world.user(request.merged_by)) if request.merged_by else None,
        "review_comments": len(request.review_comments),
        "maintainer_can_modify": False,
        "commits": len(git.history(request.head_sha, exclude=base)),
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }


def _side(world: World, side: Repository | None, ref: str, sha: str) -> Json:
    if side is None:
        return {"label": f"unknown:{ref}", "ref": ref, "sha": sha, "user": None, "repo": None}
    shape = repository(world, side)
    return {"label": f"{side.owner}:{ref}", "ref": ref, "sha": sha, "user": shape["owner"], "repo": shape}


def review(world: World, repository: Repository, parent: Issue, item: Review) -> Json:
    """A review; ``commit_id`` is the commit that it was given for."""
    url = f"{world.api_url}/repos/{repository.full_name}/pulls/{parent.number}"
    html_url = f"{world.base_url}/{repository.full_name}/pull/{parent.number}"
    return {
        "id": item.id,
        "node_id": node_id("review", item.id),
        "user": user(world, world.user(item.login)),
        "body": item.body,
        "state": item.state,
        "html_url": f"{html_url}#pullrequestreview-{item.id}",
        "pull_request_url": url,
        "author_association": association(repository, item.login),
        "_links": {"html": {"href": f"{html_url}#pullrequestreview-{item.id}"}, "pull_request": {"href": url}},
        "submitted_at": iso(item.submitted_at),
        "commit_id": item.commit_id,
    }


def review_comment(world: World, repository: Repository, parent: Issue, item: ReviewComment) -> Json:
    """A comment on a line of the changes."""
    repository_url = f"{world.api_url}/repos/{repository.full_name}"
    url = f"{repository_url}/pulls/comments/{item.id}"
    html_url = f"{world.base_url}/{repository.full_name}/pull/{parent.number}#discussion_r{item.id}"
    pull_url = f"{repository_url}/pulls/{parent.number}"
    return {
        "id": item.id,
        "node_id": node_id("review_comment", item.id),
        "url": url,
        "pull_request_review_id": item.review_id,
        "diff_hunk": item.diff_hunk,
        "path": item.path,
        "position": item.line,
        "original_position": item.line,
        "commit_id": _pull_of(parent).head_sha,
        "original_commit_id": item.commit_id,
        "user": user(world, world.user(item.login)),
        "body": item.body,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "html_url": html_url,
        "pull_request_url": pull_url,
        "author_association": association(repository, item.login),
        "_links": {"self": {"href": url}, "html": {"href": html_url}, "pull_request": {"href": pull_url}},
        "start_line": item.start_line,
        "original_start_line": item.start_line,
        "start_side": item.side if item.start_line else None,
        "line": item.line,
        "original_line": item.line,
        "side": item.side,
        "subject_type": "line" if item.line else "file",
        "reactions": reaction_counts(url, item.reactions),
    } | ({"in_reply_to_id": item.in_reply_to_id} if item.in_reply_to_id else {})


def _pull_of(item: Issue) -> Pull:
    assert item.pull is not None, "a pull request's payload was asked for an issue"
    return item.pull
