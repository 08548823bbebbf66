"""Carries out the commands that a person wrote, and answers once what needs an answer."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from service.commands import Command, ParsedComment, parse_comment
from service.dispatch.desk import Desk
from service.dispatch.hearing import Hearing, hear, is_person
from service.dispatch.measuring import measure
from service.dispatch.payloads import Text
from service.dispatch.replies import reply_once
from service.dispatch.starting import create, modify, nightly, optimize
from service.dispatch.triaging import triaged
from service.dispatch.verbs import approve, cancel, help_, retry, revise, status
from service.github import ConflictError, ForbiddenError, GitHubClient, MissingError
from service.permissions import DECIDING, Refused
from service.report.replies import reply_command_errors, reply_no_permission, reply_secret
from workers.contracts import Verb
from workers.redaction import secret_in

log = structlog.get_logger(__name__)

VERBS: dict[Verb, Callable[[Hearing, Command], str | None]] = {
    Verb.create: create,
    Verb.optimize: optimize,
    Verb.modify: modify,
    Verb.tune: optimize,
    Verb.profile: optimize,
    Verb.bench: measure,
    Verb.verify: measure,
    Verb.nightly: nightly,
    Verb.triaged: triaged,
    Verb.status: status,
    Verb.cancel: cancel,
    Verb.retry: retry,
    Verb.approve: approve,
    Verb.revise: revise,
    Verb.help: help_,
}


def carry_out(desk: Desk, text: Text, *, decided: bool = False) -> str:
    """Carry out every command of a text; ``decided``: it is a review that decides already, so approve and revise are left out."""
    parsed = parse_comment(text.body, text.previous_body, host=desk.html_host)
    if not parsed.commands and not parsed.errors:
        return "no command"
    if not is_person(desk, text):
        return "not from a person"
    github = desk.client(text.place.repository, text.place.installation_id)
    hearing = hear(desk, github, text)
    refused = hearing.may_command()
    if isinstance(refused, Refused) and refused.silent:
        log.info("command_not_answered", by=text.actor.login, reason=refused.reason.value)
        return refused.reason.value
    _acknowledge(github, text)
    answers = _answers(hearing, parsed, decided=decided)
    reply_once(desk, github, text, answers)
    return f"{len(parsed.commands)} commands, {len(parsed.errors)} errors, {len(answers)} answers"


def _answers(hearing: Hearing, parsed: ParsedComment, *, decided: bool) -> tuple[str, ...]:
    login = hearing.text.actor.login
    commands = [command for command in parsed.commands if not (decided and command.verb in DECIDING)]
    if isinstance(hearing.may_command(), Refused):
        return (reply_no_permission(login, hearing.permission),)
    if (secret := secret_in(hearing.text.body)) is not None:
        kind, line = secret
        log.warning("secret_in_command", kind=kind, by=login, source=hearing.text.source, line=line)
        return (reply_secret(kind, f"Line {line}"),)
    answers = [reply_command_errors(parsed.errors)] if parsed.errors else []
    for command in commands:
        log.info("command", verb=command.verb.value, by=login, source=hearing.text.source, line=command.line)
        if command.verb in DECIDING and isinstance(hearing.may_decide(), Refused):
            answer: str | None = reply_no_permission(login, hearing.permission, decides=True)
        else:
            answer = VERBS[command.verb](hearing, command)
        if answer is not None:
            answers.append(answer)
    return tuple(dict.fromkeys(answers))


def _acknowledge(github: GitHubClient, text: Text) -> None:
    try:
        if text.comment_id is not None:
            github.conversation.react_to_comment(text.comment_id, "eyes")
        elif text.can_react:
            github.conversation.react_to_issue(text.place.number, "eyes")
    except (MissingError, ForbiddenError, ConflictError) as error:
        # A reaction is a courtesy: a comment that was deleted, or a locked conversation, is no reason to stop.
        log.info("not_acknowledged", error=str(error))
