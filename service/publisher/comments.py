"""Comments and issues: status, checkpoint, report, reminder, regression, each written once."""

from __future__ import annotations

from dataclasses import replace

import structlog

from service.github.errors import ConflictError, ForbiddenError, GitHubError, MissingError, TransientError
from service.github.records import IssueInfo
from service.publisher import culprits
from service.publisher.commits import publish_check
from service.publisher.publication import Publication
from service.report.job import asks, checkpoint_comment, reminder_comment, report_comment
from service.report.layout import NO_JOB, Marker, MessageKind, find_marker, pictures, signed
from service.report.nightly import (
    Brought,
    digest_comment,
    digest_issue,
    digest_title,
    is_first,
    is_own_title,
    regression_comment,
    regression_issue,
    regression_title,
)
from service.report.status import status_comment
from workers.contracts import (
    BisectSummary,
    CheckpointUpdate,
    DigestUpdate,
    Effect,
    JobState,
    RegressionUpdate,
    ReminderUpdate,
    ReportUpdate,
    StatusUpdate,
    regression_key,
)

REGRESSION_LABEL, DIGEST_LABEL = "kernel regression", "kernel digest"  # GitHub makes a label that is not there

log = structlog.get_logger(__name__)


def publish_status(publication: Publication, _update: StatusUpdate) -> Effect:
    """Bring the status comment up to date, or write it where there is none."""
    job, conversation = publication.job, publication.github.conversation
    number = job.request.origin.number
    body = status_comment(job, publication.links())
    for marker, comment in publication.own_comments(number):
        if marker == Marker(job.job_id, MessageKind.status):
            if comment.body.strip() != body.strip():
                conversation.edit_comment(comment.comment_id, body)
            return Effect(comment_id=comment.comment_id)
    return Effect(comment_id=conversation.comment(number, body))


def publish_report(publication: Publication, update: ReportUpdate) -> Effect:
    """Say in a new comment how the job ended, and conclude its check."""
    job = publication.job
    if isinstance(update.summary, BisectSummary):
        pulls = culprits.mark(publication, culprits.of_bisection(update.summary))
        update = replace(update, summary=replace(update.summary, pulls=tuple(pulls.items())))
    images = getattr(update.summary, "images", ())
    urls = publication.image_urls(images)
    text = report_comment(update, job, publication.links(), urls, moved_to=_head_now(publication))
    # A job that was retried ends more than once; each of its ends is a comment of its own.
    body = signed(text.rpartition("\n")[0], job.job_id, MessageKind.report, publication.update_id)
    comment_id = write_once(publication, Marker(job.job_id, MessageKind.report, publication.update_id), body)
    fold_superseded(publication, comment_id)
    return Effect(comment_id=comment_id, check_run_id=publish_check(publication, update))


def write_once(publication: Publication, marker: Marker, body: str) -> int:
    """Write a comment, unless it is there already; give its id."""
    number = publication.conversation
    for other, comment in publication.own_comments(number):
        if other == marker:
            return comment.comment_id
    return publication.github.conversation.comment(number, body)


def fold_superseded(publication: Publication, comment_id: int) -> None:
    """Fold the checkpoint or report before a comment away; what came before that was folded with it."""
    earlier = [
        comment.comment_id
        for marker, comment in publication.own_comments(publication.conversation)
        if marker.kind in (MessageKind.checkpoint, MessageKind.report) and comment.comment_id < comment_id
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
    """The head of the pull request that was measured, as it is now; None where there is none, or where it cannot be read."""
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


def publish_regression(publication: Publication, update: RegressionUpdate) -> Effect:
    """Open the issue, or say in it what is new; it is open while a confirmed change stands."""
    issues = publication.github.issues
    issue = _issue(publication, update)
    known = culprits.of_regression(publication, update)
    pulls = culprits.mark(publication, tuple(culprit for culprit, _ in known))
    brought = tuple((culprit.sha, title, pulls.get(culprit.sha)) for culprit, title in known)
    plots = pictures(update.images, publication.image_urls(update.images))
    if issue is None:
        # A recovery without an issue: somebody deleted it, or the regression was confirmed on a checkout.
        if update.stands:
            issues.open(
                regression_title(update),
                regression_issue(update, publication.update_id, brought, plots),
                (REGRESSION_LABEL,),
            )
        return Effect()
    comment_id = None
    if not is_first(issue.body, publication.update_id):
        try:
            comment_id = _say_once(publication, issue.number, update, brought, plots)
        except ForbiddenError as error:
            # Somebody has locked the conversation; whether it is open is brought up to date all the same.
            log.warning("issue_not_commented", number=issue.number, error=str(error))
    title = regression_title(update)
    if update.stands and issue.title != title and is_own_title(issue.title, update):
        issues.rename(issue.number, title)
    if update.stands and not issue.is_open:
        issues.reopen(issue.number)
    elif not update.stands and issue.is_open:
        issues.close(issue.number)
    return Effect(comment_id=comment_id)


def publish_digest(publication: Publication, update: DigestUpdate) -> Effect:
    """Tell in a comment what became faster in a week; a digest issue that people have closed stays as it is."""
    issues = publication.github.issues
    marker = Marker(NO_JOB, MessageKind.digest, regression_key("digest", update.gpu))
    issue = _marked(publication, marker)
    if issue is None:
        number = issues.open(digest_title(update), digest_issue(update), (DIGEST_LABEL,))
    elif issue.is_open:
        number = issue.number
    else:
        return Effect()
    body = digest_comment(update, publication.job.job_id, publication.update_id)
    return Effect(comment_id=_write_once(publication, number, MessageKind.digest, body))


def _issue(publication: Publication, update: RegressionUpdate) -> IssueInfo | None:
    return _marked(publication, Marker(NO_JOB, MessageKind.regression, update.key()))


def _marked(publication: Publication, wanted: Marker) -> IssueInfo | None:
    issues = publication.github.issues.by(publication.bot_login)
    return next((issue for issue in issues if find_marker(issue.body) == wanted), None)


def _say_once(
    publication: Publication, number: int, update: RegressionUpdate, brought: tuple[Brought, ...], plots: str
) -> int:
    body = regression_comment(update, publication.job.job_id, publication.update_id, brought, plots)
    return _write_once(publication, number, MessageKind.regression, body)


def _write_once(publication: Publication, number: int, kind: MessageKind, body: str) -> int:
    marker = Marker(publication.job.job_id, kind, publication.update_id)
    for other, comment in publication.own_comments(number):
        if other == marker:
            return comment.comment_id
    return publication.github.conversation.comment(number, body)
