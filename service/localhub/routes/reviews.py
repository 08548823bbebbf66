"""Reviews and the comments on lines of the changes."""

from __future__ import annotations

from service.localhub import payloads
from service.localhub.actions import reviews
from service.localhub.auth import require_author_or
from service.localhub.errors import not_found, unprocessable
from service.localhub.routes.call import Call, Handler, Reply
from service.localhub.state import Issue, Pull, Review, ReviewComment


def list_reviews(call: Call) -> Reply:
    """The reviews, oldest first; a pending one is seen by its author alone."""
    issue, pull = _pull(call)
    found = [item for item in pull.reviews if item.state != "PENDING" or item.login == call.viewer.login]
    return call.page(found, lambda item: payloads.review(call.world, call.repo, issue, item))


def create_review(call: Call) -> Reply:
    """Give a review with its line comments."""
    issue, _ = _pull(call)
    body = call.body
    comments = body.get("comments") or []
    if not isinstance(comments, list) or not all(isinstance(item, dict) for item in comments):
        raise unprocessable("Invalid request.\n\nFor 'properties/comments', it is not an array of objects.")
    given = reviews.review(
        call.world,
        call.repo,
        issue,
        call.actor,
        body.get("event"),
        body=body.get("body"),
        comments=comments,
        commit_id=body.get("commit_id"),
    )
    return Reply(payloads.review(call.world, call.repo, issue, given))


def get_review(call: Call) -> Reply:
    """One review."""
    issue, _, given = _review(call)
    return Reply(payloads.review(call.world, call.repo, issue, given))


def submit_review(call: Call) -> Reply:
    """Submit a pending review."""
    issue, _, given = _review(call)
    reviews.submit(call.world, call.repo, issue, given, call.actor, call.body.get("event"), call.body.get("body"))
    return Reply(payloads.review(call.world, call.repo, issue, given))


def dismiss_review(call: Call) -> Reply:
    """Take the weight from a review."""
    issue, _, given = _review(call)
    reviews.dismiss(call.world, call.repo, issue, given, call.actor, str(call.body.get("message", "")))
    return Reply(payloads.review(call.world, call.repo, issue, given))


def list_comments_of_review(call: Call) -> Reply:
    """The line comments of one review."""
    issue, pull, given = _review(call)
    return _notes(call, issue, [note for note in pull.review_comments if note.review_id == given.id])


def list_review_comments(call: Call) -> Reply:
    """The line comments of all reviews that were submitted."""
    issue, pull = _pull(call)
    pending = {given.id for given in pull.reviews if given.state == "PENDING"}
    return _notes(call, issue, [note for note in pull.review_comments if note.review_id not in pending])


def create_review_comment(call: Call) -> Reply:
    """Comment on a line without a review, or answer with ``in_reply_to``."""
    issue, _ = _pull(call)
    first = call.body.get("in_reply_to")
    if isinstance(first, int):
        _, note = reviews.find_note(call.repo, first)
        answer = reviews.reply(call.world, call.repo, issue, note, call.actor, call.body.get("body"))
    else:
        answer = reviews.note_on_line(call.world, call.repo, issue, call.actor, call.body)
    return Reply(payloads.review_comment(call.world, call.repo, issue, answer), 201)


def reply_to_review_comment(call: Call) -> Reply:
    """Answer a line comment."""
    issue, note = _note(call)
    answer = reviews.reply(call.world, call.repo, issue, note, call.actor, call.body.get("body"))
    return Reply(payloads.review_comment(call.world, call.repo, issue, answer), 201)


def get_review_comment(call: Call) -> Reply:
    """One line comment."""
    return Reply(payloads.review_comment(call.world, call.repo, *_note(call)))


def update_review_comment(call: Call) -> Reply:
    """Change a line comment."""
    issue, note = _note(call)
    require_author_or(call.world, call.actor.login, note.login, call.repo, "write")
    reviews.edit_note(call.world, call.repo, issue, note, call.actor, call.body.get("body"))
    return Reply(payloads.review_comment(call.world, call.repo, issue, note))


def delete_review_comment(call: Call) -> Reply:
    """Remove a line comment."""
    issue, note = _note(call)
    require_author_or(call.world, call.actor.login, note.login, call.repo, "write")
    reviews.delete_note(call.world, call.repo, issue, note, call.actor)
    return Reply(None, 204)


def _notes(call: Call, issue: Issue, notes: list[ReviewComment]) -> Reply:
    return call.page(notes, lambda note: payloads.review_comment(call.world, call.repo, issue, note))


def _pull(call: Call) -> tuple[Issue, Pull]:
    return call.world.pull(call.repo, call.params["number"])


def _review(call: Call) -> tuple[Issue, Pull, Review]:
    issue, pull = _pull(call)
    for given in pull.reviews:
        if given.id == call.params["review_id"]:
            return issue, pull, given
    raise not_found()


def _note(call: Call) -> tuple[Issue, ReviewComment]:
    return reviews.find_note(call.repo, call.params["comment_id"])


HANDLERS: dict[str, Handler] = {
    "list_reviews": list_reviews,
    "create_review": create_review,
    "get_review": get_review,
    "submit_review": submit_review,
    "dismiss_review": dismiss_review,
    "list_comments_of_review": list_comments_of_review,
    "list_review_comments": list_review_comments,
    "create_review_comment": create_review_comment,
    "reply_to_review_comment": reply_to_review_comment,
    "get_review_comment": get_review_comment,
    "update_review_comment": update_review_comment,
    "delete_review_comment": delete_review_comment,
}
