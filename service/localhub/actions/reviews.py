"""Reviews and the comments on lines of the changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from service.localhub import payloads
from service.localhub.actions.issues import record
from service.localhub.actions.pulls import pull_files
from service.localhub.actions.text import checked_body
from service.localhub.errors import invalid, not_found, unprocessable
from service.localhub.state import Issue, Pull, Repository, Review, ReviewComment
from service.localhub.webhooks import emit
from service.localhub.world import Actor, World

_STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_HUNK = re.compile(r"^@@ -(?P<old>\d+)(?:,\d+)? \+(?P<new>\d+)(?:,\d+)? @@")


def review(
    world: World,
    repository: Repository,
    issue: Issue,
    actor: Actor,
    event: object,
    body: object = None,
    comments: Sequence[Mapping[str, Any]] = (),
    commit_id: object = None,
) -> Review:
    """Give a review; without an event it stays pending. Raises: ApiError 422 as GitHub refuses it."""
    pull = _pull_of(issue)
    if event not in (None, "", *_STATES):
        raise invalid("PullRequestReview", "event", "invalid")
    text = checked_body("PullRequestReview", body, required=False)
    pending = event in (None, "")
    if not pending:
        _refuse(issue, actor, str(event), text, bool(comments))
    if commit_id is not None and world.git(repository).kind(str(commit_id)) != "commit":
        raise unprocessable("The commit_id is not part of the pull request")
    commit = str(commit_id or pull.head_sha)
    given = Review(world.state.new_id(), actor.login, "PENDING", text, commit, None, actor.app_id)
    notes = [_line_comment(world, repository, pull, given, actor, note) for note in comments]
    pull.reviews.append(given)
    pull.review_comments += notes
    if not pending:
        _submit(world, repository, issue, given, actor, str(event))
    return given


def submit(
    world: World, repository: Repository, issue: Issue, given: Review, actor: Actor, event: object, body: object
) -> None:
    """Submit a pending review. Raises: ApiError 422."""
    if given.state != "PENDING" or event not in _STATES:
        raise unprocessable("Could not submit the review")
    given.body = checked_body("PullRequestReview", body, required=False) or given.body
    has_notes = any(note.review_id == given.id for note in _pull_of(issue).review_comments)
    _refuse(issue, actor, str(event), given.body, has_notes)
    _submit(world, repository, issue, given, actor, str(event))


def _refuse(issue: Issue, actor: Actor, event: str, body: str, has_notes: bool) -> None:
    if actor.login == issue.login and event != "COMMENT":
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable(f"Can not {verb} your own pull request")
    if event != "APPROVE" and not body.strip() and not has_notes:
        raise unprocessable("Body can't be blank")


def _submit(world: World, repository: Repository, issue: Issue, given: Review, actor: Actor, event: str) -> None:
    pull = _pull_of(issue)
    given.state = _STATES[event]
    given.submitted_at = issue.updated_at = world.clock()
    if given.login in pull.requested_reviewers:
        pull.requested_reviewers.remove(given.login)
    _tell(world, repository, issue, given, "submitted", actor)
    for note in pull.review_comments:
        if note.review_id == given.id:
            _tell_note(world, repository, issue, note, "created", actor)


def dismiss(world: World, repository: Repository, issue: Issue, given: Review, actor: Actor, message: str) -> None:
    """Take the weight from a review. Raises: ApiError 422 where it has none."""
    if given.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable("Can not dismiss a commented pull request review")
    given.state = "DISMISSED"
    record(world, issue, "review_dismissed", actor, message=message)
    _tell(world, repository, issue, given, "dismissed", actor)


def note_on_line(
    world: World, repository: Repository, issue: Issue, actor: Actor, given: Mapping[str, Any]
) -> ReviewComment:
    """A single line comment, which GitHub wraps into a review of its own. Raises: ApiError 422."""
    pull = _pull_of(issue)
    wrapper = Review(
        world.state.new_id(), actor.login, "COMMENTED", "", str(given.get("commit_id") or pull.head_sha), world.clock()
    )
    note = _line_comment(world, repository, pull, wrapper, actor, given)
    pull.reviews.append(wrapper)
    pull.review_comments.append(note)
    _tell(world, repository, issue, wrapper, "submitted", actor)
    _tell_note(world, repository, issue, note, "created", actor)
    return note


def reply(
    world: World, repository: Repository, issue: Issue, first: ReviewComment, actor: Actor, body: object
) -> ReviewComment:
    """Answer a line comment. Raises: ApiError 422."""
    where = {"path": first.path, "line": first.line, "side": first.side, "body": body, "commit_id": first.commit_id}
    note = note_on_line(world, repository, issue, actor, where)
    note.in_reply_to_id = first.in_reply_to_id or first.id
    return note


def edit_note(
    world: World, repository: Repository, issue: Issue, note: ReviewComment, actor: Actor, body: object
) -> None:
    """Change a line comment. Raises: ApiError 422."""
    before, note.body = note.body, checked_body("PullRequestReviewComment", body, required=True)
    note.updated_at = world.clock()
    _tell_note(world, repository, issue, note, "edited", actor, changes={"body": {"from": before}})


def delete_note(world: World, repository: Repository, issue: Issue, note: ReviewComment, actor: Actor) -> None:
    """Remove a line comment."""
    _pull_of(issue).review_comments.remove(note)
    _tell_note(world, repository, issue, note, "deleted", actor)


def find_note(repository: Repository, comment_id: int) -> tuple[Issue, ReviewComment]:
    """A line comment by its id. Raises: ApiError 404."""
    for issue in repository.issues.values():
        for note in issue.pull.review_comments if issue.pull else []:
            if note.id == comment_id:
                return issue, note
    raise not_found()


def _line_comment(
    world: World, repository: Repository, pull: Pull, parent: Review, actor: Actor, given: Mapping[str, Any]
) -> ReviewComment:
    path, line = given.get("path"), given.get("line") or given.get("position")
    side = str(given.get("side") or "RIGHT")
    text = checked_body("PullRequestReviewComment", given.get("body"), required=True)
    file = next((file for file in pull_files(world, repository, pull) if file.path == path), None)
    if file is None:
        raise invalid("PullRequestReviewComment", "path", "invalid", "Path could not be resolved")
    hunk = hunk_before(file.patch or "", line, side) if isinstance(line, int) else ""
    if isinstance(line, int) and hunk is None:
        raise invalid("PullRequestReviewComment", "line", "invalid", "Line could not be resolved")
    now = world.clock()
    return ReviewComment(
        id=world.state.new_id(),
        review_id=parent.id,
        login=actor.login,
        body=text,
        path=file.path,
        line=line if isinstance(line, int) else None,
        side=side,
        commit_id=parent.commit_id,
        diff_hunk=hunk or "",
        created_at=now,
        updated_at=now,
        start_line=given.get("start_line"),
        app_id=actor.app_id,
    )


def hunk_before(patch: str, line: int, side: str = "RIGHT") -> str | None:
    """The lines of a hunk up to a line of one side of the file; None for a line that the diff does not show."""
    shown: list[str] = []
    old = new = 0
    for text in patch.split("\n"):
        match = _HUNK.match(text)
        if match:
            shown, old, new = [text], int(match["old"]), int(match["new"])
            continue
        shown.append(text)
        at, counts = (new, text[:1] in ("+", " ")) if side == "RIGHT" else (old, text[:1] in ("-", " "))
        if counts and at == line:
            return "\n".join(shown)
        old += text[:1] in ("-", " ")
        new += text[:1] in ("+", " ")
    return None


def _tell(world: World, repository: Repository, issue: Issue, given: Review, action: str, actor: Actor) -> None:
    shape = payloads.review(world, repository, issue, given)
    # The REST API writes states in capitals and the webhook does not.
    parts = {
        "review": shape | {"state": given.state.lower()},
        "pull_request": payloads.pull(world, repository, issue, full=False),
    }
    emit(world, repository, "pull_request_review", action, parts, actor)


def _tell_note(
    world: World, repository: Repository, issue: Issue, note: ReviewComment, action: str, actor: Actor, **extra: Any
) -> None:
    parts = {
        "comment": payloads.review_comment(world, repository, issue, note),
        "pull_request": payloads.pull(world, repository, issue, full=False),
    }
    emit(world, repository, "pull_request_review_comment", action, parts | extra, actor)


def _pull_of(issue: Issue) -> Pull:
    if issue.pull is None:
        raise not_found()
    return issue.pull
