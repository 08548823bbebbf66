"""The create command: the problem is found, the repository is kept as it is now, and the production gets the job."""

from __future__ import annotations

from service.commands import Command
from service.conversation import reply_configuration, reply_failure, reply_known
from service.dispatch.hearing import Hearing
from service.dispatch.limits import limit_reply
from service.dispatch.problem import AnswerError, find_problem
from service.repo_config import job_options
from workers.contracts import Failure, FailureCode, JobRequest, JobView, Origin


def create(hearing: Hearing, command: Command) -> str | None:
    """Start a job; give the answer where none is started."""
    name, key = command.name, hearing.key(command)
    assert name is not None, "the parser gives every create a name"
    known = _known(hearing, key, name)
    if known is not None:
        return None if known.request.key == key else reply_known(known, hearing.links(known))
    if hearing.config_reply is not None:
        return hearing.config_reply
    refused = limit_reply(hearing)
    if refused is not None:
        return refused
    try:
        base_ref, base_sha = base(hearing)
        problem = find_problem(hearing, command, base_sha)
    except AnswerError as answer:
        return answer.text
    options = job_options(command.options, hearing.config)
    snapshot = hearing.desk.snapshot(hearing.github, base_sha)
    failure = hearing.desk.inbox.look_over(name, problem, snapshot, options.layout)
    if failure is not None:
        return reply_failure(failure)
    place, text = hearing.text.place, hearing.text
    origin = Origin(
        repository=place.repository,
        number=place.number,
        author=text.actor.login,
        comment_id=text.comment_id,
        is_pull=place.is_pull,
        url=text.url,
        installation_id=place.installation_id,
    )
    hearing.desk.inbox.submit(
        JobRequest(
            key=key,
            verb=command.verb,
            kernel=name,
            origin=origin,
            base_ref=base_ref,
            base_sha=base_sha,
            snapshot=snapshot,
            problem=problem,
            options=options,
        )
    )
    return None


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


def _known(hearing: Hearing, key: str, name: str) -> JobView | None:
    inbox, place = hearing.desk.inbox, hearing.text.place
    for job in inbox.find_jobs(place.repository, number=place.number):
        if job.request.key == key:
            return job
    return next((job for job in inbox.find_jobs(place.repository, active=True) if job.request.kernel == name), None)
