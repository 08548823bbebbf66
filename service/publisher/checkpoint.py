"""A checkpoint: the comment that asks, the check run on its commit, the request for a review."""

from __future__ import annotations

import structlog

from service.github import ConflictError, ForbiddenError, MissingError
from service.publisher.check_run import publish_check
from service.publisher.comments import fold_superseded, write_once
from service.publisher.publication import Publication
from service.report.job import asks, checkpoint_comment, reminder_comment
from service.report.layout import find_marker
from workers.contracts import CheckpointUpdate, Effect, JobState, ReminderUpdate

log = structlog.get_logger(__name__)


def publish_checkpoint(publication: Publication, update: CheckpointUpdate) -> Effect:
    """Ask for a review, and fold the checkpoint before it away."""
    images = getattr(update.summary, "images", ())
    body = checkpoint_comment(update, publication.job, publication.links(), publication.image_urls(images))
    marker = find_marker(body)
    assert marker is not None, "every comment about a job is signed"
    comment_id = write_once(publication, marker, body)
    fold_superseded(publication, comment_id)
    check_run_id = publish_check(publication, update)
    if asks(update):
        _request_review(publication)
    return Effect(comment_id=comment_id, check_run_id=check_run_id)


def publish_reminder(publication: Publication, update: ReminderUpdate) -> Effect:
    """Say once that a checkpoint waits; nothing where it was decided meanwhile."""
    waits = publication.job.checkpoint
    asked = (update.stage, update.attempt)
    if publication.job.state is not JobState.waiting or waits is None or (waits.stage, waits.attempt) != asked:
        return Effect()
    body = reminder_comment(update, publication.job, publication.links())
    marker = find_marker(body)
    assert marker is not None, "every comment about a job is signed"
    return Effect(comment_id=write_once(publication, marker, body))


def _request_review(publication: Publication) -> None:
    job = publication.job
    if job.pull_number is None:
        return
    try:
        publication.github.pulls.request_review(job.pull_number, job.request.origin.author)
    except (ConflictError, ForbiddenError, MissingError) as error:
        # Who wrote the pull request, or is no collaborator, cannot be asked; the comment above has asked already.
        log.info("review_not_requested", error=str(error))
