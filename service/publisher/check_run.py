"""The check run on a commit of the job."""

from __future__ import annotations

import structlog

from service.github import ConflictError, ForbiddenError
from service.github.checks import Button, CheckText
from service.publisher.publication import Publication
from service.report.job import asks, check_run_output
from service.report.status import measures
from workers.contracts import CheckpointUpdate, ReportUpdate

APPROVE, REVISE, CANCEL, AGAIN = "approve", "revise", "cancel", "again"

log = structlog.get_logger(__name__)


def external_id(job_id: str, update_id: str) -> str:
    """Give the id under which a check run is found again, and by which its re-run button finds the job."""
    return f"{job_id}/{update_id}"


def job_id_of(external: str) -> str | None:
    """Give the job of a check run; None where it is none of the bot's."""
    job_id, separator, update_id = external.partition("/")
    return job_id if separator and job_id and update_id else None


def publish_check(publication: Publication, update: CheckpointUpdate | ReportUpdate) -> int | None:
    """Make the check run, or find it; None where there is no commit yet, or where the credentials may not make one."""
    job, checks = publication.job, publication.github.checks
    head_sha = job.head_sha or _measured(publication)
    if head_sha is None:
        return None
    output = check_run_output(update, job)
    url, buttons = publication.addresses.job(job.job_id), _buttons(publication, update)
    text = CheckText(output.title, output.summary, output.conclusion.value, url, buttons)
    key = external_id(job.job_id, publication.update_id)
    try:
        found = checks.find(head_sha, key)
        return found.check_run_id if found is not None else checks.create(output.name, head_sha, key, text)
    except (ForbiddenError, ConflictError) as error:
        # Only a GitHub App can make check runs; with a plain token the comments have to do.
        log.warning("check_run_not_made", error=str(error))
        return None


def _buttons(publication: Publication, update: CheckpointUpdate | ReportUpdate) -> tuple[Button, ...]:
    """Give what can be decided on the check run; an approval is bound to its checkpoint, since two may name one commit."""
    if isinstance(update, CheckpointUpdate):
        if not asks(update):
            return ()
        bound = f"{update.stage.value}/{update.attempt}"
        return (
            Button("Approve", "Go on after this checkpoint", f"{APPROVE}/{bound}"),
            Button("Run again", "Have this stage done again", f"{REVISE}/{bound}"),
            Button("Cancel", "Stop the job; what was pushed stays", CANCEL),
        )
    stopped = update.failure is not None or update.cancelled_by is not None
    again = Button("Run again", "Carry it on, or measure it once more", AGAIN)
    return (again,) if stopped or measures(publication.job) else ()


def _measured(publication: Publication) -> str | None:
    """Give the head of the pull request that was only measured, which is nobody's work but its author's."""
    request = publication.job.request
    return request.head_sha if request.origin.is_pull else None
