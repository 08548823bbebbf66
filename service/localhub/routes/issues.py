"""Issues, comments and labels."""

from __future__ import annotations

from datetime import datetime

from service.localhub import payloads
from service.localhub.actions import issues
from service.localhub.auth import require_author_or
from service.localhub.errors import invalid, not_found
from service.localhub.routes.call import Call, Handler, Reply
from service.localhub.state import Comment, Issue


def list_issues(call: Call) -> Reply:
    """Issues and pull requests, newest first."""
    wanted = call.query.get("state", "open")
    labels = [name for name in call.query.get("labels", "").split(",") if name]
    found = [issue for issue in reversed(call.repo.issues.values()) if wanted in ("all", issue.state)]
    found = [issue for issue in found if all(name in issue.labels for name in labels)]
    creator = call.query.get("creator")
    found = [issue for issue in found if creator is None or issue.login == creator]
    return call.page(found, lambda issue: payloads.issue(call.world, call.repo, issue))


def create_issue(call: Call) -> Reply:
    """Open an issue."""
    issue = issues.open_issue(call.world, call.repo, call.actor, call.body.get("title"), call.body.get("body"))
    if call.body.get("labels"):
        issues.set_labels(call.world, call.repo, issue, call.actor, call.names("labels"))
    return Reply(payloads.issue(call.world, call.repo, issue), 201)


def get_issue(call: Call) -> Reply:
    """One issue."""
    return Reply(payloads.issue(call.world, call.repo, _issue(call)))


def update_issue(call: Call) -> Reply:
    """Change title, body, state or labels."""
    issue = _issue(call)
    require_author_or(call.world, call.actor.login, issue.login, call.repo, _role_to_edit(call))
    issues.edit_text(call.world, call.repo, issue, call.actor, call.body.get("title"), call.body.get("body"))
    if "labels" in call.body:
        issues.set_labels(call.world, call.repo, issue, call.actor, call.names("labels"))
    if "state" in call.body:
        reason = call.body.get("state_reason")
        issues.set_state(call.world, call.repo, issue, call.actor, call.body["state"], reason)
    return Reply(payloads.issue(call.world, call.repo, issue))


def list_issue_comments(call: Call) -> Reply:
    """The comments of an issue or pull request, oldest first."""
    issue = _issue(call)
    found = _since(call, issue.comments)
    return call.page(found, lambda comment: payloads.comment(call.world, call.repo, issue, comment))


def list_repo_issue_comments(call: Call) -> Reply:
    """The comments of all issues, oldest first."""
    pairs = [(issue, comment) for issue in call.repo.issues.values() for comment in _since(call, issue.comments)]
    pairs.sort(key=lambda pair: pair[1].id, reverse=call.query.get("direction") == "desc")
    return call.page(pairs, lambda pair: payloads.comment(call.world, call.repo, *pair))


def create_issue_comment(call: Call) -> Reply:
    """Write a comment."""
    issue = _issue(call)
    comment = issues.add_comment(call.world, call.repo, issue, call.actor, call.body.get("body"))
    return Reply(payloads.comment(call.world, call.repo, issue, comment), 201)


def get_issue_comment(call: Call) -> Reply:
    """One comment."""
    return Reply(payloads.comment(call.world, call.repo, *_comment(call)))


def update_issue_comment(call: Call) -> Reply:
    """Change a comment."""
    issue, comment = _comment(call)
    require_author_or(call.world, call.actor.login, comment.login, call.repo, _role_to_edit(call))
    issues.edit_comment(call.world, call.repo, issue, comment, call.actor, call.body.get("body"))
    return Reply(payloads.comment(call.world, call.repo, issue, comment))


def delete_issue_comment(call: Call) -> Reply:
    """Remove a comment."""
    issue, comment = _comment(call)
    require_author_or(call.world, call.actor.login, comment.login, call.repo, _role_to_edit(call))
    issues.delete_comment(call.world, call.repo, issue, comment, call.actor)
    return Reply(None, 204)


def list_issue_events(call: Call) -> Reply:
    """What happened, oldest first."""
    return call.page(_issue(call).events, lambda event: payloads.event(call.world, call.repo, event))


def list_labels(call: Call) -> Reply:
    """The labels of the repository."""
    labels = list(call.repo.labels.values())
    return call.page(labels, lambda label: payloads.label(call.world, call.repo, label))


def create_label(call: Call) -> Reply:
    """Make a label."""
    name = str(call.body.get("name", ""))
    if name in call.repo.labels:
        raise invalid("Label", "name", "already_exists")
    color, description = str(call.body.get("color") or "ededed"), str(call.body.get("description") or "")
    label = issues.ensure_label(call.world, call.repo, name, color, description)
    return Reply(payloads.label(call.world, call.repo, label), 201)


def get_label(call: Call) -> Reply:
    """One label."""
    label = call.repo.labels.get(call.params["name"])
    if label is None:
        raise not_found()
    return Reply(payloads.label(call.world, call.repo, label))


def list_issue_labels(call: Call) -> Reply:
    """The labels of an issue."""
    return _labels(call, _issue(call))


def add_issue_labels(call: Call) -> Reply:
    """Put labels on an issue."""
    issue = _issue(call)
    issues.set_labels(call.world, call.repo, issue, call.actor, issue.labels + call.names("labels"))
    return _labels(call, issue)


def set_issue_labels(call: Call) -> Reply:
    """Make the labels of an issue exactly these."""
    issue = _issue(call)
    issues.set_labels(call.world, call.repo, issue, call.actor, call.names("labels"))
    return _labels(call, issue)


def remove_issue_label(call: Call) -> Reply:
    """Take a label off an issue."""
    issue, name = _issue(call), call.params["name"]
    if name not in issue.labels:
        raise not_found()
    issues.set_labels(call.world, call.repo, issue, call.actor, [one for one in issue.labels if one != name])
    return _labels(call, issue)


def _labels(call: Call, issue: Issue) -> Reply:
    return call.page(issue.labels, lambda name: payloads.label(call.world, call.repo, call.repo.labels[name]))


def _issue(call: Call) -> Issue:
    return call.world.issue(call.repo, call.params["number"])


def _comment(call: Call) -> tuple[Issue, Comment]:
    return issues.find_comment(call.repo, call.params["comment_id"])


def _role_to_edit(call: Call) -> str:
    # An app that holds the write permission may edit what others wrote.
    return "none" if call.viewer.installation is not None else "triage"


def _since(call: Call, comments: list[Comment]) -> list[Comment]:
    since = call.query.get("since")
    if since is None:
        return comments
    try:
        start = datetime.fromisoformat(since)
    except ValueError as error:
        raise invalid("IssueComment", "since", "invalid") from error
    return [comment for comment in comments if comment.updated_at >= start]


HANDLERS: dict[str, Handler] = {
    "list_issues": list_issues,
    "create_issue": create_issue,
    "get_issue": get_issue,
    "update_issue": update_issue,
    "list_issue_comments": list_issue_comments,
    "list_repo_issue_comments": list_repo_issue_comments,
    "create_issue_comment": create_issue_comment,
    "get_issue_comment": get_issue_comment,
    "update_issue_comment": update_issue_comment,
    "delete_issue_comment": delete_issue_comment,
    "list_issue_events": list_issue_events,
    "list_labels": list_labels,
    "create_label": create_label,
    "get_label": get_label,
    "list_issue_labels": list_issue_labels,
    "add_issue_labels": add_issue_labels,
    "set_issue_labels": set_issue_labels,
    "remove_issue_label": remove_issue_label,
}
