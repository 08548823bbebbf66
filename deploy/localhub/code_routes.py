"""The routes of repositories, git data, apps, users and check runs."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha1
from typing import Any
from urllib.parse import quote

from deploy.localhub import checks, payloads, pulls, webhooks
from deploy.localhub.auth import can_see, covers, require_workflows
from deploy.localhub.call import AdmittedRequest, Handler, HttpReply
from deploy.localhub.git import BareRepository, CommitData, CommitSignature, GitTreeEntry, changed_files, is_safe_path
from deploy.localhub.operations import invalid, not_found, unprocessable
from deploy.localhub.state import App, CheckRun, Delivery, Installation, Repository, Token


def get_repo(call: AdmittedRequest) -> HttpReply:
    """A repository."""
    return HttpReply(payloads.repository(call.world, call.repo, call.viewer.login))


def get_repo_by_id(call: AdmittedRequest) -> HttpReply:
    """A repository by its number."""
    found = call.world.state.repositories.get(call.params["repository_id"])
    if found is None or not can_see(call.world, call.viewer, found):
        raise not_found()
    return HttpReply(payloads.repository(call.world, found, call.viewer.login))


def get_collaborator_permission(call: AdmittedRequest) -> HttpReply:
    """What somebody may do; 404 for who does not exist."""
    if call.world.find_user(call.params["login"]) is None:
        raise not_found()
    return HttpReply(payloads.permission(call.world, call.repo, call.params["login"]))


def get_contents(call: AdmittedRequest) -> HttpReply:
    """A file with its content, or the entries of a folder."""
    git, path = call.world.git(call.repo), call.params.get("path", "").strip("/")
    ref = call.query.get("ref") or call.repo.default_branch
    commit = _commit(git, ref)
    if path:
        entry = git.entry(commit, path)
        if entry is None:
            raise not_found()
        if entry.type != "tree":
            with_content = git if entry.type == "blob" else None
            return HttpReply(payloads.contents(call.world, call.repo, ref, entry, with_content))
    return HttpReply([payloads.contents(call.world, call.repo, ref, item) for item in git.tree_entries(commit, path)])


def get_commit(call: AdmittedRequest) -> HttpReply:
    """One commit with its files."""
    git, ref = call.world.git(call.repo), call.params["ref"]
    sha = git.resolve(ref)
    if sha is None:
        raise unprocessable(f"No commit found for SHA: {ref}")
    commit = git.commit(sha)
    files = changed_files(git, commit.parents[0], sha) if commit.parents else []
    return HttpReply(payloads.commit(call.world, call.repo, commit, files))


def compare_commits(call: AdmittedRequest) -> HttpReply:
    """``base...head``: what head has that base has not."""
    git = call.world.git(call.repo)
    base_name, dots, head_name = call.params["spec"].partition("...")
    if not dots:
        raise not_found()
    base, head = _commit(git, base_name), _commit(git, head_name)
    merge_base = git.merge_base(base, head)
    if merge_base is None:
        raise not_found()
    ahead, behind = git.history(head, exclude=base), git.history(base, exclude=head)
    status = ("diverged" if behind else "ahead") if ahead else ("behind" if behind else "identical")
    url = f"{call.world.api_url}{call.path}"
    return HttpReply(
        {
            "url": url,
            "html_url": f"{call.world.base_url}/{call.repo.full_name}/compare/{quote(call.params['spec'])}",
            "base_commit": payloads.commit(call.world, call.repo, git.commit(base)),
            "merge_base_commit": payloads.commit(call.world, call.repo, git.commit(merge_base)),
            "status": status,
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "total_commits": len(ahead),
            "commits": [payloads.commit(call.world, call.repo, git.commit(sha)) for sha in reversed(ahead)],
            "files": [
                payloads.changed_file(call.world, call.repo, head, file)
                for file in changed_files(git, merge_base, head)
            ],
        }
    )


def get_archive(call: AdmittedRequest) -> HttpReply:
    """302 to a link with a ticket in it, since whoever follows it sends no token."""
    sha = _commit(call.world.git(call.repo), call.params.get("ref") or call.repo.default_branch)
    ticket = secrets.token_urlsafe(24)
    call.world.archive_tickets[ticket] = (call.repo.id, sha)
    location = f"{call.world.base_url}/_codeload/{call.repo.full_name}/legacy.tar.gz/{sha}?token={ticket}"
    return HttpReply(None, 302, {"location": location})


def _commit(git: BareRepository, ref: str) -> str:
    sha = git.resolve(re.sub(r"^(refs/)?heads/", "", ref))
    if sha is None:
        raise not_found()
    return sha


REPOSITORY_HANDLERS: dict[str, Handler] = {
    "get_repo": get_repo,
    "get_repo_by_id": get_repo_by_id,
    "get_collaborator_permission": get_collaborator_permission,
    "get_contents": get_contents,
    "get_commit": get_commit,
    "compare_commits": compare_commits,
    "get_archive": get_archive,
}


_MODES = {"100644": "blob", "100755": "blob", "120000": "blob", "040000": "tree", "160000": "commit"}


def get_ref(call: AdmittedRequest) -> HttpReply:
    """A ref by its full name without ``refs/``."""
    name = f"refs/{call.params['ref']}"
    sha = call.world.git(call.repo).ref(name)
    if sha is None:
        raise not_found()
    return HttpReply(payloads.git_ref(call.world, call.repo, name, sha))


def create_ref(call: AdmittedRequest) -> HttpReply:
    """Make a ref."""
    name, sha = call.body.get("ref"), call.body.get("sha")
    pulls.create_ref(call.world, call.repo, call.actor, name, sha)
    return HttpReply(payloads.git_ref(call.world, call.repo, str(name), str(sha)), 201)


def update_ref(call: AdmittedRequest) -> HttpReply:
    """Move a ref; ``force`` lets it go anywhere."""
    name, sha = f"refs/{call.params['ref']}", call.body.get("sha")
    pulls.update_ref(call.world, call.repo, call.actor, name, sha, bool(call.body.get("force")))
    return HttpReply(payloads.git_ref(call.world, call.repo, name, str(sha)))


def create_blob(call: AdmittedRequest) -> HttpReply:
    """Write a blob."""
    content = call.body.get("content")
    if not isinstance(content, str):
        raise invalid("Blob", "content", "missing_field")
    try:
        data = base64.b64decode(content) if call.body.get("encoding") == "base64" else content.encode()
    except binascii.Error as error:
        raise invalid("Blob", "content", "invalid") from error
    sha = call.world.git(call.repo).write_object("blob", data)
    return HttpReply({"sha": sha, "url": _url(call, "blobs", sha)}, 201)


def create_tree(call: AdmittedRequest) -> HttpReply:
    """Write a tree, perhaps on top of ``base_tree``; an entry with ``sha`` null removes a file."""
    git, base = call.world.git(call.repo), call.body.get("base_tree")
    if base is not None and git.kind(str(base)) not in ("tree", "commit"):
        raise unprocessable("base_tree is not a valid tree oid")
    entries = call.body.get("tree")
    if not isinstance(entries, list) or not entries:
        raise unprocessable("Invalid tree info")
    if any(str(item.get("path", "")).startswith(".github/workflows/") for item in entries):
        require_workflows(call.viewer)
    sha = git.write_tree([_entry(call, item) for item in entries], base)
    return HttpReply(payloads.git_tree(call.world, call.repo, sha, git.tree_entries(sha)), 201)


def _entry(call: AdmittedRequest, item: Mapping[str, Any]) -> GitTreeEntry:
    git, path, mode = call.world.git(call.repo), item.get("path"), str(item.get("mode"))
    if not isinstance(path, str) or not is_safe_path(path):
        raise unprocessable("tree.path contains a malformed path component")
    if mode not in _MODES:
        raise unprocessable("tree.mode must be one of 100644, 100755, 040000, 160000 or 120000")
    if "content" in item and "sha" not in item:
        return GitTreeEntry(path, mode, "blob", git.write_object("blob", str(item["content"]).encode()))
    sha = item.get("sha")
    if sha is None:
        return GitTreeEntry(path, mode, _MODES[mode], None)
    if git.kind(str(sha)) != _MODES[mode]:
        raise unprocessable(f"tree.sha {sha} is not a valid {_MODES[mode]}")
    return GitTreeEntry(path, mode, _MODES[mode], str(sha))


def get_tree(call: AdmittedRequest) -> HttpReply:
    """A tree by its id, or that of a commit or branch."""
    git, name = call.world.git(call.repo), call.params["sha"]
    commit = git.resolve(name)
    tree = git.commit(commit).tree if commit else name
    if commit is None and git.kind(name) != "tree":
        raise not_found()
    entries = git.tree_entries(tree, recursive=bool(call.query.get("recursive")))
    return HttpReply(payloads.git_tree(call.world, call.repo, tree, entries))


def create_git_commit(call: AdmittedRequest) -> HttpReply:
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
    return HttpReply(payloads.git_commit(call.world, call.repo, git.commit(sha)), 201)


def _signature(call: AdmittedRequest, given: Mapping[str, Any] | None) -> CommitSignature:
    user = call.actor.user
    if given is None:
        return CommitSignature(user.name, user.email, call.world.clock())
    try:
        at = datetime.fromisoformat(given["date"]) if given.get("date") else call.world.clock()
    except (TypeError, ValueError) as error:
        raise invalid("Commit", "date", "invalid") from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=call.world.clock().tzinfo)
    return CommitSignature(str(given.get("name") or user.name), str(given.get("email") or user.email), at)


def get_git_commit(call: AdmittedRequest) -> HttpReply:
    """A commit by its id."""
    git, sha = call.world.git(call.repo), call.params["sha"]
    if git.kind(sha) != "commit":
        raise not_found()
    return HttpReply(payloads.git_commit(call.world, call.repo, git.commit(sha)))


def _url(call: AdmittedRequest, kind: str, sha: str) -> str:
    return f"{call.world.api_url}/repos/{call.repo.full_name}/git/{kind}/{sha}"


GIT_HANDLERS: dict[str, Handler] = {
    "get_ref": get_ref,
    "create_ref": create_ref,
    "update_ref": update_ref,
    "create_blob": create_blob,
    "create_tree": create_tree,
    "get_tree": get_tree,
    "create_git_commit": create_git_commit,
    "get_git_commit": get_git_commit,
}


TOKEN_LIFETIME = timedelta(hours=1)
_LEVELS = ("none", "read", "write", "admin")


def get_app(call: AdmittedRequest) -> HttpReply:
    """The app of the JWT."""
    return HttpReply(payloads.app(call.world, _app(call)))


def list_hook_deliveries(call: AdmittedRequest) -> HttpReply:
    """Its deliveries, newest first; ``cursor`` is the id to go on from."""
    mine = [item for item in reversed(call.world.state.deliveries) if item.app_id == _app(call).id]
    mine = [item for item in mine if item.status_code is not None]
    cursor = call.query.get("cursor")
    if cursor is not None and cursor.isdigit():
        mine = [item for item in mine if item.id < int(cursor)]
    reply = call.page(mine, payloads.delivery)
    size = len(reply.data)
    if size == 0 or size == len(mine):
        return HttpReply(reply.data)
    root = f"{call.world.api_url}{call.path}"
    following = f"{root}?per_page={size}&cursor={mine[size - 1].id}"
    return HttpReply(reply.data, headers={"link": f'<{following}>; rel="next"'})


def redeliver_hook_delivery(call: AdmittedRequest) -> HttpReply:
    """Send it again, under the same delivery id."""
    webhooks.redeliver(call.world, _delivery(call))
    return HttpReply({}, 202)


def list_installations(call: AdmittedRequest) -> HttpReply:
    """Where the app is installed."""
    mine = [item for item in call.world.state.installations.values() if item.app_id == _app(call).id]
    return call.page(mine, lambda item: payloads.installation(call.world, item))


def get_repo_installation(call: AdmittedRequest) -> HttpReply:
    """The installation that covers a repository."""
    for item in call.world.state.installations.values():
        if item.app_id == _app(call).id and covers(item, call.repo):
            return HttpReply(payloads.installation(call.world, item))
    raise not_found()


def create_installation_token(call: AdmittedRequest) -> HttpReply:
    """A token of an hour, perhaps narrowed to repositories and permissions. Raises: ApiError 422 where it would widen."""
    world, installation = call.world, _installation(call)
    permissions = _narrowed_permissions(installation, call.body.get("permissions"))
    repositories = _narrowed_repositories(call, installation)
    token = Token(
        value=f"ghs_{secrets.token_hex(18)}",
        installation_id=installation.id,
        permissions=permissions,
        repository_ids=None if repositories is None else [item.id for item in repositories],
        expires_at=world.clock() + TOKEN_LIFETIME,
    )
    world.state.tokens[token.value] = token
    shape: dict[str, Any] = {
        "token": token.value,
        "expires_at": payloads.iso(token.expires_at),
        "permissions": permissions,
        "repository_selection": "all" if installation.repository_ids is None and repositories is None else "selected",
    }
    if repositories is not None:
        shape["repositories"] = [payloads.repository(world, item) for item in repositories]
    return HttpReply(shape, 201)


def list_installation_repositories(call: AdmittedRequest) -> HttpReply:
    """The repositories that an installation's token reaches."""
    token, installation = call.viewer.token, call.viewer.installation
    assert token is not None and installation is not None, "the operations table lets only installations in"
    reached = [item for item in call.world.state.repositories.values() if covers(installation, item)]
    if token.repository_ids is not None:
        reached = [item for item in reached if item.id in token.repository_ids]
    return call.page(reached, lambda item: payloads.repository(call.world, item), "repositories")


def _narrowed_permissions(installation: Installation, wanted: object) -> dict[str, str]:
    if wanted is None or wanted == {}:  # PyGithub sends an empty object for "all of them".
        return dict(installation.permissions) | {"metadata": "read"}
    if not isinstance(wanted, dict):
        raise unprocessable("Invalid request.\n\nFor 'properties/permissions', it is not an object.")
    for scope, level in wanted.items():
        held = "read" if scope == "metadata" else installation.permissions.get(scope, "none")
        if level not in _LEVELS or _LEVELS.index(level) > _LEVELS.index(held):
            raise unprocessable("The permissions requested are not granted to this installation.")
    return {**wanted, "metadata": "read"}


def _narrowed_repositories(call: AdmittedRequest, installation: Installation) -> list[Repository] | None:
    names, ids = call.body.get("repositories"), call.body.get("repository_ids")
    if not names and not ids:
        return None
    reached = [item for item in call.world.state.repositories.values() if covers(installation, item)]
    chosen = [item for item in reached if item.name in (names or []) or item.id in (ids or [])]
    if len(chosen) < len({*(names or [])}) or len(chosen) < len({*(ids or [])}):
        message = (
            "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
        raise unprocessable(message)
    return chosen


def _app(call: AdmittedRequest) -> App:
    assert call.viewer.app is not None, "the operations table lets only apps in"
    return call.viewer.app


def _installation(call: AdmittedRequest) -> Installation:
    found = call.world.state.installations.get(call.params["installation_id"])
    if found is None or found.app_id != _app(call).id:
        raise not_found()
    return found


def _delivery(call: AdmittedRequest) -> Delivery:
    for item in call.world.state.deliveries:
        if item.id == call.params["delivery_id"] and item.app_id == _app(call).id:
            return item
    raise not_found()


APP_HANDLERS: dict[str, Handler] = {
    "get_app": get_app,
    "list_hook_deliveries": list_hook_deliveries,
    "redeliver_hook_delivery": redeliver_hook_delivery,
    "list_installations": list_installations,
    "get_repo_installation": get_repo_installation,
    "create_installation_token": create_installation_token,
    "list_installation_repositories": list_installation_repositories,
}


def get_authenticated_user(call: AdmittedRequest) -> HttpReply:
    """Whose token it is."""
    return HttpReply(payloads.user(call.world, call.actor.user))


def get_user(call: AdmittedRequest) -> HttpReply:
    """A user by login."""
    user = call.world.find_user(call.params["login"])
    if user is None:
        raise not_found()
    return HttpReply(payloads.user(call.world, user))


def _version(text: str) -> str:
    content = text.encode("utf-8", "surrogatepass")
    return sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()


LONGEST_GIST_FILE = 1_000_000  # of whose text GitHub's answer has the beginning


def get_gist(call: AdmittedRequest) -> HttpReply:
    """A gist, or one revision of it."""
    name = "/".join(call.params[key] for key in ("gist_id", "revision") if key in call.params)
    texts = call.world.state.gists.get(name)
    if texts is None:
        raise not_found()
    files = {
        file: {
            "filename": file,
            "type": "text/plain",
            "raw_url": f"{call.world.api_url}/gist/{call.params['gist_id']}/raw/{_version(text)}/{quote(file)}",
            "size": len(text),
            "truncated": len(text) > LONGEST_GIST_FILE,
            "content": text[:LONGEST_GIST_FILE],
        }
        for file, text in texts.items()
    }
    return HttpReply({"id": call.params["gist_id"], "public": True, "truncated": False, "files": files})


def get_team_membership(call: AdmittedRequest) -> HttpReply:
    """Whether somebody is in a team."""
    members = call.world.state.teams.get(f"{call.params['login']}/{call.params['slug']}".lower(), [])
    if call.params["member"].lower() not in members:
        raise not_found()
    return HttpReply({"state": "active", "role": "member"})


USER_HANDLERS: dict[str, Handler] = {
    "get_authenticated_user": get_authenticated_user,
    "get_user": get_user,
    "get_team_membership": get_team_membership,
    "get_gist": get_gist,
    "get_gist_revision": get_gist,
}


def create_check_run(call: AdmittedRequest) -> HttpReply:
    """Make a check run."""
    run = checks.create_check_run(call.world, call.repo, call.actor, call.body)
    return HttpReply(payloads.check_run(call.world, call.repo, run), 201)


def list_check_runs(call: AdmittedRequest) -> HttpReply:
    """The check runs of a commit or branch; of each name and app the latest, unless ``filter=all``."""
    sha = call.world.git(call.repo).resolve(call.params["ref"])
    if sha is None:
        raise unprocessable(f"No commit found for SHA: {call.params['ref']}")
    name, status, app_id = (call.query.get(key) for key in ("check_name", "status", "app_id"))
    runs = [run for run in reversed(call.repo.check_runs) if run.head_sha == sha]
    runs = [run for run in runs if name in (None, run.name) and status in (None, run.status)]
    runs = [run for run in runs if app_id in (None, str(run.app_id))]
    if call.query.get("filter") != "all":
        runs = list({(run.app_id, run.name): run for run in reversed(runs)}.values())
    return call.page(runs, lambda run: payloads.check_run(call.world, call.repo, run), "check_runs")


def _run(call: AdmittedRequest) -> CheckRun:
    return checks.find_check_run(call.repo, call.params["check_run_id"])


CHECK_HANDLERS: dict[str, Handler] = {
    "create_check_run": create_check_run,
    "list_check_runs": list_check_runs,
}
