"""The one issue of a kernel on a GPU model: opened with the first regression, told what is new, closed on recovery."""

from __future__ import annotations

from service.github import IssueInfo
from service.publisher.publication import Publication
from service.report.layout import NO_JOB, Kind, Marker, find_marker
from service.report.nightly import is_first, regression_comment, regression_issue, regression_title
from workers.contracts import Effect, RegressionUpdate


def publish_regression(publication: Publication, update: RegressionUpdate) -> Effect:
    """Open the issue, or say in it what is new; it is open while a confirmed change stands."""
    issues = publication.github.issues
    issue = _issue(publication, update)
    if issue is None:
        # A recovery without an issue: somebody deleted it, or the regression was confirmed on a checkout.
        if update.stands:
            issues.open(regression_title(update), regression_issue(update, publication.update_id))
        return Effect()
    comment_id = None
    if not is_first(issue.body, publication.update_id):
        comment_id = _say_once(publication, issue.number, update)
    if update.stands and not issue.is_open:
        issues.reopen(issue.number)
    elif not update.stands and issue.is_open:
        issues.close(issue.number)
    return Effect(comment_id=comment_id)


def _issue(publication: Publication, update: RegressionUpdate) -> IssueInfo | None:
    wanted = Marker(NO_JOB, Kind.regression, update.key())
    found = publication.github.issues.by(publication.bot_login)
    return next((issue for issue in found if find_marker(issue.body) == wanted), None)


def _say_once(publication: Publication, number: int, update: RegressionUpdate) -> int:
    marker = Marker(publication.job.job_id, Kind.regression, publication.update_id)
    for found, comment in publication.own_comments(number):
        if found == marker:
            return comment.comment_id
    body = regression_comment(update, publication.job.job_id, publication.update_id)
    return publication.github.conversation.comment(number, body)
