"""Pull requests: opening, reading, changing, and who is asked for a review."""

from __future__ import annotations

from service.localhub import payloads
from service.localhub.actions import issues, pulls
from service.localhub.auth import require_author_or
from service.localhub.errors import not_found
from service.localhub.routes.call import Call, Handler, Reply
from service.localhub.state import Issue, Pull


def list_pulls(call: Call) -> Reply:
    """Pull requests, newest first; ``head`` as ``owner:branch``."""
    wanted, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    found = [issue for issue in reversed(call.repo.issues.values()) if issue.pull and wanted in ("all", issue.state)]
    if head and ":" in head:  # Without an owner GitHub ignores the filter.
        found = [issue for issue in found if _head_label(call, issue) == head.lower()]
    if base:
        found = [issue for issue in found if issue.pull and issue.pull.base_ref == base]
    return call.page(found, lambda issue: payloads.pull(call.world, call.repo, issue, full=False))


def _head_label(call: Call, issue: Issue) -> str:
    assert issue.pull is not None, "filtered above"
    source = call.world.state.repositories[issue.pull.head_repository_id]
    return f"{source.owner}:{issue.pull.head_ref}".lower()


def create_pull(call: Call) -> Reply:
    """Open a pull request, perhaps as a draft."""
    body = call.body
    issue = pulls.open_pull(
        call.world,
        call.repo,
        call.actor,
        title=body.get("title"),
        body=body.get("body"),
        head=body.get("head"),
        base=body.get("base"),
        draft=bool(body.get("draft")),
    )
    return Reply(payloads.pull(call.world, call.repo, issue), 201)


def get_pull(call: Call) -> Reply:
    """One pull request."""
    issue, _ = _pull(call)
    return Reply(payloads.pull(call.world, call.repo, issue))


def update_pull(call: Call) -> Reply:
    """Change title, body, base or state."""
    issue, _ = _pull(call)
    if call.viewer.installation is None:
        require_author_or(call.world, call.actor.login, issue.login, call.repo, "triage")
    issues.edit_text(call.world, call.repo, issue, call.actor, call.body.get("title"), call.body.get("body"))
    if call.body.get("base"):
        pulls.change_base(call.world, call.repo, issue, call.actor, str(call.body["base"]))
    if "state" in call.body:
        issues.set_state(call.world, call.repo, issue, call.actor, call.body["state"])
    return Reply(payloads.pull(call.world, call.repo, issue))


def list_pull_files(call: Call) -> Reply:
    """The files that it changes."""
    _, pull = _pull(call)
    files = pulls.pull_files(call.world, call.repo, pull)
    return call.page(files, lambda file: payloads.changed_file(call.world, call.repo, pull.head_sha, file))


def list_pull_commits(call: Call) -> Reply:
    """Its commits, oldest first."""
    _, pull = _pull(call)
    git = call.world.git(call.repo)
    shas = git.history(pull.head_sha, exclude=pulls.pull_base(call.world, call.repo, pull))[::-1]
    return call.page(shas, lambda sha: payloads.commit(call.world, call.repo, git.commit(sha)))


def list_pulls_of_commit(call: Call) -> Reply:
    """The pull requests whose head is a commit."""
    found = [issue for issue in call.repo.issues.values() if issue.pull and issue.pull.head_sha == call.params["sha"]]
    return call.page(found, lambda issue: payloads.pull(call.world, call.repo, issue, full=False))


def is_pull_merged(call: Call) -> Reply:
    """204 where it is merged, else 404."""
    _, pull = _pull(call)
    if pull.merged_at is None:
        raise not_found()
    return Reply(None, 204)


def list_requested_reviewers(call: Call) -> Reply:
    """Who is asked for a review."""
    _, pull = _pull(call)
    users = [payloads.user(call.world, call.world.user(login)) for login in pull.requested_reviewers]
    return Reply({"users": users, "teams": []})


def request_reviewers(call: Call) -> Reply:
    """Ask people for a review."""
    issue, _ = _pull(call)
    pulls.request_review(call.world, call.repo, issue, call.actor, call.names("reviewers"))
    return Reply(payloads.pull(call.world, call.repo, issue, full=False), 201)


def remove_requested_reviewers(call: Call) -> Reply:
    """Ask people no longer."""
    issue, _ = _pull(call)
    pulls.withdraw_request(call.world, call.repo, issue, call.actor, call.names("reviewers"))
    return Reply(payloads.pull(call.world, call.repo, issue, full=False))


def _pull(call: Call) -> tuple[Issue, Pull]:
    return call.world.pull(call.repo, call.params["number"])


HANDLERS: dict[str, Handler] = {
    "list_pulls": list_pulls,
    "create_pull": create_pull,
    "get_pull": get_pull,
    "update_pull": update_pull,
    "list_pull_files": list_pull_files,
    "list_pull_commits": list_pull_commits,
    "list_pulls_of_commit": list_pulls_of_commit,
    "is_pull_merged": is_pull_merged,
    "list_requested_reviewers": list_requested_reviewers,
    "request_reviewers": request_reviewers,
    "remove_requested_reviewers": remove_requested_reviewers,
}
