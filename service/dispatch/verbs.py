"""The commands about what there is: approve, revise, cancel, retry, status, explain, triaged, help."""

from __future__ import annotations

from dataclasses import dataclass

from service.commands.command import Command
from service.dispatch.context import SLACK, CommandContext, GivenDecision, decide, moment
from service.dispatch.starting import WRITING, AnswerError, measure_again, start_of
from service.report.layout import MessageKind, find_marker
from service.report.nightly import reply_no_regression, reply_nothing_to_triage, reply_triaged
from service.report.replies import (
    help_text,
    reply_cancel,
    reply_decision,
    reply_explain,
    reply_failure,
    reply_jobs,
    reply_no_job,
    reply_nothing_waits,
    reply_retry,
    reply_unknown_job,
    reply_which_job,
)
from workers.contracts import Decision, Failure, FailureCode, JobState, JobView
from workers.history import kernel_states

ACTIVE = (JobState.queued, JobState.running, JobState.waiting)
STOPPED = (JobState.failed, JobState.cancelled)
MOST_JOBS = 5  # that an explanation of a kernel lists


@dataclass(frozen=True)
class Fresh:
    """The commit and the snapshot of it on which a job starts over."""

    sha: str
    snapshot: str


def help_(_hearing: CommandContext, command: Command) -> str:
    """Explain the commands, or one of them."""
    return help_text(command.topic)


def status(context: CommandContext, command: Command) -> str:
    """Say where jobs are."""
    jobs = _jobs(context, command.job)
    if command.job is not None and not jobs:
        return reply_unknown_job(command.job, _jobs(context, None))
    return reply_jobs([(job, context.links(job)) for job in jobs])


def explain(context: CommandContext, command: Command) -> str:
    """Show what is known of a kernel; nothing is run."""
    name, repository = command.name or "", context.text.place.repository
    jobs = [j for j in context.desk.inbox.find_jobs(repository) if name in (j.request.kernel, *j.request.kernels)]
    recent = [(job, context.links(job)) for job in reversed(jobs[-MOST_JOBS:])]
    return reply_explain(name, kernel_states(repository, name), recent, len(jobs))


def cancel(context: CommandContext, command: Command) -> str | None:
    """Cancel a job; its report then says so."""
    job = _one(context, command, ACTIVE)
    if isinstance(job, str):
        return job
    done = context.desk.inbox.cancel(job.job_id, context.text.actor.login)
    now = context.desk.inbox.get_job(job.job_id) or job
    return None if done or _cancelled_since(context, now) else reply_cancel(now, done=False)


def _cancelled_since(context: CommandContext, job: JobView) -> bool:
    # A command whose delivery is handled a second time finds what it did itself, and was answered by the job's report.
    ends = [event.at for event in job.timeline if event.kind == "cancelled"]
    ended, given = moment(ends[-1] if ends else None), moment(context.text.given_at)
    return bool(ended and given and context.desk.at_github(ended) + SLACK >= given)


def retry(context: CommandContext, command: Command) -> str | None:
    """Have a job go on that stopped, or that was cancelled where none stopped; a comparison that is done is made once more."""
    job = _one(context, command, (JobState.failed,), (JobState.cancelled,))
    if isinstance(job, str):
        return job
    if job.state is JobState.done and job.request.verb not in WRITING and job.request.head_sha is not None:
        return measure_again(context, job, context.key(command))
    try:
        fresh = fresh_start(context, job)
    except AnswerError as answer:
        return answer.text
    done = retry_job(context, job, fresh)
    return reply_retry(context.desk.inbox.get_job(job.job_id) or job, done=done, fresh=fresh is not None)


def retry_job(context: CommandContext, job: JobView, fresh: Fresh | None) -> bool:
    """Have a job go on, or start over."""
    by = context.text.actor.login
    if fresh is None:
        return context.desk.inbox.retry(job.job_id, by)
    return context.desk.inbox.retry(job.job_id, by, fresh.snapshot, fresh.sha)


def fresh_start(context: CommandContext, job: JobView) -> Fresh | None:
    """The commit to start over on; None where the job can go on from where it stopped.

    Raises:
        AnswerError: the branch to start from is gone.
    """
    # What bench and verify compare was settled when the command was given.
    if job.state not in STOPPED or job.request.verb not in WRITING:
        return None
    moved = job.artifacts_removed or (job.failure is not None and job.failure.code is FailureCode.moved)
    if not moved and job.head_sha is not None:
        return None
    request = job.request
    asked, bound = request.origin, context.text.commit_sha
    start = start_of(context, request.verb, asked.number, is_pull=asked.is_pull, bound=bound)
    if start.ref != request.base_ref and request.origin.is_pull:
        where = f"the branch `{request.base_ref}` of #{request.origin.number}"
        message = f"job `{job.job_id}` was for {where}, which is not open any more"
        fix = f"Give a new `/kernel {request.verb.value}`."
        raise AnswerError(reply_failure(Failure(FailureCode.problem, message, fix)))
    sha = start.sha
    if not moved and sha == job.request.base_sha:
        return None
    return Fresh(sha, context.desk.snapshot(context.github, sha))


def approve(context: CommandContext, command: Command) -> str | None:
    """Approve at a checkpoint."""
    return _decide(context, command, Decision.approve)


def revise(context: CommandContext, command: Command) -> str | None:
    """Have a stage done again."""
    return _decide(context, command, Decision.revise)


def _decide(context: CommandContext, command: Command, decision: Decision) -> str | None:
    jobs = _jobs(context, None)
    waiting = [job for job in jobs if job.state is JobState.waiting]
    if not waiting:
        return _not_waiting(context, jobs, command, decision)
    if command.sha is not None:
        named = [job for job in waiting if job.checkpoint and (job.checkpoint.sha or "").startswith(command.sha)]
        waiting = named or waiting
    if len(waiting) > 1:
        return reply_which_job(command.verb, waiting)
    job = waiting[0]
    sha = command.sha or (job.checkpoint.sha if job.checkpoint else None) or ""
    given = GivenDecision(
        context.key(command), decision, sha, context.text.actor.login, context.text.given_at, command.text
    )
    return reply_decision(decide(context.desk, job, given), decision, sha, job)


def _not_waiting(
    context: CommandContext, jobs: tuple[JobView, ...], command: Command, decision: Decision
) -> str | None:
    if not jobs:
        return reply_no_job(command.verb)
    # The store knows a decision that was made by this very command, when its delivery is handled a second time.
    given = GivenDecision(context.key(command), decision, command.sha or "", context.text.actor.login, "", command.text)
    result = decide(context.desk, jobs[0], given)
    return reply_decision(result, decision, given.sha, jobs[0]) if result.job_id else reply_nothing_waits(jobs[0])


def _jobs(context: CommandContext, job_id: str | None) -> tuple[JobView, ...]:
    """The jobs that a command may speak of, newest first: by id, or of this conversation; never another repository's."""
    inbox, place = context.desk.inbox, context.text.place
    if job_id is not None:
        job = inbox.get_job(job_id)
        ours = job is not None and job.request.origin.repository.lower() == place.repository.lower()
        return (job,) if job is not None and ours else ()
    by_id = {job.job_id: job for job in inbox.find_jobs(place.repository, number=place.number)}
    if place.is_pull:
        by_id |= {job.job_id: job for job in inbox.find_jobs(place.repository, pull_number=place.number)}
    return tuple(sorted(by_id.values(), key=lambda job: job.created_at, reverse=True))


def _one(context: CommandContext, command: Command, *states: tuple[JobState, ...]) -> JobView | str:
    """The job that a command means, or the answer where that is not clear; the first states that any job has count."""
    jobs = _jobs(context, command.job)
    if command.job is not None:
        return jobs[0] if jobs else reply_unknown_job(command.job, _jobs(context, None))
    by_state = [[job for job in jobs if job.state in wanted] for wanted in states]
    fitting = next((some for some in by_state if some), [])
    if len(fitting) > 1:
        return reply_which_job(command.verb, fitting)
    if fitting or jobs:
        return (fitting or list(jobs))[0]
    return reply_no_job(command.verb)


def triaged(context: CommandContext, command: Command) -> str:
    """Make what is measured now the base of the issue's series, and close the issue; give the answer."""
    marker = find_marker(context.text.issue_body)
    if marker is None or marker.kind is not MessageKind.regression or marker.key is None:
        return reply_no_regression()
    place = context.text.place
    reason = f"{context.text.actor.login}: {command.text}"
    count = context.desk.inbox.triage(place.repository, marker.key, reason)
    if count == 0:
        return reply_nothing_to_triage()
    context.github.issues.close(place.number)
    return reply_triaged(count)
