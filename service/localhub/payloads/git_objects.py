"""Commits, refs, trees, files and branches. Pure, but for what git is asked for."""

from __future__ import annotations

import base64
from urllib.parse import quote

from service.localhub.git import BareRepository, ChangedFile, CommitData, Signature, TreeEntry
from service.localhub.payloads.people import Json, iso, user
from service.localhub.state import Repository
from service.localhub.world import World


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


def commit(world: World, repository: Repository, item: CommitData, files: list[ChangedFile] | None = None) -> Json:
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


def changed_file(world: World, repository: Repository, head: str, item: ChangedFile) -> Json:
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


def git_tree(world: World, repository: Repository, sha: str, entries: list[TreeEntry]) -> Json:
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
    world: World, repository: Repository, ref: str, entry: TreeEntry, git: BareRepository | None = None
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


def _signature(item: Signature) -> Json:
    return {"name": item.name, "email": item.email, "date": iso(item.at)}


def _account(world: World, item: Signature) -> Json | None:
    known = (someone for someone in world.state.users.values() if someone.email == item.email)
    someone = next(known, None)
    return user(world, someone) if someone else None
