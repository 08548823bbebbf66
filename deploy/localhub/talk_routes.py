"""The routes of issues, reactions, pull requests and reviews."""

from __future__ import annotations

from datetime import datetime

from deploy.localhub import payloads, pulls, talk
from deploy.localhub.auth import require_author_or
from deploy.localhub.call import AdmittedRequest, Handler, HttpReply
from deploy.localhub.operations import invalid, not_found
from deploy.localhub.state import Comment, Issue, Pull, Reaction, Review, ReviewComment
from deploy.localhub.talk import find_comment, react


def list_issues(call: AdmittedRequest) -> HttpReply:
    """Issues and pull requests, newest first."""
    wanted = call.query.get("state", "open")
    labels = [name for name in call.query.get("labels", "").split(",") if name]
    found = [issue for issue in reversed(call.repo.issues.values()) if wanted in ("all", issue.state)]
    found = [issue for issue in found if all(name in issue.labels for name in labels)]
    creator = call.query.get("creator")
    found = [issue for issue in found if creator is None or issue.login == creator]
    if since := call.query.get("since"):
        found = [issue for issue in found if issue.updated_at >= datetime.fromisoformat(since)]
    return call.page(found, lambda issue: payloads.issue(call.world, call.repo, issue))


def create_issue(call: AdmittedRequest) -> HttpReply:
    """Open an issue."""
    issue = talk.open_issue(call.world, call.repo, call.actor, call.body.get("title"), call.body.get("body"))
    if call.body.get("labels"):
        talk.set_labels(call.world, call.repo, issue, call.actor, call.names("labels"))
    return HttpReply(payloads.issue(call.world, call.repo, issue), 201)


def get_issue(call: AdmittedRequest) -> HttpReply:
    """One issue."""
    return HttpReply(payloads.issue(call.world, call.repo, _issue(call)))


def update_issue(call: AdmittedRequest) -> HttpReply:
    """Change title, body, state or labels."""
    issue = _issue(call)
    require_author_or(call.world, call.actor.login, issue.login, call.repo, _role_to_edit(call))
    talk.edit_text(call.world, call.repo, issue, call.actor, call.body.get("title"), call.body.get("body"))
    if "labels" in call.body:
        talk.set_labels(call.world, call.repo, issue, call.actor, call.names("labels"))
    if "state" in call.body:
        reason = call.body.get("state_reason")
        talk.set_state(call.world, call.repo, issue, call.actor, call.body["state"], reason)
    return HttpReply(payloads.issue(call.world, call.repo, issue))


def list_issue_comments(call: AdmittedRequest) -> HttpReply:
    """The comments of an issue or pull request, oldest first."""
    issue = _issue(call)
    found = _since(call, issue.comments)
    return call.page(found, lambda comment: payloads.comment(call.world, call.repo, issue, comment))


def list_repo_issue_comments(call: AdmittedRequest) -> HttpReply:
    """The comments of all issues, oldest first."""
    pairs = [(issue, comment) for issue in call.repo.issues.values() for comment in _since(call, issue.comments)]
    pairs.sort(key=lambda pair: pair[1].id, reverse=call.query.get("direction") == "desc")
    return call.page(pairs, lambda pair: payloads.comment(call.world, call.repo, *pair))


def create_issue_comment(call: AdmittedRequest) -> HttpReply:
    """Write a comment."""
    issue = _issue(call)
    comment = talk.add_comment(call.world, call.repo, issue, call.actor, call.body.get("body"))
    return HttpReply(payloads.comment(call.world, call.repo, issue, comment), 201)


def get_issue_comment(call: AdmittedRequest) -> HttpReply:
    """One comment."""
    return HttpReply(payloads.comment(call.world, call.repo, *_comment(call)))


def update_issue_comment(call: AdmittedRequest) -> HttpReply:
    """Change a comment."""
    issue, comment = _comment(call)
    require_author_or(call.world, call.actor.login, comment.login, call.repo, _role_to_edit(call))
    talk.edit_comment(call.world, call.repo, issue, comment, call.actor, call.body.get("body"))
    return HttpReply(payloads.comment(call.world, call.repo, issue, comment))


def _issue(call: AdmittedRequest) -> Issue:
    return call.world.issue(call.repo, call.params["number"])


def _comment(call: AdmittedRequest) -> tuple[Issue, Comment]:
    return talk.find_comment(call.repo, call.params["comment_id"])


def _role_to_edit(call: AdmittedRequest) -> str:
    # An app that holds the write permission may edit what others wrote.
    return "none" if call.viewer.installation is not None else "triage"


def _since(call: AdmittedRequest, comments: list[Comment]) -> list[Comment]:
    since = call.query.get("since")
    if since is None:
        return comments
    try:
        start = datetime.fromisoformat(since)
    except ValueError as error:
        raise invalid("IssueComment", "since", "invalid") from error
    return [comment for comment in comments if comment.updated_at >= start]


ISSUE_HANDLERS: dict[str, Handler] = {
    "list_issues": list_issues,
    "create_issue": create_issue,
    "get_issue": get_issue,
    "update_issue": update_issue,
    "list_issue_comments": list_issue_comments,
    "list_repo_issue_comments": list_repo_issue_comments,
    "create_issue_comment": create_issue_comment,
    "get_issue_comment": get_issue_comment,
    "update_issue_comment": update_issue_comment,
}


def _of_issue(call: AdmittedRequest) -> list[Reaction]:
    return call.world.issue(call.repo, call.params["number"]).reactions


def _of_comment(call: AdmittedRequest) -> list[Reaction]:
    return find_comment(call.repo, call.params["comment_id"])[1].reactions


def _list(call: AdmittedRequest, reactions: list[Reaction]) -> HttpReply:
    content = call.query.get("content")
    found = [item for item in reactions if content in (None, item.content)]
    return call.page(found, lambda item: payloads.reaction(call.world, item))


def _create(call: AdmittedRequest, reactions: list[Reaction]) -> HttpReply:
    reaction, created = react(call.world, reactions, call.actor, call.body.get("content"))
    return HttpReply(payloads.reaction(call.world, reaction), 201 if created else 200)


REACTION_HANDLERS: dict[str, Handler] = {
    "list_issue_reactions": lambda call: _list(call, _of_issue(call)),
    "create_issue_reaction": lambda call: _create(call, _of_issue(call)),
    "list_comment_reactions": lambda call: _list(call, _of_comment(call)),
    "create_comment_reaction": lambda call: _create(call, _of_comment(call)),
}


def list_pulls(call: AdmittedRequest) -> HttpReply:
    """Pull requests, newest first; ``head`` as ``owner:branch``."""
    wanted, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    found = [issue for issue in reversed(call.repo.issues.values()) if issue.pull and wanted in ("all", issue.state)]
    if head and ":" in head:  # Without an owner GitHub ignores the filter.
        found = [issue for issue in found if _head_label(call, issue) == head.lower()]
    if base:
        found = [issue for issue in found if issue.pull and issue.pull.base_ref == base]
    return call.page(found, lambda issue: payloads.pull(call.world, call.repo, issue, full=False))


def _head_label(call: AdmittedRequest, issue: Issue) -> str:
    assert issue.pull is not None, "filtered above"
    source = call.world.state.repositories[issue.pull.head_repository_id]
    return f"{source.owner}:{issue.pull.head_ref}".lower()


def create_pull(call: AdmittedRequest) -> HttpReply:
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
    return HttpReply(payloads.pull(call.world, call.repo, issue), 201)


def get_pull(call: AdmittedRequest) -> HttpReply:
    """One pull request."""
    issue, _ = _pull(call)
    return HttpReply(payloads.pull(call.world, call.repo, issue))


def update_pull(call: AdmittedRequest) -> HttpReply:
    """Change title, body, base or state."""
    issue, _ = _pull(call)
    if call.viewer.installation is None:
        require_author_or(call.world, call.actor.login, issue.login, call.repo, "triage")
    talk.edit_text(call.world, call.repo, issue, call.actor, call.body.get("title"), call.body.get("body"))
    if call.body.get("base"):
        pulls.change_base(call.world, call.repo, issue, call.actor, str(call.body["base"]))
    if "state" in call.body:
        talk.set_state(call.world, call.repo, issue, call.actor, call.body["state"])
    return HttpReply(payloads.pull(call.world, call.repo, issue))


def list_pulls_of_commit(call: AdmittedRequest) -> HttpReply:
    """The pull requests that brought a commit: by their merge, or as their head."""
    sha = call.params["sha"]
    pulls = [issue for issue in call.repo.issues.values() if issue.pull is not None]
    found = [issue for issue in pulls if issue.pull and sha in (issue.pull.head_sha, issue.pull.merge_commit_sha)]
    return call.page(found, lambda issue: payloads.pull(call.world, call.repo, issue, full=False))


def request_reviewers(call: AdmittedRequest) -> HttpReply:
    """Ask people for a review."""
    issue, _ = _pull(call)
    pulls.request_review(call.world, call.repo, issue, call.actor, call.names("reviewers"))
    return HttpReply(payloads.pull(call.world, call.repo, issue, full=False), 201)


def _pull(call: AdmittedRequest) -> tuple[Issue, Pull]:
    return call.world.pull(call.repo, call.params["number"])


PULL_HANDLERS: dict[str, Handler] = {
    "list_pulls": list_pulls,
    "create_pull": create_pull,
    "get_pull": get_pull,
    "update_pull": update_pull,
    "list_pulls_of_commit": list_pulls_of_commit,
    "request_reviewers": request_reviewers,
}


def list_reviews(call: AdmittedRequest) -> HttpReply:
    """The reviews, oldest first."""
    issue, pull = _pull(call)
    return call.page(pull.reviews, lambda item: payloads.review(call.world, call.repo, issue, item))


def list_comments_of_review(call: AdmittedRequest) -> HttpReply:
    """The line comments of one review."""
    issue, pull, given = _review(call)
    return _notes(call, issue, [note for note in pull.review_comments if note.review_id == given.id])


def _notes(call: AdmittedRequest, issue: Issue, notes: list[ReviewComment]) -> HttpReply:
    return call.page(notes, lambda note: payloads.review_comment(call.world, call.repo, issue, note))


def _review(call: AdmittedRequest) -> tuple[Issue, Pull, Review]:
    issue, pull = _pull(call)
    for given in pull.reviews:
        if given.id == call.params["review_id"]:
            return issue, pull, given
    raise not_found()


REVIEW_HANDLERS: dict[str, Handler] = {
    "list_reviews": list_reviews,
    "list_comments_of_review": list_comments_of_review,
}
