"""Where a command's problem comes from; what cannot be used is answered at once, and leaves nothing behind."""

from __future__ import annotations

from gpu_runner.contracts import ProblemError, parse_problem
from service.commands import Command, Permalink, resolve_problem
from service.dispatch.hearing import Hearing
from service.github import ConflictError, ForbiddenError, GitHubClient, MissingError
from service.report.replies import (
    reply_empty_create,
    reply_failure,
    reply_secret,
    reply_unreadable_link,
    reply_words_without_model,
)
from workers.contracts import Failure, FailureCode, ProblemKind, ProblemText, Verb
from workers.redaction import secret_in

READING = frozenset({"read", "triage", "write", "maintain", "admin"})


class AnswerError(Exception):
    """A command that is not accepted; the text is the reply."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def find_problem(hearing: Hearing, command: Command, ref: str, sha: str) -> ProblemText:
    """Give the problem, read and checked as far as that is possible without running it; only a create must have one.

    Raises:
        AnswerError: there is none, or it cannot be used.
    """
    name = command.name or ""
    problem = resolve_problem(command, hearing.text.issue_body)
    _refuse_secret(problem)
    if problem.kind is ProblemKind.missing:
        if command.verb is not Verb.create:
            return problem
        raise AnswerError(reply_empty_create(name))
    asks = hearing.desk.inbox.has_models()
    if problem.kind is ProblemKind.words and not asks:
        raise AnswerError(reply_words_without_model(name))
    if asks and problem.kind is not ProblemKind.permalink and hearing.desk.inbox.needs_model(problem):
        return problem
    if problem.kind is ProblemKind.path:
        _check_path(hearing, problem, ref, sha)
        return problem
    if problem.kind is ProblemKind.permalink and command.permalink is not None:
        problem = _read_permalink(hearing, problem, command.permalink)
        _refuse_secret(problem)
    if not (asks and hearing.desk.inbox.needs_model(problem)):
        _check(problem.text)
    return problem


def _refuse_secret(problem: ProblemText) -> None:
    if (secret := secret_in(problem.text)) is not None:
        raise AnswerError(reply_secret(secret[0], f"Line {secret[1]} of the problem"))


def _check(source: str) -> None:
    try:
        parse_problem(source)
    except ProblemError as error:
        failure = Failure(FailureCode.problem, error.message, error.cure, error.line)
        raise AnswerError(reply_failure(failure)) from error


def _check_path(hearing: Hearing, problem: ProblemText, ref: str, sha: str) -> None:
    path = problem.path or ""
    try:
        found = hearing.github.repository.text(path, sha)
    except ConflictError as error:
        raise AnswerError(reply_failure(Failure(FailureCode.problem, str(error), "Name a Python file."))) from error
    if found is None:
        cure = "A path is relative to the repository's root, such as `src/model.py:MLP`."
        raise AnswerError(reply_failure(Failure(FailureCode.problem, f"there is no file `{path}` on `{ref}`", cure)))


def _read_permalink(hearing: Hearing, problem: ProblemText, link: Permalink) -> ProblemText:
    # The same words for what is not there and for what this person may not see: the bot tells no secrets.
    url = problem.url or ""
    unreadable = AnswerError(reply_unreadable_link(url))
    try:
        github = _reader(hearing, link)
        source = github.repository.text(link.path, link.ref) if github is not None else None
    except (MissingError, ForbiddenError) as error:
        raise unreadable from error
    except ConflictError as error:
        raise AnswerError(reply_unreadable_link(url, str(error))) from error
    if source is None:
        raise unreadable
    if link.first_line is not None and link.last_line is not None:
        source = "".join(source.splitlines(keepends=True)[link.first_line - 1 : link.last_line])
    return ProblemText(ProblemKind.permalink, source, path=link.path, url=url)


def _reader(hearing: Hearing, link: Permalink) -> GitHubClient | None:
    """Give a client for a repository that the person who asks may read as well; None where that is not so."""
    if link.repository.lower() == hearing.repository.full_name.lower():
        return hearing.github
    github = hearing.github.of(link.repository)
    if not github.repository.info().private:
        return github
    return github if github.repository.permission(hearing.text.actor.login) in READING else None
