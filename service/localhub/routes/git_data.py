"""The Git Data API: blobs, trees, commits and refs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from service.localhub import payloads
from service.localhub.actions import refs
from service.localhub.errors import invalid, not_found, unprocessable
from service.localhub.git import CommitData, Signature, TreeEntry, is_safe_path
from service.localhub.routes.call import Call, Handler, Reply

_MODES = {"100644": "blob", "100755": "blob", "120000": "blob", "040000": "tree", "160000": "commit"}


def get_ref(call: Call) -> Reply:
    """A ref by its full name without ``refs/``."""
    name = f"refs/{call.params['ref']}"
    sha = call.world.git(call.repo).ref(name)
    if sha is None:
        raise not_found()
    return Reply(payloads.git_ref(call.world, call.repo, name, sha))


def list_matching_refs(call: Call) -> Reply:
    """The refs whose names start so."""
    start = f"refs/{call.params.get('ref', '')}"
    found = [(name, sha) for name, sha in call.world.git(call.repo).refs().items() if name.startswith(start)]
    return call.page(found, lambda item: payloads.git_ref(call.world, call.repo, *item))


def create_ref(call: Call) -> Reply:
    """Make a ref."""
    name, sha = call.body.get("ref"), call.body.get("sha")
    refs.create_ref(call.world, call.repo, call.actor, name, sha)
    return Reply(payloads.git_ref(call.world, call.repo, str(name), str(sha)), 201)


def update_ref(call: Call) -> Reply:
    """Move a ref; ``force`` lets it go anywhere."""
    name, sha = f"refs/{call.params['ref']}", call.body.get("sha")
    refs.update_ref(call.world, call.repo, call.actor, name, sha, bool(call.body.get("force")))
    return Reply(payloads.git_ref(call.world, call.repo, name, str(sha)))


def delete_ref(call: Call) -> Reply:
    """Remove a ref."""
    refs.delete_ref(call.world, call.repo, call.actor, f"refs/{call.params['ref']}")
    return Reply(None, 204)


def create_blob(call: Call) -> Reply:
    """Write a blob."""
    content = call.body.get("content")
    if not isinstance(content, str):
        raise invalid("Blob", "content", "missing_field")
    try:
        data = base64.b64decode(content) if call.body.get("encoding") == "base64" else content.encode()
    except binascii.Error as error:
        raise invalid("Blob", "content", "invalid") from error
    sha = call.world.git(call.repo).write_object("blob", data)
    return Reply({"sha": sha, "url": _url(call, "blobs", sha)}, 201)


def get_blob(call: Call) -> Reply:
    """Read a blob."""
    git, sha = call.world.git(call.repo), call.params["sha"]
    if git.kind(sha) != "blob":
        raise not_found()
    data = git.read_object("blob", sha)
    content = base64.encodebytes(data).decode()
    shape = {"sha": sha, "node_id": f"B_{sha}", "size": len(data), "url": _url(call, "blobs", sha)}
    return Reply(shape | {"content": content, "encoding": "base64"})


def create_tree(call: Call) -> Reply:
    """Write a tree, perhaps on top of ``base_tree``; an entry with ``sha`` null removes a file."""
    git, base = call.world.git(call.repo), call.body.get("base_tree")
    if base is not None and git.kind(str(base)) not in ("tree", "commit"):
        raise unprocessable("base_tree is not a valid tree oid")
    entries = call.body.get("tree")
    if not isinstance(entries, list) or not entries:
        raise unprocessable("Invalid tree info")
    sha = git.write_tree([_entry(call, item) for item in entries], base)
    return Reply(payloads.git_tree(call.world, call.repo, sha, git.tree_entries(sha)), 201)


def _entry(call: Call, item: Mapping[str, Any]) -> TreeEntry:
    git, path, mode = call.world.git(call.repo), item.get("path"), str(item.get("mode"))
    if not isinstance(path, str) or not is_safe_path(path):
        raise unprocessable("tree.path contains a malformed path component")
    if mode not in _MODES:
        raise unprocessable("tree.mode must be one of 100644, 100755, 040000, 160000 or 120000")
    if "content" in item and "sha" not in item:
        return TreeEntry(path, mode, "blob", git.write_object("blob", str(item["content"]).encode()))
    sha = item.get("sha")
    if sha is None:
        return TreeEntry(path, mode, _MODES[mode], None)
    if git.kind(str(sha)) != _MODES[mode]:
        raise unprocessable(f"tree.sha {sha} is not a valid {_MODES[mode]}")
    return TreeEntry(path, mode, _MODES[mode], str(sha))


def get_tree(call: Call) -> Reply:
    """A tree by its id, or that of a commit or branch."""
    git, name = call.world.git(call.repo), call.params["sha"]
    commit = git.resolve(name)
    tree = git.commit(commit).tree if commit else name
    if commit is None and git.kind(name) != "tree":
        raise not_found()
    entries = git.tree_entries(tree, recursive=bool(call.query.get("recursive")))
    return Reply(payloads.git_tree(call.world, call.repo, tree, entries))


def create_git_commit(call: Call) -> Reply:
    """Write a commit; nothing points to it yet. The same content, dates included, gives the same commit."""
    git, body = call.world.git(call.repo), call.body
    tree, parents, message = body.get("tree"), body.get("parents") or [], body.get("message")
    if not isinstance(message, str):
        raise invalid("Commit", "message", "missing_field")
    if not isinstance(tree, str) or git.kind(tree) != "tree":
        raise unprocessable("Tree SHA does not exist")
    if not isinstance(parents, list) or any(git.kind(str(sha)) != "commit" for sha in parents):
        raise unprocessable("Parent SHA does not exist or is not a commit object")
    author = _signature(call, body.get("author") or body.get("committer"))
    committer = _signature(call, body.get("committer") or body.get("author"))
    sha = git.write_commit(CommitData(tree, tuple(parents), message, author, committer))
    return Reply(payloads.git_commit(call.world, call.repo, git.commit(sha)), 201)


def _signature(call: Call, given: Mapping[str, Any] | None) -> Signature:
    user = call.actor.user
    if given is None:
        return Signature(user.name, user.email, call.world.clock())
    try:
        at = datetime.fromisoformat(given["date"]) if given.get("date") else call.world.clock()
    except (TypeError, ValueError) as error:
        raise invalid("Commit", "date", "invalid") from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=call.world.clock().tzinfo)
    return Signature(str(given.get("name") or user.name), str(given.get("email") or user.email), at)


def get_git_commit(call: Call) -> Reply:
    """A commit by its id."""
    git, sha = call.world.git(call.repo), call.params["sha"]
    if git.kind(sha) != "commit":
        raise not_found()
    return Reply(payloads.git_commit(call.world, call.repo, git.commit(sha)))


def _url(call: Call, kind: str, sha: str) -> str:
    return f"{call.world.api_url}/repos/{call.repo.full_name}/git/{kind}/{sha}"


HANDLERS: dict[str, Handler] = {
    "get_ref": get_ref,
    "get_ref_plural": get_ref,
    "list_matching_refs": list_matching_refs,
    "list_refs": list_matching_refs,
    "create_ref": create_ref,
    "update_ref": update_ref,
    "delete_ref": delete_ref,
    "create_blob": create_blob,
    "get_blob": get_blob,
    "create_tree": create_tree,
    "get_tree": get_tree,
    "create_git_commit": create_git_commit,
    "get_git_commit": get_git_commit,
}
