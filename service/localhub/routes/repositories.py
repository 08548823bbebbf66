"""Repositories: branches, commits, files, comparisons, archives and who may do what."""

from __future__ import annotations

import re
import secrets
from urllib.parse import quote

from service.localhub import payloads
from service.localhub.auth import can_see
from service.localhub.errors import not_found, unprocessable
from service.localhub.git import BareRepository, changed_files
from service.localhub.routes.call import Call, Handler, Reply


def get_repo(call: Call) -> Reply:
    """A repository."""
    return Reply(payloads.repository(call.world, call.repo, call.viewer.login))


def get_repo_by_id(call: Call) -> Reply:
    """A repository by its number."""
    found = call.world.state.repositories.get(call.params["repository_id"])
    if found is None or not can_see(call.world, call.viewer, found):
        raise not_found()
    return Reply(payloads.repository(call.world, found, call.viewer.login))


def list_branches(call: Call) -> Reply:
    """Every branch."""
    refs = call.world.git(call.repo).refs()
    names = [name.removeprefix("refs/heads/") for name in refs if name.startswith("refs/heads/")]
    return call.page(names, lambda name: _branch(call, name, refs[f"refs/heads/{name}"]))


def get_branch(call: Call) -> Reply:
    """One branch."""
    name = call.params["branch"]
    sha = call.world.git(call.repo).ref(f"refs/heads/{name}")
    if sha is None:
        raise not_found()
    return Reply(_branch(call, name, sha))


def _branch(call: Call, name: str, sha: str) -> dict[str, object]:
    return payloads.branch(call.world, call.repo, name, call.world.git(call.repo).commit(sha))


def list_collaborators(call: Call) -> Reply:
    """Who has a role here."""
    logins = [call.repo.owner, *call.repo.collaborators]
    shapes = [payloads.permission(call.world, call.repo, login)["user"] for login in logins]
    return call.page(shapes, lambda shape: shape)


def check_collaborator(call: Call) -> Reply:
    """204 for a collaborator, 404 for anybody else."""
    known = {login.lower() for login in (*call.repo.collaborators, call.repo.owner)}
    if call.params["login"].lower() not in known:
        raise not_found()
    return Reply(None, 204)


def get_collaborator_permission(call: Call) -> Reply:
    """What somebody may do; 404 for who does not exist."""
    if call.world.find_user(call.params["login"]) is None:
        raise not_found()
    return Reply(payloads.permission(call.world, call.repo, call.params["login"]))


def get_contents(call: Call) -> Reply:
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
            return Reply(payloads.contents(call.world, call.repo, ref, entry, with_content))
    return Reply([payloads.contents(call.world, call.repo, ref, item) for item in git.tree_entries(commit, path)])


def list_commits(call: Call) -> Reply:
    """The history of a branch or commit, newest first."""
    git = call.world.git(call.repo)
    start = _commit(git, call.query.get("sha") or call.repo.default_branch)
    shas = git.history(start, path=call.query.get("path"))
    return call.page(shas, lambda sha: payloads.commit(call.world, call.repo, git.commit(sha)))


def get_commit(call: Call) -> Reply:
    """One commit with its files."""
    git, ref = call.world.git(call.repo), call.params["ref"]
    sha = git.resolve(ref)
    if sha is None:
        raise unprocessable(f"No commit found for SHA: {ref}")
    commit = git.commit(sha)
    files = changed_files(git, commit.parents[0], sha) if commit.parents else []
    return Reply(payloads.commit(call.world, call.repo, commit, files))


def compare_commits(call: Call) -> Reply:
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
    return Reply(
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


def get_archive(call: Call) -> Reply:
    """302 to a link with a ticket in it, since whoever follows it sends no token."""
    sha = _commit(call.world.git(call.repo), call.params.get("ref") or call.repo.default_branch)
    ticket = secrets.token_urlsafe(24)
    call.world.archive_tickets[ticket] = (call.repo.id, sha)
    location = f"{call.world.base_url}/_codeload/{call.repo.full_name}/legacy.tar.gz/{sha}?token={ticket}"
    return Reply(None, 302, {"location": location})


def _commit(git: BareRepository, ref: str) -> str:
    sha = git.resolve(re.sub(r"^(refs/)?heads/", "", ref))
    if sha is None:
        raise not_found()
    return sha


HANDLERS: dict[str, Handler] = {
    "get_repo": get_repo,
    "get_repo_by_id": get_repo_by_id,
    "list_branches": list_branches,
    "get_branch": get_branch,
    "list_collaborators": list_collaborators,
    "check_collaborator": check_collaborator,
    "get_collaborator_permission": get_collaborator_permission,
    "get_root_contents": get_contents,
    "get_contents": get_contents,
    "list_commits": list_commits,
    "get_commit": get_commit,
    "compare_commits": compare_commits,
    "get_default_archive": get_archive,
    "get_archive": get_archive,
}
