"""The commands that start a job: create, optimize, modify, bench, verify and nightly."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from gpu_runner.contracts import ProblemError, parse_problem
from service.commands.command import Command, CommandError, ErrorCode, GistLink, Permalink, is_relative_path
from service.commands.grammar import SHA
from service.commands.parser import resolve_problem
from service.commands.values import model_name
from service.dispatch.context import SLACK, CommandContext
from service.github.client import GitHubClient
from service.github.errors import ConflictError, ForbiddenError, MissingError
from service.github.records import PullInfo
from service.permissions import Refused
from service.repo_config import job_options
from service.report.measure import reply_fork_needs_writer, reply_no_change, reply_no_comparison, reply_no_pull
from service.report.replies import (
    reply_command_errors,
    reply_configuration,
    reply_dry_run,
    reply_empty_create,
    reply_failure,
    reply_known,
    reply_limit,
    reply_moved,
    reply_secret,
    reply_unreadable_link,
    reply_words_without_model,
)
from workers.contracts import (
    Failure,
    FailureCode,
    JobOptions,
    JobRequest,
    JobView,
    Origin,
    ProblemKind,
    ProblemText,
    Verb,
)
from workers.redaction import secret_in

READING = frozenset({"read", "triage", "write", "maintain", "admin"})


class AnswerError(Exception):
    """A command that is not accepted; the text is the reply."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def find_problem(context: CommandContext, command: Command, ref: str, sha: str) -> ProblemText:
    """The problem, read and checked as far as that is possible without running it; only a create must have one.

    Raises:
        AnswerError: there is none, or it cannot be used.
    """
    name = command.name or ""
    problem = resolve_problem(command, context.text.issue_body)
    _refuse_secret(problem)
    if problem.kind is ProblemKind.missing:
        if command.verb is not Verb.create:
            return problem
        raise AnswerError(reply_empty_create(name))
    asks = context.desk.inbox.has_models()
    if problem.kind is ProblemKind.words and not asks:
        raise AnswerError(reply_words_without_model(name))
    if asks and problem.kind is not ProblemKind.permalink and context.desk.inbox.needs_model(problem):
        return problem
    if problem.kind is ProblemKind.path:
        _check_path(context, problem, ref, sha)
        return problem
    if problem.kind is ProblemKind.permalink and command.permalink is not None:
        problem = _read_permalink(context, problem, command.permalink)
        _refuse_secret(problem)
    if not (asks and context.desk.inbox.needs_model(problem)):
        _check(problem.text)
    return problem


def _refuse_secret(problem: ProblemText) -> None:
    if (secret := secret_in(problem.text)) is not None:
        raise AnswerError(reply_secret(secret[0], f"Line {secret[1]} of the problem"))


def _check(source: str) -> None:
    try:
        parse_problem(source)
    except ProblemError as error:
        failure = Failure(FailureCode.problem, error.message, error.fix, error.line)
        raise AnswerError(reply_failure(failure)) from error


def _check_path(context: CommandContext, problem: ProblemText, ref: str, sha: str) -> None:
    path = problem.path or ""
    try:
        text = context.github.repository.text(path, sha)
    except ConflictError as error:
        raise AnswerError(reply_failure(Failure(FailureCode.problem, str(error), "Name a Python file."))) from error
    if text is None:
        fix = "A path is relative to the repository's root, such as `src/model.py:MLP`."
        raise AnswerError(reply_failure(Failure(FailureCode.problem, f"there is no file `{path}` on `{ref}`", fix)))


def _read_permalink(context: CommandContext, problem: ProblemText, link: Permalink | GistLink) -> ProblemText:
    # The same words for what is not there and for what this person may not see: the bot tells no secrets.
    url = problem.url or ""
    unreadable = AnswerError(reply_unreadable_link(url))
    path = link.path
    try:
        if isinstance(link, GistLink):
            path, source = _gist_file(context, link)
        else:
            github = _reader(context, link)
            source = github.repository.text(path, link.ref) if github is not None else None
    except (MissingError, ForbiddenError) as error:
        raise unreadable from error
    except ConflictError as error:
        raise AnswerError(reply_unreadable_link(url, str(error))) from error
    if source is None:
        raise unreadable
    if link.first_line is not None and link.last_line is not None:
        source = "".join(source.splitlines(keepends=True)[link.first_line - 1 : link.last_line])
    return ProblemText(ProblemKind.permalink, source, path=path, url=url)


def _gist_file(context: CommandContext, link: GistLink) -> tuple[str, str | None]:
    """The name and text of the file that a link to a gist means; no text where the gist has no such file.

    Raises:
        ConflictError: the link names no file, and the gist has several.
    """
    entries = context.github.gists.files(link.gist, link.revision)
    files = tuple(file for file in entries if is_relative_path(file.name))
    if link.path:
        files = tuple(file for file in files if file.name == link.path)
    elif link.anchor:
        files = tuple(file for file in files if _anchor(file.name) == _anchor(link.anchor))
    elif len(files) > 1:
        files = tuple(file for file in files if file.name.endswith(".py"))
    if len(files) > 1:
        raise ConflictError("the gist has several such files: link to one of them")
    return (files[0].name, files[0].text) if files else (link.path, None)


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _reader(context: CommandContext, link: Permalink) -> GitHubClient | None:
    """A client for a repository that the person who asks may read as well; None where that is not so."""
    if link.repository.lower() == context.repository.full_name.lower():
        return context.github
    github = context.github.of(link.repository)
    if not github.repository.info().private:
        return github
    return github if github.repository.permission(context.text.actor.login) in READING else None


ON_HEAD = (
    Verb.optimize,
    Verb.tune,
    Verb.profile,
    Verb.modify,
)  # what a pull request changes is there on its head alone
OPEN = "open"


@dataclass(frozen=True)
class Start:
    """A commit to start from. ``ref`` is the branch that the result goes to; nothing is pushed where it is ``read_only``."""

    ref: str
    sha: str
    read_only: bool = False
    pull: PullInfo | None = None


def start_of(context: CommandContext, verb: Verb, number: int, *, is_pull: bool, bound: str = "") -> Start:
    """Where a job starts that was asked for under an issue or a pull request; ``bound`` is the head that its writer saw.

    Raises:
        AnswerError: there is nothing to start from, or this person may not start from it.
    """
    if not is_pull or verb not in ON_HEAD:
        return Start(*base(context))
    pull = context.github.pulls.get(number)
    if pull.state != OPEN:
        return Start(*base(context))
    check_head(context, pull, bound)
    if is_own(context, pull):
        return Start(pull.head_branch, pull.head_sha, pull=pull)
    # The branch of a fork is nobody's to push to, and pushed to a branch here its code would run with this repository's secrets.
    owner = (pull.head_repository or "unknown").partition("/")[0]
    return Start(f"{owner}:{pull.head_branch}", pull.head_sha, read_only=True, pull=pull)


def base(context: CommandContext) -> tuple[str, str]:
    """The branch that pull requests go to, and its head at this moment.

    Raises:
        AnswerError: there is no such branch.
    """
    configured = context.config.base_branch
    branch = configured or context.repository.default_branch
    sha = context.github.git.head(branch)
    if sha is not None:
        return branch, sha
    if configured is not None:
        fix = "Correct `base_branch`, or leave it out: then it is the default branch."
        raise AnswerError(reply_configuration(None, f"there is no branch `{configured}`", fix))
    raise AnswerError(reply_failure(Failure(FailureCode.layout, "the repository is empty", "Push a first commit.")))


def is_own(context: CommandContext, pull: PullInfo) -> bool:
    """Whether a pull request's branch is in this repository."""
    return (pull.head_repository or "").lower() == context.repository.full_name.lower()


def check_head(context: CommandContext, pull: PullInfo, bound: str) -> None:
    """Make sure that a pull request's head may be run, and is what the person saw; ``bound`` is that commit where it is known.

    Raises:
        AnswerError: it moved, or it is a fork's and the person has no write permission.
    """
    if bound and bound != pull.head_sha:
        raise AnswerError(reply_moved(bound, pull.head_sha))
    if is_own(context, pull):
        return
    if isinstance(context.may_decide(), Refused):
        raise AnswerError(reply_fork_needs_writer(context.text.actor.login))
    # Whoever owns the fork can push after a maintainer has read the code and before the command is heard.
    if not bound and _pushed_since(pull, context.text.given_at):
        raise AnswerError(reply_moved("", pull.head_sha))


def _pushed_since(pull: PullInfo, given_at: str) -> bool:
    if not given_at or pull.head_pushed_at is None:
        return False
    return datetime.fromisoformat(pull.head_pushed_at) > datetime.fromisoformat(given_at) + SLACK


DAY_S = 24 * 3600.0
RAISED = "once the limit is raised"


def limit_reply(context: CommandContext) -> str | None:
    """The answer to a create beyond the limits; None where it is within them."""
    limits, login = context.config.limits, context.text.actor.login
    return (
        _jobs(context)
        or _gpu(context, limits.gpu_minutes_per_day, None, "this repository")
        or _gpu(context, limits.gpu_minutes_per_day_per_person, login, "one person")
    )


def _jobs(context: CommandContext) -> str | None:
    login, now_s = context.text.actor.login.lower(), context.desk.clock()
    most = context.config.limits.jobs_per_day_per_person
    started = context.desk.inbox.submitted_since(context.text.place.repository, now_s - DAY_S)
    own = sorted(at_s for author, at_s in started if author.lower() == login)
    if len(own) < most:
        return None
    again = _in_words(own[len(own) - most] + DAY_S - now_s) if most else RAISED
    return reply_limit("jobs a day for one person", len(own), most, again)


def _gpu(context: CommandContext, most: int, author: str | None, whose: str) -> str | None:
    since = context.desk.clock() - DAY_S
    used = context.desk.inbox.gpu_seconds_since(context.text.place.repository, since, author) / 60
    # Without a GPU nothing is ever used up, so a limit of zero minutes stops nobody there.
    if used < most or used == 0:
        return None
    again = "when a day has passed since they were used" if most else RAISED
    return reply_limit(f"GPU minutes a day for {whose}", round(used), most, again)


def _in_words(wait_s: float) -> str:
    minutes = max(1, round(wait_s / 60))
    return f"in {minutes} minutes" if minutes < 120 else f"in {round(minutes / 60)} hours"


LookOver = Callable[[str, ProblemText, str, JobOptions], str | Failure]
TUNES_PORTS = (Verb.optimize, Verb.tune)  # with a target: they work on the implementation for it
WRITING = (Verb.create, Verb.optimize, Verb.modify, Verb.port, Verb.fuse, Verb.tune)


def create(context: CommandContext, command: Command) -> str | None:
    """Start a new kernel; give the answer where no job is started."""

    return _start(context, command, context.desk.inbox.look_over)


def optimize(context: CommandContext, command: Command) -> str | None:
    """Start to make a kernel faster, to tune or to profile it; give the answer where no job is started."""
    return _start(context, command, context.desk.inbox.look_over_optimize)


def modify(context: CommandContext, command: Command) -> str | None:
    """Start to change a kernel as a person says; give the answer where no job is started."""

    def look_over(name: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
        return context.desk.inbox.look_over_modify(name, command.text, problem, snapshot, options.layout)

    return _start(context, command, look_over)


def port(context: CommandContext, command: Command) -> str | None:
    """Start to port a kernel to a target; give the answer where no job is started."""
    return _start(context, command, context.desk.inbox.look_over_port)


def fuse(context: CommandContext, command: Command) -> str | None:
    """Start to fuse a model; give the answer where no job is started."""

    def look_over(name: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
        return context.desk.inbox.look_over_fuse(name, problem, snapshot, options.layout)

    return _start(context, replace(command, name=model_name(command)), look_over)


def nightly(context: CommandContext, command: Command) -> str | None:
    """Start to measure the default branch, as every night; give the answer where no job is started."""
    key, inbox = context.key(command), context.desk.inbox
    active = inbox.find_jobs(context.text.place.repository, active=True)
    options = job_options(command.options, context.config)
    # Nights on hosts of other architectures go on side by side: their numbers are other series.
    nights = [job for job in active if job.request.verb is Verb.nightly and job.request.options.gpu == options.gpu]
    known = job_of(context, key) or next(iter(nights), None)
    if known is not None:
        return None if known.request.key == key else reply_known(known, context.links(known))
    refused = context.config_reply or limit_reply(context)
    if refused is not None:
        return refused
    try:
        base_ref, base_sha = base(context)
    except AnswerError as answer:
        return answer.text
    request = JobRequest(
        key=key,
        verb=command.verb,
        kernel="nightly",
        origin=origin(context),
        base_ref=base_ref,
        base_sha=base_sha,
        snapshot=context.desk.snapshot(context.github, base_sha),
        problem=ProblemText(ProblemKind.missing),
        options=options,
        kernels=command.names,
    )
    return submit(context, request, dry_run=command.options.dry_run)


def _start(context: CommandContext, command: Command, look_over: LookOver) -> str | None:
    key = context.key(command)
    if job_of(context, key) is not None:
        return None
    known = None if command.name is None else _at_work_on(context, command, command.name)
    if known is not None:
        return reply_known(known, context.links(known))
    refused = context.config_reply or limit_reply(context)
    if refused is not None:
        return refused
    text, verb, options = context.text, command.verb, job_options(command.options, context.config)
    if verb in TUNES_PORTS and options.to is not None:
        verb, options, look_over = Verb.port, replace(options, tuned=True), context.desk.inbox.look_over_port
    try:
        start = start_of(context, command.verb, text.place.number, is_pull=text.place.is_pull, bound=text.commit_sha)
        problem = find_problem(context, command, start.ref, start.sha)
        snapshot = context.desk.snapshot(context.github, start.sha)
        wanted = command.name or _touched(context, command, start, snapshot, options)
    except AnswerError as answer:
        return answer.text
    name = look_over(wanted, problem, snapshot, options)
    if isinstance(name, Failure):
        return reply_failure(name)
    known = _at_work_on(context, command, name)
    if known is not None:
        return reply_known(known, context.links(known))
    request = JobRequest(
        key=key,
        verb=verb,
        kernel=name,
        origin=origin(context),
        base_ref=start.ref,
        base_sha=start.sha,
        snapshot=snapshot,
        problem=problem,
        options=options,
        words=command.text,
        read_only=start.read_only,
    )
    return submit(context, request, dry_run=command.options.dry_run)


def submit(context: CommandContext, request: JobRequest, *, dry_run: bool) -> str | None:
    """Start a job; or, where it is only to be told, say what it would do and may take."""
    inbox = context.desk.inbox
    if dry_run:
        return reply_dry_run(request, inbox.estimate(request))
    inbox.submit(request)
    return None


def _touched(context: CommandContext, command: Command, start: Start, snapshot: str, options: JobOptions) -> str:
    """The kernel that the pull request changes, where the command names none.

    Raises:
        AnswerError: it is no pull request, or touches no kernel or several.
    """
    if start.pull is None:
        error = CommandError(
            ErrorCode.missing_argument, verb=command.verb, about="NAME", line=command.line, raw=command.raw
        )
        raise AnswerError(reply_command_errors((error,)))
    compared = context.github.git.compare(start.pull.base_branch, start.sha)
    if compared is None:
        raise AnswerError(reply_no_comparison(start.pull.base_branch, start.sha))
    before = context.desk.snapshot(context.github, compared.merge_base_sha)
    touched = context.desk.inbox.touched_kernel(before, snapshot, options.layout)
    if isinstance(touched, Failure):
        raise AnswerError(reply_failure(touched))
    return touched


def origin(context: CommandContext) -> Origin:
    """Where a command was given."""
    place, text = context.text.place, context.text
    return Origin(
        repository=place.repository,
        number=place.number,
        author=text.actor.login,
        comment_id=text.comment_id,
        is_pull=place.is_pull,
        url=text.url,
        installation_id=place.installation_id,
    )


def job_of(context: CommandContext, key: str) -> JobView | None:
    """The job that this very command started, when its delivery was handled before."""
    place = context.text.place
    jobs = context.desk.inbox.find_jobs(place.repository, number=place.number)
    return next((job for job in jobs if job.request.key == key), None)


def _at_work_on(context: CommandContext, command: Command, name: str) -> JobView | None:
    """A job that writes the same kernel; what is written under one pull request hinders nobody elsewhere."""
    if command.verb not in WRITING:
        return None
    active = context.desk.inbox.find_jobs(context.text.place.repository, active=True)
    # The job of this very command may have been started in this moment, by another process that handles the same delivery.
    other = [job for job in active if job.request.key != context.key(command)]
    same = [job for job in other if job.request.kernel == name and job.request.verb in WRITING]
    place = context.text.place
    return next(
        (job for job in same if _pull_of(job.request.origin) == (place.number if place.is_pull else None)), None
    )


def _pull_of(asked: Origin) -> int | None:
    return asked.number if asked.is_pull else None


MAX_JOINED = 80  # characters of a job's name, which its branch has too


@dataclass(frozen=True)
class ComparedChange:
    """What is compared: ``head_sha`` with ``base_sha``; ``name`` stands for it where no kernel is named."""

    name: str
    base_ref: str
    base_sha: str
    head_sha: str


def measure(context: CommandContext, command: Command) -> str | None:
    """Start to compare; give the answer where no job is started."""
    key, options = context.key(command), job_options(command.options, context.config)
    return _comparison_start(context, key, command.verb, command.names, options, dry_run=command.options.dry_run)


def measure_again(context: CommandContext, job: JobView, key: str) -> str | None:
    """Start the comparison of a job anew, on the commits that are there now; give the answer where no job is started."""
    return _comparison_start(context, key, job.request.verb, job.request.kernels, job.request.options)


def _comparison_start(
    context: CommandContext, key: str, verb: Verb, names: tuple[str, ...], options: JobOptions, *, dry_run: bool = False
) -> str | None:
    if job_of(context, key) is not None:
        return None
    refused = context.config_reply or limit_reply(context)
    if refused is not None:
        return refused
    try:
        change = _change(context, verb, options.against)
    except AnswerError as answer:
        return answer.text
    joined = ",".join(names)
    desk, github = context.desk, context.github
    request = JobRequest(
        key=key,
        verb=verb,
        kernel=joined if 0 < len(joined) <= MAX_JOINED else change.name,
        origin=origin(context),
        base_ref=change.base_ref,
        base_sha=change.base_sha,
        snapshot=desk.snapshot(github, change.base_sha),
        problem=ProblemText(ProblemKind.missing),
        options=options,
        kernels=names,
        head_sha=change.head_sha,
        head_snapshot=desk.snapshot(github, change.head_sha),
    )
    return submit(context, request, dry_run=dry_run)


def _change(context: CommandContext, verb: Verb, against: str | None) -> ComparedChange:
    if against is not None:
        _check_reference(context, against)
    change = _of_pull(context, against) if context.text.place.is_pull else _of_branch(context, verb, against)
    if change.base_sha == change.head_sha:
        raise AnswerError(reply_no_change(change.head_sha, against or change.base_ref))
    return change


def _of_pull(context: CommandContext, against: str | None) -> ComparedChange:
    number = context.text.place.number
    pull = context.github.pulls.get(number)
    check_head(context, pull, context.text.commit_sha)
    compared = context.github.git.compare(against or pull.base_branch, pull.head_sha)
    if compared is None:
        raise AnswerError(reply_no_comparison(against or pull.base_branch, pull.head_sha))
    base_sha = compared.merge_base_sha if against is None else compared.base_sha
    return ComparedChange(f"pull-{number}", pull.base_branch, base_sha, pull.head_sha)


def _of_branch(context: CommandContext, verb: Verb, against: str | None) -> ComparedChange:
    if against is None:
        raise AnswerError(reply_no_pull(verb))
    branch, head_sha = base(context)
    compared = context.github.git.compare(against, head_sha)
    if compared is None:
        raise AnswerError(reply_no_comparison(against, head_sha))
    return ComparedChange(f"issue-{context.text.place.number}", branch, compared.base_sha, head_sha)


def _check_reference(context: CommandContext, against: str) -> None:
    # By its id, or by the name that GitHub gives to every pull request's head, a fork's commit can be reached as well.
    anywhere = SHA.fullmatch(against.lower()) is not None or against.lower().startswith(("pull/", "refs/"))
    if anywhere and isinstance(context.may_decide(), Refused):
        fix = "Name a branch or a tag, or let somebody with write permission give this command."
        message = f"`{against}` may be a commit of a fork, whose code runs only when a maintainer asks for it"
        raise AnswerError(reply_failure(Failure(FailureCode.forbidden, message, fix)))
