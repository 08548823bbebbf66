"""The pull request: opened as a draft once, its body brought up to date afterwards, and taken out of draft at the end."""

from __future__ import annotations

from dataclasses import replace

from service.github import ConflictError, PullInfo
from service.publisher.publication import GiveUpError, Publication
from service.report.pull_request import pull_request_body, pull_request_title
from workers.contracts import CloseUpdate, Effect, Failure, FailureCode, PullRequestUpdate, ReadyUpdate


def publish_pull_request(publication: Publication, update: PullRequestUpdate) -> Effect:
    """Open the draft, or edit the one that is there.

    Raises:
        GiveUpError: it was closed, or is somebody else's.
    """
    job, pulls = publication.job, publication.github.pulls
    title = pull_request_title(update, job)
    body = pull_request_body(update, job, publication.links())
    found = _ours(publication)
    if found is None:
        try:
            found = pulls.create(title, body, job.branch, job.request.base_ref)
        except ConflictError as error:
            found = _ours(publication) or _without_draft(publication, title, body, error)
    else:
        # The title tells the gain once that is known, unless a person has given it another one.
        renamed = found.title != pull_request_title(replace(update, optimization=None), job)
        if found.body != body or (not renamed and found.title != title):
            pulls.edit(found.number, body, found.title if renamed else title)
    return Effect(pull_number=found.number)


def publish_ready(publication: Publication, _update: ReadyUpdate) -> Effect:
    """Take the pull request out of draft."""
    number = publication.job.pull_number
    if number is None:
        raise GiveUpError(Failure(FailureCode.internal, "there is no pull request to take out of draft"))
    publication.github.pulls.mark_ready(number)
    return Effect(pull_number=number)


def publish_close(publication: Publication, _update: CloseUpdate) -> Effect:
    """Close the pull request, where there is one that is still open; its branch stays."""
    number = publication.job.pull_number
    if number is not None and _ours(publication) is not None:
        publication.github.pulls.close(number)
    return Effect(pull_number=number)


def _ours(publication: Publication) -> PullInfo | None:
    job, pulls = publication.job, publication.github.pulls
    found = pulls.get(job.pull_number) if job.pull_number is not None else pulls.find(job.branch)
    if found is None:
        return None
    if (
        found.head_repository or ""
    ).lower() != job.request.origin.repository.lower() or found.head_branch != job.branch:
        return None
    if found.state == "open":
        if found.author != publication.bot_login:
            raise _closed(f"#{found.number} was opened from the branch `{job.branch}` by somebody else")
        return found
    if job.pull_number is not None:
        raise _closed(f"#{found.number} was closed")
    return None


def _without_draft(publication: Publication, title: str, body: str, error: ConflictError) -> PullInfo:
    # Some plans of GitHub have no drafts for private repositories; then the pull request is simply open.
    if "draft" not in str(error).lower():
        raise _not_opened(error) from error
    job = publication.job
    return publication.github.pulls.create(title, body, job.branch, job.request.base_ref, draft=False)


def _closed(what: str) -> GiveUpError:
    cure = "Open it again, or delete its branch, and use `/kernel retry`."
    return GiveUpError(Failure(FailureCode.moved, f"the pull request {what} while the job was running", cure))


def _not_opened(error: ConflictError) -> GiveUpError:
    failure = Failure(
        FailureCode.environment,
        "GitHub did not open the pull request",
        "See what GitHub said, put it right, and use `/kernel retry`.",
        log=str(error),
    )
    return GiveUpError(failure)
