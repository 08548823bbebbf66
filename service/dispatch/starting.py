"""The commands that start a job on a kernel: the problem is found, and the repository is kept as it is now."""

from __future__ import annotations

from collections.abc import Callable

from service.commands import Command, CommandError, ErrorCode
from service.dispatch.heads import Start, base, start_of
from service.dispatch.hearing import Hearing
from service.dispatch.limits import limit_reply
from service.dispatch.problem import AnswerError, find_problem
from service.repo_config import job_options
from service.report.measure import reply_no_comparison
from service.report.replies import reply_command_errors, reply_dry_run, reply_failure, reply_known
from workers.contracts import (
    Failure,
    JobOptions,
    JobRequest,
    JobView,
    Origin,
    ProblemKind,
    ProblemText,
    Verb,
)

LookOver = Callable[[str, ProblemText, str, JobOptions], str | Failure]
WRITING = (Verb.create, Verb.optimize, Verb.modify, Verb.tune)


def create(hearing: Hearing, command: Command) -> str | None:
    """Start a new kernel; give the answer where no job is started."""

    def look_over(name: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
        return hearing.desk.inbox.look_over(name, problem, snapshot, options.layout)

    return _start(hearing, command, look_over)


def optimize(hearing: Hearing, command: Command) -> str | None:
    """Start to make a kernel faster, to tune or to profile it; give the answer where no job is started."""
    return _start(hearing, command, hearing.desk.inbox.look_over_optimize)


def modify(hearing: Hearing, command: Command) -> str | None:
    """Start to change a kernel as a person says; give the answer where no job is started."""

    def look_over(name: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
        return hearing.desk.inbox.look_over_modify(name, command.text, problem, snapshot, options.layout)

    return _start(hearing, command, look_over)


def nightly(hearing: Hearing, command: Command) -> str | None:
    """Start to measure the default branch, as every night; give the answer where no job is started."""
    key, inbox = hearing.key(command), hearing.desk.inbox
    active = inbox.find_jobs(hearing.text.place.repository, active=True)
    known = job_of(hearing, key) or next((job for job in active if job.request.verb is Verb.nightly), None)
    if known is not None:
        return None if known.request.key == key else reply_known(known, hearing.links(known))
    refused = hearing.config_reply or limit_reply(hearing)
    if refused is not None:
        return refused
    try:
        base_ref, base_sha = base(hearing)
    except AnswerError as answer:
        return answer.text
    inbox.submit(
        JobRequest(
            key=key,
            verb=command.verb,
            kernel="nightly",
            origin=origin(hearing),
            base_ref=base_ref,
            base_sha=base_sha,
            snapshot=hearing.desk.snapshot(hearing.github, base_sha),
            problem=ProblemText(ProblemKind.missing),
            options=job_options(command.options, hearing.config),
            kernels=command.names,
        )
    )
    return None


def _start(hearing: Hearing, command: Command, look_over: LookOver) -> str | None:
    key = hearing.key(command)
    if job_of(hearing, key) is not None:
        return None
    known = None if command.name is None else _at_work_on(hearing, command, command.name)
    if known is not None:
        return reply_known(known, hearing.links(known))
    refused = hearing.config_reply or limit_reply(hearing)
    if refused is not None:
        return refused
    text, options = hearing.text, job_options(command.options, hearing.config)
    try:
        start = start_of(hearing, command.verb, text.place.number, is_pull=text.place.is_pull, bound=text.commit_sha)
        problem = find_problem(hearing, command, start.ref, start.sha)
        snapshot = hearing.desk.snapshot(hearing.github, start.sha)
        wanted = command.name or _touched(hearing, command, start, snapshot, options)
    except AnswerError as answer:
        return answer.text
    name = look_over(wanted, problem, snapshot, options)
    if isinstance(name, Failure):
        return reply_failure(name)
    known = _at_work_on(hearing, command, name)
    if known is not None:
        return reply_known(known, hearing.links(known))
    request = JobRequest(
        key=key,
        verb=command.verb,
        kernel=name,
        origin=origin(hearing),
        base_ref=start.ref,
        base_sha=start.sha,
        snapshot=snapshot,
        problem=problem,
        options=options,
        words=command.text,
        read_only=start.read_only,
    )
    return submit(hearing, request, dry_run=command.options.dry_run)


def submit(hearing: Hearing, request: JobRequest, *, dry_run: bool) -> str | None:
    """Start a job; or, where it is only to be told, say what it would do and may take."""
    inbox = hearing.desk.inbox
    if dry_run:
        return reply_dry_run(request, inbox.estimate(request))
    inbox.submit(request)
    return None


def _touched(hearing: Hearing, command: Command, start: Start, snapshot: str, options: JobOptions) -> str:
    """Give the kernel that the pull request changes, where the command names none.

    Raises:
        AnswerError: it is no pull request, or touches no kernel or several.
    """
    if start.pull is None:
        error = CommandError(
            ErrorCode.missing_argument, verb=command.verb, about="NAME", line=command.line, raw=command.raw
        )
        raise AnswerError(reply_command_errors((error,)))
    compared = hearing.github.git.compare(start.pull.base_branch, start.sha)
    if compared is None:
        raise AnswerError(reply_no_comparison(start.pull.base_branch, start.sha))
    before = hearing.desk.snapshot(hearing.github, compared.merge_base_sha)
    found = hearing.desk.inbox.touched_kernel(before, snapshot, options.layout)
    if isinstance(found, Failure):
        raise AnswerError(reply_failure(found))
    return found


def origin(hearing: Hearing) -> Origin:
    """Give where a command was given."""
    place, text = hearing.text.place, hearing.text
    return Origin(
        repository=place.repository,
        number=place.number,
        author=text.actor.login,
        comment_id=text.comment_id,
        is_pull=place.is_pull,
        url=text.url,
        installation_id=place.installation_id,
    )


def job_of(hearing: Hearing, key: str) -> JobView | None:
    """Give the job that this very command started, when its delivery was handled before."""
    place = hearing.text.place
    found = hearing.desk.inbox.find_jobs(place.repository, number=place.number)
    return next((job for job in found if job.request.key == key), None)


def _at_work_on(hearing: Hearing, command: Command, name: str) -> JobView | None:
    """Give a job that writes the same kernel; what is written under one pull request hinders nobody elsewhere."""
    if command.verb not in WRITING:
        return None
    active = hearing.desk.inbox.find_jobs(hearing.text.place.repository, active=True)
    same = [job for job in active if job.request.kernel == name and job.request.verb in WRITING]
    place = hearing.text.place
    return next(
        (job for job in same if _pull_of(job.request.origin) == (place.number if place.is_pull else None)), None
    )


def _pull_of(asked: Origin) -> int | None:
    return asked.number if asked.is_pull else None
