"""A pull request that got commits, or was closed: what runs on it is about something else now, or about nothing."""

from __future__ import annotations

import structlog

from service.dispatch.desk import Desk
from service.dispatch.heads import is_own
from service.dispatch.hearing import Hearing, hear
from service.dispatch.measuring import measure_again
from service.dispatch.payloads import Actor, Place, PullEvent, Text
from service.escape import code
from service.permissions import Refused
from workers.contracts import Decision, JobState, JobView, Verb

ACTIVE = (JobState.queued, JobState.running, JobState.waiting)
MEASURING = (Verb.bench, Verb.verify)
PUSHER = "a push to the pull request"

log = structlog.get_logger(__name__)


def carry_out_push(desk: Desk, event: PullEvent) -> str:
    """End what measures an older head of the pull request, and measure the new one where it is this repository's own."""
    place = event.place
    jobs = [job for job in _asked_there(desk, place) if job.request.verb in MEASURING]
    if not jobs:
        return "nothing measures it"
    github = desk.client(place.repository, place.installation_id)
    # Pushes come in any order, and a job may have been started for this very head.
    pull = github.pulls.get(place.number)
    outdated = [job for job in jobs if job.request.head_sha != pull.head_sha]
    for job in outdated:
        hearing = _as_asked(desk, job, place)
        again = is_own(hearing, pull) and not isinstance(hearing.may_command(), Refused)
        moved = f"the pull request moved on to {code(pull.head_sha[:12])}"
        follows = "It is measured anew" if again else f"`/kernel {job.request.verb.value}` looks at that one"
        if not desk.inbox.cancel(job.job_id, PUSHER, f"{moved}. {follows}"):
            continue
        log.info("job_superseded", job_id=job.job_id, head_sha=pull.head_sha, again=again)
        if again and (refused := measure_again(hearing, job, f"{job.request.key}@{pull.head_sha}")) is not None:
            log.info("not_measured_again", job_id=job.job_id, reason=refused)
    return f"{len(outdated)} superseded"


def carry_out_close(desk: Desk, event: PullEvent) -> str:
    """End what runs on a pull request that was closed; the bot's own that was merged at its last checkpoint is approved by that."""
    place = event.place
    ended = 0
    for job in {job.job_id: job for job in (*_asked_there(desk, place), *_of_pull(desk, place))}.values():
        if event.merged and job.pull_number == place.number and _approved_by_merge(desk, job, event):
            continue
        how = "merged" if event.merged else "closed"
        why = f"pull request {place.number} was {how} by {code(event.actor.login)}"
        ended += desk.inbox.cancel(job.job_id, event.actor.login, why)
    return f"{ended} ended"


def _approved_by_merge(desk: Desk, job: JobView, event: PullEvent) -> bool:
    checkpoint = job.checkpoint
    last = checkpoint is not None and job.state is JobState.waiting and checkpoint.stage is job.pipeline[-1]
    if not last or checkpoint is None or checkpoint.sha is None:
        return False
    key = f"{event.place.repository}#merged-{event.place.number}"
    stage, by = checkpoint.stage, event.actor.login
    desk.inbox.decide(job.job_id, stage, checkpoint.sha, Decision.approve, "", (), by, key)
    return True


def _asked_there(desk: Desk, place: Place) -> tuple[JobView, ...]:
    """Give the active jobs whose kernels are those of the pull request's head."""
    found = desk.inbox.find_jobs(place.repository, number=place.number, active=True)
    return tuple(job for job in found if job.request.origin.is_pull and job.request.verb is not Verb.create)


def _of_pull(desk: Desk, place: Place) -> tuple[JobView, ...]:
    return desk.inbox.find_jobs(place.repository, active=True, pull_number=place.number)


def _as_asked(desk: Desk, job: JobView, place: Place) -> Hearing:
    """Give a hearing of whoever asked for the job, with what they may do now."""
    asked = job.request.origin
    text = Text(place, Actor(asked.author, "User"), f"job-{job.job_id}", "", None, asked.comment_id, asked.url, "")
    return hear(desk, desk.client(place.repository, place.installation_id), text)
