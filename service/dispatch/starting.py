"""The commands that start a job on the base branch: the problem is found, and the repository is kept as it is now."""

from __future__ import annotations

from collections.abc import Callable

from service.commands import Command
from service.conversation import reply_configuration, reply_failure, reply_known
from service.dispatch.hearing import Hearing
from service.dispatch.limits import limit_reply
from service.dispatch.problem import AnswerError, find_problem
from service.repo_config import job_options
from workers.contracts import Failure, FailureCode, JobRequest, JobView, Origin, ProblemKind, ProblemText, Verb

LookOver = Callable[[str, ProblemText, str, str | None], Failure | None]
WRITING = (Verb.create, Verb.optimize, Verb.modify)


def create(hearing: Hearing, command: Command) -> str | None:
    """Start a new kernel; give the answer where no job is started."""
    return _start(hearing, command, hearing.desk.inbox.look_over)


def optimize(hearing: Hearing, command: Command) -> str | None:
    """Start to make a kernel faster; give the answer where no job is started."""
    return _start(hearing, command, hearing.desk.inbox.look_over_optimize)


def modify(hearing: Hearing, command: Command) -> str | None:
    """Start to change a kernel as a person says; give the answer where no job is started."""

    def look_over(name: str, problem: ProblemText, snapshot: str, layout: str | None) -> Failure | None:
        return hearing.desk.inbox.look_over_modify(name, command.text, problem, snapshot, layout)

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
    name, key = command.name, hearing.key(command)
    assert name is not None, "the parser gives every such command a name"
    known = job_of(hearing, key) or _at_work_on(hearing, name)
    if known is not None:
        return None if known.request.key == key else reply_known(known, hearing.links(known))
    refused = hearing.config_reply or limit_reply(hearing)
    if refused is not None:
        return refused
    try:
        base_ref, base_sha = base(hearing)
        problem = find_problem(hearing, command, base_sha)
    except AnswerError as answer:
        return answer.text
    options = job_options(command.options, hearing.config)
    snapshot = hearing.desk.snapshot(hearing.github, base_sha)
    failure = look_over(name, problem, snapshot, options.layout)
    if failure is not None:
        return reply_failure(failure)
    hearing.desk.inbox.submit(
        JobRequest(
            key=key,
            verb=command.verb,
            kernel=name,
            origin=origin(hearing),
            base_ref=base_ref,
            base_sha=base_sha,
            snapshot=snapshot,
            problem=problem,
            options=options,
            words=command.text,
        )
    )
    return None


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


def base(hearing: Hearing) -> tuple[str, str]:
    """Give the branch that pull requests go to, and its head at this moment.

    Raises:
        AnswerError: there is no such branch.
    """
    configured = hearing.config.base_branch
    branch = configured or hearing.repository.default_branch
    sha = hearing.github.git.head(branch)
    if sha is not None:
        return branch, sha
    if configured is not None:
        cure = "Correct `base_branch`, or leave it out: then it is the default branch."
        raise AnswerError(reply_configuration(None, f"there is no branch `{configured}`", cure))
    raise AnswerError(reply_failure(Failure(FailureCode.layout, "the repository is empty", "Push a first commit.")))


def _at_work_on(hearing: Hearing, name: str) -> JobView | None:
    active = hearing.desk.inbox.find_jobs(hearing.text.place.repository, active=True)
    return next((job for job in active if job.request.kernel == name and job.request.verb in WRITING), None)
