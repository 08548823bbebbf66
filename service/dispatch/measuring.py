"""The commands bench and verify: what is compared is bound to its commits before anything runs, and nothing is ever pushed."""

from __future__ import annotations

from dataclasses import dataclass

from service.commands import Command
from service.commands.grammar import SHA
from service.dispatch.heads import base, check_head
from service.dispatch.hearing import Hearing
from service.dispatch.limits import limit_reply
from service.dispatch.problem import AnswerError
from service.dispatch.starting import job_of, origin, submit
from service.permissions import Refused
from service.repo_config import job_options
from service.report.measure import reply_no_change, reply_no_comparison, reply_no_pull
from service.report.replies import reply_failure
from workers.contracts import Failure, FailureCode, JobOptions, JobRequest, JobView, ProblemKind, ProblemText, Verb

MAX_JOINED = 80  # characters of a job's name, which its branch has too


@dataclass(frozen=True)
class Change:
    """What is compared: ``head_sha`` with ``base_sha``; ``name`` stands for it where no kernel is named."""

    name: str
    base_ref: str
    base_sha: str
    head_sha: str


def measure(hearing: Hearing, command: Command) -> str | None:
    """Start to compare; give the answer where no job is started."""
    key, options = hearing.key(command), job_options(command.options, hearing.config)
    return _start(hearing, key, command.verb, command.names, options, dry_run=command.options.dry_run)


def measure_again(hearing: Hearing, job: JobView, key: str) -> str | None:
    """Start the comparison of a job anew, on the commits that are there now; give the answer where no job is started."""
    return _start(hearing, key, job.request.verb, job.request.kernels, job.request.options)


def _start(
    hearing: Hearing, key: str, verb: Verb, names: tuple[str, ...], options: JobOptions, *, dry_run: bool = False
) -> str | None:
    if job_of(hearing, key) is not None:
        return None
    refused = hearing.config_reply or limit_reply(hearing)
    if refused is not None:
        return refused
    try:
        change = _change(hearing, verb, options.against)
    except AnswerError as answer:
        return answer.text
    joined = ",".join(names)
    desk, github = hearing.desk, hearing.github
    request = JobRequest(
        key=key,
        verb=verb,
        kernel=joined if 0 < len(joined) <= MAX_JOINED else change.name,
        origin=origin(hearing),
        base_ref=change.base_ref,
        base_sha=change.base_sha,
        snapshot=desk.snapshot(github, change.base_sha),
        problem=ProblemText(ProblemKind.missing),
        options=options,
        kernels=names,
        head_sha=change.head_sha,
        head_snapshot=desk.snapshot(github, change.head_sha),
    )
    return submit(hearing, request, dry_run=dry_run)


def _change(hearing: Hearing, verb: Verb, against: str | None) -> Change:
    if against is not None:
        _check_reference(hearing, against)
    change = _of_pull(hearing, against) if hearing.text.place.is_pull else _of_branch(hearing, verb, against)
    if change.base_sha == change.head_sha:
        raise AnswerError(reply_no_change(change.head_sha, against or change.base_ref))
    return change


def _of_pull(hearing: Hearing, against: str | None) -> Change:
    number = hearing.text.place.number
    pull = hearing.github.pulls.get(number)
    check_head(hearing, pull, hearing.text.commit_sha)
    compared = hearing.github.git.compare(against or pull.base_branch, pull.head_sha)
    if compared is None:
        raise AnswerError(reply_no_comparison(against or pull.base_branch, pull.head_sha))
    base_sha = compared.merge_base_sha if against is None else compared.base_sha
    return Change(f"pull-{number}", pull.base_branch, base_sha, pull.head_sha)


def _of_branch(hearing: Hearing, verb: Verb, against: str | None) -> Change:
    if against is None:
        raise AnswerError(reply_no_pull(verb))
    branch, head_sha = base(hearing)
    compared = hearing.github.git.compare(against, head_sha)
    if compared is None:
        raise AnswerError(reply_no_comparison(against, head_sha))
    return Change(f"issue-{hearing.text.place.number}", branch, compared.base_sha, head_sha)


def _check_reference(hearing: Hearing, against: str) -> None:
    # By its id, or by the name that GitHub gives to every pull request's head, a fork's commit can be reached as well.
    anywhere = SHA.fullmatch(against.lower()) is not None or against.lower().startswith(("pull/", "refs/"))
    if anywhere and isinstance(hearing.may_decide(), Refused):
        cure = "Name a branch or a tag, or let somebody with write permission give this command."
        message = f"`{against}` may be a commit of a fork, whose code runs only when a maintainer asks for it"
        raise AnswerError(reply_failure(Failure(FailureCode.forbidden, message, cure)))
