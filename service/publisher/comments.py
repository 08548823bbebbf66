"""Comments about a job: the one that is edited in place, and those that are written once."""

from __future__ import annotations

import structlog

from service.github import GitHubError, TransientError
from service.publisher.check_run import publish_check
from service.publisher.publication import Publication
from service.report.job import report_comment
from service.report.layout import Kind, Marker, signed
from service.report.status import status_comment
from workers.contracts import Effect, ReportUpdate, StatusUpdate

log = structlog.get_logger(__name__)


def publish_status(publication: Publication, _update: StatusUpdate) -> Effect:
    """Bring the status comment up to date, or write it where there is none."""
    job, conversation = publication.job, publication.github.conversation
    number = job.request.origin.number
    body = status_comment(job, publication.links())
    for marker, comment in publication.own_comments(number):
        if marker == Marker(job.job_id, Kind.status):
            if comment.body.strip() != body.strip():
                conversation.edit_comment(comment.comment_id, body)
            return Effect(comment_id=comment.comment_id)
    return Effect(comment_id=conversation.comment(number, body))


def publish_report(publication: Publication, update: ReportUpdate) -> Effect:
    """Say in a new comment how the job ended, and conclude its check."""
    job = publication.job
    images = getattr(update.summary, "images", ())
    urls = publication.image_urls(images)
    text = report_comment(update, job, publication.links(), urls, moved_to=_head_now(publication))
    # A job that was retried ends more than once; each of its ends is a comment of its own.
    body = signed(text.rpartition("\n")[0], job.job_id, Kind.report, publication.update_id)
    comment_id = write_once(publication, Marker(job.job_id, Kind.report, publication.update_id), body)
    fold_superseded(publication, comment_id)
    return Effect(comment_id=comment_id, check_run_id=publish_check(publication, update))


def write_once(publication: Publication, marker: Marker, body: str) -> int:
    """Write a comment, unless it is there already; give its id."""
    number = publication.conversation
    for found, comment in publication.own_comments(number):
        if found == marker:
            return comment.comment_id
    return publication.github.conversation.comment(number, body)


def fold_superseded(publication: Publication, comment_id: int) -> None:
    """Fold the checkpoint or report before a comment away; what came before that was folded with it."""
    earlier = [
        comment.comment_id
        for marker, comment in publication.own_comments(publication.conversation)
        if marker.kind in (Kind.checkpoint, Kind.report) and comment.comment_id < comment_id
    ]
    if not earlier:
        return
    try:
        publication.github.conversation.minimise_comment(earlier[-1])
    except TransientError:
        raise
    except GitHubError as error:
        # Not to be able to fold a comment is no reason to stop a job.
        log.warning("comment_not_folded", comment_id=earlier[-1], error=str(error))


def _head_now(publication: Publication) -> str | None:
    """Give the head of the pull request that was measured, as it is now; None where there is none, or where it cannot be read."""
    request = publication.job.request
    if request.head_sha is None or not request.origin.is_pull:
        return None
    try:
        return publication.github.pulls.get(request.origin.number).head_sha
    except TransientError:
        raise
    except GitHubError as error:
        log.info("head_not_read", error=str(error))
        return None
