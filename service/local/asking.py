"""What a person asks for on the command line, as a job."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace

from service.escape import sentence
from service.local.checkout import Checkout
from service.repo_config import PATH, RepoConfigError, parse_repo_config
from service.report.layout import paragraphs
from service.report.status import details, failed_stage, stopped_line
from workers import artifacts, history, inbox
from workers.contracts import (
    DEFAULT_OPERATORS,
    Failure,
    FailureCode,
    JobOptions,
    JobRequest,
    JobState,
    JobView,
    Origin,
    ProblemKind,
    ProblemText,
    UserFacingError,
    Verb,
    format_scope,
)

LOCAL = "local/"  # before the names of checkouts, where those of GitHub are owner/name
REFUSALS = frozenset(
    {
        FailureCode.problem,
        FailureCode.exists,
        FailureCode.missing,
        FailureCode.name,
        FailureCode.layout,
        FailureCode.refused,
    }
)
# What a comment on GitHub would say, and what stands for it on the command line, in this order.
COMMANDS = (
    ("the GPU host that took this has no GPU", "this machine has no GPU"),
    (
        "Start `kernelsmith work --only gpu` on a host with a GPU; where there are several kinds of hosts, name one with `--gpu`. "
        "Then `/kernel retry`.",
        "Run the same command on a machine with a GPU.",
    ),
    ("`/kernel retry`", "the same command"),
    ("paste it in a fenced Python block below the command", "give one with `--problem`"),
    ("`/kernel create", "`kernelsmith create"),
    ("`/kernel optimize", "`kernelsmith optimize"),
    ("`/kernel modify", "`kernelsmith modify"),
    ("`/kernel port", "`kernelsmith port"),
    ("`/kernel bench", "`kernelsmith compare"),
    ("`/kernel verify", "`kernelsmith compare --verify"),
    ("`/kernel nightly", "`kernelsmith nightly"),
)


def as_commands(text: str) -> str:
    """A text with the commands of this machine for those of a comment."""
    for comment, command in COMMANDS:
        text = text.replace(comment, command)
    return text


def stopped_comment(failure: Failure, job: JobView) -> str:
    """Why a job stopped, what to do about it, and what running the command again will do."""
    head = f"{as_commands(stopped_line(failure, job))}\n**Next:** {_next(failure, job)}"
    return paragraphs(head, details(failure), f"<sub>Job `{job.job_id}`</sub>")


def _next(failure: Failure, job: JobView) -> str:
    fix = as_commands(sentence(failure.fix)) if failure.fix else ""
    if failure.code in REFUSALS or "the same command" in fix:
        return fix
    return f"{fix} The same command resumes from {failed_stage(job)}.".strip()


@dataclass(frozen=True)
class LocalJob:
    """What was asked for on the command line."""

    name: str
    problem: str  # empty where the library's own is known
    options: JobOptions
    fresh: bool = False  # start over instead of going on with the same job
    verb: Verb = Verb.create
    kernels: tuple[str, ...] = ()  # to compare; empty: those that the change touches
    dirty: bool = False  # compare the working tree, not HEAD
    words: str = ""  # modify: what to change
    given: ProblemText | None = None  # a problem that is no block of code, in the place of ``problem``
    base: str | None = None  # the commit to start from; None: HEAD
    head: str | None = None  # the commit to compare; None: HEAD


def configured(checkout: Checkout, commit: str, options: JobOptions) -> JobOptions:
    """Options with what the repository's own configuration says of layout and commit messages.

    Raises:
        UserFacingError: the configuration cannot be read.
    """
    try:
        config = parse_repo_config(checkout.git("show", f"{commit}:{PATH}"))
    except UserFacingError:  # there is none
        return options
    except RepoConfigError as error:
        raise UserFacingError(Failure(FailureCode.problem, f"`{PATH}`: {error}", error.fix, error.line)) from error
    return replace(options, layout=options.layout or config.layout, conventional_commits=config.conventional_commits)


def writing_request(checkout: Checkout, asked: LocalJob) -> JobRequest:
    """The request of a create, an optimize, a modify or a port, which starts from HEAD.

    Raises:
        UserFacingError: it cannot be carried out as it stands.
    """
    head = asked.base or checkout.head()
    options = configured(checkout, head, asked.options)
    digest = artifacts.put(checkout.snapshot(head), "application/gzip")
    block = ProblemText(ProblemKind.block, asked.problem) if asked.problem else ProblemText(ProblemKind.missing)
    problem = asked.given or block
    if asked.verb is Verb.modify:
        name = inbox.look_over_modify(asked.name, asked.words, problem, digest, options.layout)
    elif asked.verb is Verb.port:
        name = inbox.look_over_port(asked.name, problem, digest, options)
    elif asked.verb is Verb.optimize:
        name = inbox.look_over_optimize(asked.name, problem, digest, options)
    else:
        name = inbox.look_over(asked.name, problem, digest, options)
    if isinstance(name, Failure):
        raise UserFacingError(replace(name, fix=as_commands(name.fix) if name.fix else None))
    parts = [head, name, asked.problem, options.layout or "", options.author.value]
    if asked.given is not None:
        parts += [asked.given.kind.value, asked.given.text, asked.given.path or "", asked.given.symbol or ""]
    if asked.verb is Verb.create and searching(options) != searching(JobOptions()):
        parts += searching(options)
    if asked.verb is Verb.optimize:
        parts += [options.goal.value, format_scope(options.scope, options.regime)]
        parts += [str(options.variants), options.target or ""]
    if options.profile:
        parts += ["profile"]
    if asked.verb is Verb.port or options.to is not None:
        parts += [options.to or ""]
    if options.ported_from != DEFAULT_OPERATORS:
        parts += ["from", options.ported_from]
    if options.tuned:
        parts += ["tuned"]
    if asked.verb is Verb.modify:
        parts += [asked.words, str(options.candidates), str(options.repairs)]
    return JobRequest(
        key=_key(asked, parts),
        verb=asked.verb,
        kernel=name,
        origin=_origin(checkout),
        base_ref=checkout.branch(),
        base_sha=head,
        snapshot=digest,
        problem=problem,
        options=options,
        words=asked.words,
    )


def nightly_request(checkout: Checkout, asked: LocalJob) -> JobRequest:
    """The request of a night on HEAD: the one that was interrupted, or a new one.

    Raises:
        UserFacingError: HEAD lies before the commit that was measured last, so that its numbers would stand in a wrong order.
    """
    head, repository = checkout.head(), repository_name(checkout)
    # The database is this checkout's own: numbers under another folder's name are from before it was renamed.
    for name in history.repositories():
        if name != repository and name.startswith(LOCAL):
            history.rename(name, repository)
    last = history.last_commit(repository, head)
    if last is not None and checkout.resolve(last) and checkout.merge_base(last, head) == head:
        fix = f"Check a later commit out, or compare the two: kernelsmith compare --against {last[:12]}"
        message = f"HEAD lies before {last[:12]}, which was measured already"
        raise UserFacingError(Failure(FailureCode.problem, message, fix))
    nights = [job.request for job in inbox.find_jobs(repository) if _goes_on(job, head, asked)]
    return (
        nights[-1]
        if nights and not asked.fresh
        else JobRequest(
            key=_key(asked, [head, *asked.kernels, str(time.time_ns())]),
            verb=asked.verb,
            kernel=asked.name,
            origin=_origin(checkout),
            base_ref=checkout.branch(),
            base_sha=head,
            snapshot=artifacts.put(checkout.snapshot(head), "application/gzip"),
            problem=ProblemText(ProblemKind.missing),
            options=asked.options,
            kernels=asked.kernels,
        )
    )


def _goes_on(job: JobView, head: str, asked: LocalJob) -> bool:
    request = job.request
    same = (request.verb, request.base_sha, request.kernels, request.options) == (
        asked.verb,
        head,
        asked.kernels,
        asked.options,
    )
    return same and job.state is not JobState.done


def searching(options: JobOptions) -> list[str]:
    """What the options say about the search of a model."""
    return [str(options.candidates), str(options.repairs), options.choose.value]


def comparing_request(checkout: Checkout, asked: LocalJob) -> JobRequest:
    """The request of a bench or a verify: HEAD, or the working tree, against its merge base with a reference.

    Raises:
        UserFacingError: there is no such reference, or nothing differs.
    """
    against = asked.options.against or "main"
    head = asked.head or (checkout.working_tree() if asked.dirty else checkout.head())
    base = checkout.merge_base(against, asked.head or checkout.head())
    if base == head and asked.head is None:  # a search holds its good commit against itself
        fix = "Name an older commit with --against, or compare the working tree with --dirty."
        raise UserFacingError(Failure(FailureCode.problem, f"HEAD is contained in {against}", fix))
    return JobRequest(
        key=_key(asked, [base, head, *asked.kernels]),
        verb=asked.verb,
        kernel=asked.name,
        origin=_origin(checkout),
        base_ref=against,
        base_sha=base,
        snapshot=artifacts.put(checkout.snapshot(base), "application/gzip"),
        problem=ProblemText(ProblemKind.missing),
        options=asked.options,
        kernels=asked.kernels,
        head_sha=head,
        head_snapshot=artifacts.put(checkout.snapshot(head), "application/gzip"),
    )


def _key(asked: LocalJob, parts: list[str]) -> str:
    # What would be asked for differently is another job; with --auto or without, it is the same one.
    words = [
        *parts,
        asked.verb.value if asked.verb is not Verb.create else "",
        str(time.time_ns()) if asked.fresh else "",
    ]
    return f"local:{hashlib.sha256(chr(0).join(words).encode()).hexdigest()}"


def _origin(checkout: Checkout) -> Origin:
    return Origin(repository_name(checkout), 0, "local")


def repository_name(checkout: Checkout) -> str:
    """The name that a checkout has where GitHub's are owner/name."""
    return f"{LOCAL}{checkout.folder.name}"
