"""Branches that move: through the API, a push, the Python API or a merge; pull requests and webhooks learn of it here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.localhub import payloads
from service.localhub.actions.pulls import follow_branch
from service.localhub.errors import ApiError, unprocessable
from service.localhub.git import CommitData, Signature, changed_files, is_safe_ref
from service.localhub.git.bare import ZERO
from service.localhub.state import Repository
from service.localhub.webhooks import emit
from service.localhub.world import Actor, World

_MOST_COMMITS_IN_PUSH = 20


def create_ref(world: World, repository: Repository, actor: Actor, name: object, sha: object) -> None:
    """Make a ref. Raises: ApiError 422 where it exists, is no ref's name, or names nothing."""
    git = world.git(repository)
    if not isinstance(name, str) or not name.startswith("refs/") or name.count("/") < 2 or not is_safe_ref(name):
        raise unprocessable("Reference name must start with 'refs/' and contain at least two slashes.")
    if name.startswith("refs/pull/"):
        raise unprocessable("Reference name is reserved.")
    kind = git.kind(sha) if isinstance(sha, str) else None
    if not isinstance(sha, str) or kind is None or (kind != "commit" and name.startswith("refs/heads/")):
        raise unprocessable("Object does not exist")
    if not git.update_ref(name, sha, ZERO):
        raise unprocessable("Reference already exists")
    ref_changed(world, repository, name, None, sha, actor)


def update_ref(world: World, repository: Repository, actor: Actor, name: str, sha: object, force: bool) -> None:
    """Move a ref; without ``force`` only forward. Raises: ApiError 422."""
    git = world.git(repository)
    old = git.ref(name)
    if old is None:
        raise unprocessable("Reference does not exist")
    if not isinstance(sha, str) or git.kind(sha) != "commit":
        raise unprocessable("Object does not exist")
    if not force and not git.is_ancestor(old, sha):
        raise unprocessable("Update is not a fast forward")
    if not git.update_ref(name, sha, old):
        raise ApiError(409, "Reference cannot be updated")
    ref_changed(world, repository, name, old, sha, actor)


def delete_ref(world: World, repository: Repository, actor: Actor, name: str) -> None:
    """Remove a ref. Raises: ApiError 422."""
    git = world.git(repository)
    old = git.ref(name)
    if old is None:
        raise unprocessable("Reference does not exist")
    git.delete_ref(name)
    ref_changed(world, repository, name, old, None, actor)


def ref_changed(
    world: World, repository: Repository, name: str, old: str | None, new: str | None, actor: Actor
) -> None:
    """Let the rest of the hub know that a ref has moved."""
    if old == new or not name.startswith(("refs/heads/", "refs/tags/")):
        return
    repository.pushed_at = world.clock()
    emit(world, repository, "push", None, _push_payload(world, repository, name, old, new, actor), actor)
    if name.startswith("refs/heads/"):
        follow_branch(world, repository, name.removeprefix("refs/heads/"), new, actor)


def refs_compared(
    world: World, repository: Repository, before: Mapping[str, str], after: Mapping[str, str], actor: Actor
) -> None:
    """Tell of every ref that differs, as after a push over HTTP."""
    for name in sorted({*before, *after}):
        ref_changed(world, repository, name, before.get(name), after.get(name), actor)


def commit_files(
    world: World,
    repository: Repository,
    actor: Actor,
    branch: str,
    changes: Mapping[str, bytes | None],
    message: str,
    force_from: str | None = None,
) -> str:
    """Commit files on a branch as a person would, and give the commit; ``force_from`` builds on that and forces."""
    git = world.git(repository)
    name = f"refs/heads/{branch}"
    old = git.ref(name)
    start = force_from or old or git.ref(f"refs/heads/{repository.default_branch}")
    if not is_safe_ref(name):
        raise unprocessable(f"{branch!r} cannot be the name of a branch")
    who = Signature(actor.user.name, actor.user.email, world.clock())
    tree = git.write_files(changes, start)
    sha = git.write_commit(CommitData(tree, (start,) if start else (), message, who, who))
    if not git.update_ref(name, sha, old or ZERO):
        raise ApiError(409, "Reference cannot be updated")
    ref_changed(world, repository, name, old, sha, actor)
    return sha


def _push_payload(
    world: World, repository: Repository, name: str, old: str | None, new: str | None, actor: Actor
) -> dict[str, Any]:
    git = world.git(repository)
    commits: list[dict[str, Any]] = []
    if new is not None and git.kind(new) == "commit":
        known = old or git.ref(f"refs/heads/{repository.default_branch}")
        news = git.history(new, exclude=known if known != new else None, limit=_MOST_COMMITS_IN_PUSH)
        commits = [_pushed_commit(world, repository, sha) for sha in reversed(news)]
    return {
        "ref": name,
        "before": old or ZERO,
        "after": new or ZERO,
        "base_ref": None,
        "created": old is None,
        "deleted": new is None,
        "forced": bool(old and new and not git.is_ancestor(old, new)),
        "compare": f"{world.base_url}/{repository.full_name}/compare/{(old or ZERO)[:12]}...{(new or ZERO)[:12]}",
        "commits": commits,
        "head_commit": commits[-1] if commits else None,
        "pusher": {"name": actor.login, "email": actor.user.email},
    }


def _pushed_commit(world: World, repository: Repository, sha: str) -> dict[str, Any]:
    git = world.git(repository)
    commit = git.commit(sha)
    shape = payloads.git_commit(world, repository, commit)
    files = changed_files(git, commit.parents[0], sha) if commit.parents else []
    return {
        "id": sha,
        "tree_id": commit.tree,
        "distinct": True,
        "message": commit.message,
        "timestamp": shape["committer"]["date"],
        "url": shape["html_url"],
        "author": {"name": commit.author.name, "email": commit.author.email},
        "committer": {"name": commit.committer.name, "email": commit.committer.email},
        "added": [file.path for file in files if file.status == "added"],
        "removed": [file.path for file in files if file.status == "removed"],
        "modified": [file.path for file in files if file.status not in ("added", "removed")],
    }
