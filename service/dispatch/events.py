"""From an event to what is done: comments, reviews, pushes, closed pull requests, and a check run's buttons."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import structlog

from service.commands.command import Command, ParsedComment
from service.commands.parser import may_hold_command, parse_comment
from service.dispatch.bisecting import bisect
from service.dispatch.context import CommandContext, GivenDecision, context_of, decide, is_person, moment, reply_once
from service.dispatch.desk import Desk
from service.dispatch.payloads import (
    EventPlace,
    MalformedPayloadError,
    Payload,
    PullEvent,
    Rerequest,
    Sender,
    SubmittedReview,
    WrittenText,
    comment_text,
    line_text,
    moved_of,
    opening_text,
    pull_event_of,
    rerequest_of,
    review_of,
)
from service.dispatch.schedule import renamed
from service.dispatch.starting import (
    AnswerError,
    create,
    fuse,
    is_own,
    measure,
    measure_again,
    modify,
    nightly,
    optimize,
    port,
)
from service.dispatch.verbs import (
    ACTIVE,
    STOPPED,
    approve,
    cancel,
    explain,
    fresh_start,
    help_,
    retry,
    retry_job,
    revise,
    status,
    triaged,
)
from service.escape import code
from service.github.client import GitHubClient
from service.github.errors import ConflictError, ForbiddenError, MissingError
from service.permissions import DECIDING, Refused
from service.publisher.commits import APPROVE, CANCEL, REVISE, job_id_of
from service.report.replies import reply_command_errors, reply_decision, reply_no_permission, reply_secret
from workers.contracts import Decision, DecisionOutcome, JobState, JobView, Verb
from workers.inbox import NewDelivery
from workers.redaction import secret_in

log = structlog.get_logger(__name__)

ON_BASE = (Verb.create, Verb.fuse)  # start from the base branch wherever they are asked for
VERBS: dict[Verb, Callable[[CommandContext, Command], str | None]] = {
    Verb.create: create,
    Verb.optimize: optimize,
    Verb.modify: modify,
    Verb.port: port,
    Verb.fuse: fuse,
    Verb.tune: optimize,
    Verb.profile: optimize,
    Verb.bench: measure,
    Verb.verify: measure,
    Verb.nightly: nightly,
    Verb.bisect: bisect,
    Verb.triaged: triaged,
    Verb.explain: explain,
    Verb.status: status,
    Verb.cancel: cancel,
    Verb.retry: retry,
    Verb.approve: approve,
    Verb.revise: revise,
    Verb.help: help_,
}


def carry_out(desk: Desk, text: WrittenText, *, decided: bool = False) -> str:
    """Carry out every command of a text; ``decided``: it is a review that decides already, so approve and revise are left out."""
    parsed = parse_comment(text.body, text.previous_body, host=desk.html_host)
    if not parsed.commands and not parsed.errors:
        return NO_COMMAND
    if not is_person(desk, text):
        return "not from a person"
    github = desk.client(text.place.repository, text.place.installation_id)
    context = context_of(desk, github, text)
    refused = context.may_command()
    if isinstance(refused, Refused) and refused.silent:
        log.info("command_not_answered", by=text.actor.login, reason=refused.reason.value)
        return refused.reason.value
    _acknowledge(github, text)
    answers = _answers(context, parsed, decided=decided)
    reply_once(desk, github, text, answers)
    return f"{len(parsed.commands)} commands, {len(parsed.errors)} errors, {len(answers)} answers"


def _answers(context: CommandContext, parsed: ParsedComment, *, decided: bool) -> tuple[str, ...]:
    login = context.text.actor.login
    commands = [command for command in parsed.commands if not (decided and command.verb in DECIDING)]
    if isinstance(context.may_command(), Refused):
        return (reply_no_permission(login, context.permission),)
    if (secret := secret_in(context.text.body)) is not None:
        kind, line = secret
        log.warning("secret_in_command", kind=kind, by=login, source=context.text.source, line=line)
        return (reply_secret(kind, f"Line {line}"),)
    answers = [reply_command_errors(parsed.errors)] if parsed.errors else []
    for command in commands:
        log.info("command", verb=command.verb.value, by=login, source=context.text.source, line=command.line)
        if command.verb in DECIDING and isinstance(context.may_decide(), Refused):
            answer: str | None = reply_no_permission(login, context.permission, decides=True)
        else:
            answer = VERBS[command.verb](context, command)
        if answer is not None:
            answers.append(answer)
    return tuple(dict.fromkeys(answers))


def _acknowledge(github: GitHubClient, text: WrittenText) -> None:
    try:
        if text.comment_id is not None:
            github.conversation.react_to_comment(text.comment_id, "eyes")
        elif text.can_react:
            github.conversation.react_to_issue(text.place.number, "eyes")
    except (MissingError, ForbiddenError, ConflictError) as error:
        # A reaction is a courtesy: a comment that was deleted, or a locked conversation, is no reason to stop.
        log.info("not_acknowledged", error=str(error))


REVIEW_DECISIONS = {"approved": Decision.approve, "changes_requested": Decision.revise}


def carry_out_review(desk: Desk, review: SubmittedReview) -> str:
    """Decide with a review, and carry out the commands in it."""
    decision = REVIEW_DECISIONS.get(review.state)
    job = _job(desk, review)
    if decision is None or job is None or not is_person(desk, review.text):
        return carry_out(desk, review.text)
    outcome = _decide_by_review(desk, review, decision, job)
    return f"{decision.value}: {outcome}; {carry_out(desk, review.text, decided=True)}"


def _decide_by_review(desk: Desk, review: SubmittedReview, decision: Decision, job: JobView) -> str:
    text = review.text
    github = desk.client(text.place.repository, text.place.installation_id)
    context = context_of(desk, github, text)
    refused = context.may_decide()
    if isinstance(refused, Refused):
        if job.state is JobState.waiting and not refused.silent:
            reply_once(desk, github, text, (reply_no_permission(text.actor.login, context.permission, decides=True),))
        return "no permission"
    lines = github.pulls.review_comments(text.place.number, review.review_id) if decision is Decision.revise else ()
    secret = secret_in("\n".join((text.body, *(line.body for line in lines))))
    if secret is not None:
        log.warning("secret_in_command", kind=secret[0], by=text.actor.login, source=text.source)
        reply_once(desk, github, text, (reply_secret(secret[0], "This review"),))
        return "holds a secret"
    key = f"{text.place.repository}#{text.source}"
    given = GivenDecision(key, decision, review.commit_sha, text.actor.login, text.given_at, text.body, lines)
    result = decide(desk, job, given)
    # A review that was accepted is seen in the status comment; one of a pull request that is finished is for people.
    silent = result.outcome is DecisionOutcome.accepted or (
        result.outcome is DecisionOutcome.nothing_waits and job.state is JobState.done
    )
    answer = None if silent else reply_decision(result, decision, review.commit_sha, job)
    reply_once(desk, github, text, () if answer is None else (answer,))
    return result.outcome.value


def _job(desk: Desk, review: SubmittedReview) -> JobView | None:
    place = review.text.place
    jobs = desk.inbox.find_jobs(place.repository, pull_number=place.number)
    return next((job for job in jobs if job.state is JobState.waiting), jobs[-1] if jobs else None)


MEASURING = (Verb.bench, Verb.verify)
PUSHER = "a push to the pull request"


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
        context = _as_asked(desk, job, place)
        again = is_own(context, pull) and not isinstance(context.may_command(), Refused)
        moved = f"the pull request moved on to {code(pull.head_sha[:12])}"
        follows = "It is measured anew" if again else f"`/kernel {job.request.verb.value}` looks at that one"
        if not desk.inbox.cancel(job.job_id, PUSHER, f"{moved}. {follows}"):
            continue
        log.info("job_superseded", job_id=job.job_id, head_sha=pull.head_sha, again=again)
        if again and (refused := measure_again(context, job, f"{job.request.key}@{pull.head_sha}")) is not None:
            log.info("not_measured_again", job_id=job.job_id, reason=refused)
            _not_again(context, refused)
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


def _asked_there(desk: Desk, place: EventPlace) -> tuple[JobView, ...]:
    """The active jobs whose kernels are those of the pull request's head."""
    jobs = desk.inbox.find_jobs(place.repository, number=place.number, active=True)
    return tuple(job for job in jobs if job.request.origin.is_pull and job.request.verb not in ON_BASE)


def _of_pull(desk: Desk, place: EventPlace) -> tuple[JobView, ...]:
    return desk.inbox.find_jobs(place.repository, active=True, pull_number=place.number)


def _as_asked(desk: Desk, job: JobView, place: EventPlace) -> CommandContext:
    """The context of a command by whoever asked for the job, with what they may do now."""
    asked = job.request.origin
    text = WrittenText(
        place, Sender(asked.author, "User"), f"job-{job.job_id}", "", None, asked.comment_id, asked.url, ""
    )
    return context_of(desk, desk.client(place.repository, place.installation_id), text)


BUTTON_DECISIONS = {APPROVE: Decision.approve, REVISE: Decision.revise}


def carry_out_rerequest(desk: Desk, rerequest: Rerequest) -> str:
    """Do what the pressed button says, where the person may say so."""
    job_id = job_id_of(rerequest.external_id)
    job = desk.inbox.get_job(job_id) if job_id is not None else None
    if job is None or job.request.origin.repository.lower() != rerequest.repository.lower():
        return "no job of ours"
    asked = job.request.origin
    place = EventPlace(rerequest.repository, asked.number, asked.is_pull, rerequest.installation_id)
    # A comparison, or a job on a fork's head, begins anew on the commit that the check run stands on: what was pushed since, nobody
    # has asked for.
    seen = rerequest.head_sha if job.request.verb in MEASURING or job.request.read_only else ""
    text = WrittenText(place, rerequest.actor, f"check-{job_id}", "", None, None, asked.url, "", commit_sha=seen)
    if not is_person(desk, text):
        return "not from a person"
    context = context_of(desk, desk.client(place.repository, place.installation_id), text)
    if isinstance(context.may_command(), Refused):
        return "no permission"
    verb, _, bound = rerequest.button.partition("/")
    if verb in BUTTON_DECISIONS:
        return _decide_by_button(context, job, BUTTON_DECISIONS[verb], bound, rerequest.head_sha)
    if verb == CANCEL:
        return "cancelled" if desk.inbox.cancel(job.job_id, rerequest.actor.login) else "the job has ended"
    return _again(context, job)


def _decide_by_button(context: CommandContext, job: JobView, decision: Decision, bound: str, sha: str) -> str:
    if isinstance(context.may_decide(), Refused):
        return "no permission"
    waits = job.checkpoint
    if job.state is not JobState.waiting or waits is None or bound != f"{waits.stage.value}/{waits.attempt}":
        return "that checkpoint does not wait"
    given = GivenDecision(f"{job.job_id}/{decision.value}/{bound}", decision, sha, context.text.actor.login, "")
    return decide(context.desk, job, given).outcome.value


def _again(context: CommandContext, job: JobView) -> str:
    if job.state is JobState.done and job.request.verb in MEASURING:
        known = context.desk.inbox.find_jobs(job.request.origin.repository, number=job.request.origin.number)
        same = [other for other in known if other.request.key.startswith(f"{job.request.key}+")]
        if any(other.state in ACTIVE for other in same):
            return "it is measured again already"
        refused = measure_again(context, job, f"{job.request.key}+{len(same) + 1}")
        return "measured again" if refused is None else _not_again(context, refused)
    if job.state not in STOPPED:
        return "the job did not stop"
    try:
        done = retry_job(context, job, fresh_start(context, job))
    except AnswerError as answer:
        return _not_again(context, answer.text)
    return "retried" if done else "the job did not stop"


def _not_again(context: CommandContext, why: str) -> str:
    """Say in a comment why nothing follows: a check run has no place for it, and a push was not asked with a comment."""
    reply_once(context.desk, context.github, replace(context.text, body=why), (why,))  # once for each reason
    return f"not begun anew: {why}"


Handler = Callable[[Desk, Payload], str]


def _comment(desk: Desk, payload: Payload) -> str:
    text = comment_text(payload)
    written = moment(text.given_at)
    parsed = parse_comment(text.body, host=desk.html_host)
    if text.comment_id is not None and written is not None and (parsed.commands or parsed.errors):
        # What an edit that does not arrive has changed is known by this; the reaction says only that some version was seen.
        heard = json.dumps({"comment": {"body": text.body}}).encode()
        name = unheard_comment(text.comment_id, written)
        desk.inbox.record_deliveries((NewDelivery(name, "issue_comment", heard, ARRIVED),))
    return carry_out(desk, text)


def _opening(desk: Desk, payload: Payload) -> str:
    return carry_out(desk, opening_text(payload))


def _review(desk: Desk, payload: Payload) -> str:
    review = review_of(payload)
    # Nobody can react to a review: whoever reads what was missed sees by this that its delivery arrived.
    desk.inbox.record_deliveries((NewDelivery(unheard_review(review.review_id), "pull_request_review", b"", ARRIVED),))
    return carry_out_review(desk, review)


def _line(desk: Desk, payload: Payload) -> str:
    line = line_text(payload)
    # The first one is a point of its review, which is what decides.
    return carry_out(desk, line.text, decided=not line.is_reply)


ARRIVED = "its delivery arrived"


def unheard_comment(comment_id: int, written: datetime | None = None) -> str:
    """The delivery's id of a version of a comment that is read where its own delivery did not arrive; without a time its prefix."""
    return f"unheard-{comment_id}-" + ("" if written is None else f"{written:%Y%m%d%H%M%S}")


def unheard_review(review_id: int) -> str:
    """The delivery's id of a review that is read where its own delivery did not arrive."""
    return f"unheard-review-{review_id}"


def _rerequest(desk: Desk, payload: Payload) -> str:
    return carry_out_rerequest(desk, rerequest_of(payload))


def _push(desk: Desk, payload: Payload) -> str:
    return carry_out_push(desk, pull_event_of(payload))


def _close(desk: Desk, payload: Payload) -> str:
    event = pull_event_of(payload)
    desk.inbox.pull_closed(event.place.repository, event.place.number, closed=True)
    return carry_out_close(desk, event)


def _reopen(desk: Desk, payload: Payload) -> str:
    place = pull_event_of(payload).place
    desk.inbox.pull_closed(place.repository, place.number, closed=False)
    return "noted"


def _rename(_desk: Desk, payload: Payload) -> str:
    old, new = moved_of(payload)
    renamed(old, new)
    return "noted"


# None: nothing is to be done. That somebody pushed to the bot's branch is seen when the bot wants to commit.
ROUTES: dict[tuple[str, str], Handler | None] = {
    ("issue_comment", "created"): _comment,
    ("issue_comment", "edited"): _comment,
    ("issues", "opened"): _opening,
    ("issues", "edited"): _opening,
    ("pull_request", "opened"): _opening,
    ("pull_request", "edited"): _opening,
    ("pull_request", "synchronize"): _push,
    ("pull_request", "closed"): _close,
    ("pull_request", "reopened"): _reopen,
    ("pull_request_review", "submitted"): _review,
    ("pull_request_review_comment", "created"): _line,
    ("pull_request_review_comment", "edited"): _line,
    ("check_run", "rerequested"): _rerequest,
    ("check_run", "requested_action"): _rerequest,
    ("repository", "renamed"): _rename,
    ("repository", "transferred"): _rename,
    ("installation", "created"): None,
    ("installation_repositories", "added"): None,
}
EVENTS = frozenset(event for (event, _), handler in ROUTES.items() if handler is not None)


def handles(event: str) -> bool:
    """Whether deliveries of an event are kept."""
    return event in EVENTS


def route(event: str, action: str) -> Handler | None:
    """The handler of an event; None where nothing is to be done."""
    return ROUTES.get((event, action))


NOTHING, NO_COMMAND = "nothing to do", "no command"
SETTLED_BYTES = 128_000  # of a payload that is read before it is kept: most of comments have a tenth
READERS: dict[Handler, Callable[[Payload], WrittenText]] = {
    _comment: comment_text,
    _opening: opening_text,
    _line: lambda payload: line_text(payload).text,
}


def read_payload(body: bytes) -> Payload:
    """A payload as an object.

    Raises:
        MalformedPayloadError: it is none.
    """
    try:
        payload: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedPayloadError("it is no JSON") from error
    if not isinstance(payload, dict):
        raise MalformedPayloadError("it is no object")
    return payload


def settled(event: str, body: bytes) -> str | None:
    """What came of a delivery that asks for nothing, such as a comment without a command; None for one that is to be handled.

    Most deliveries are of this kind. To see it costs a small part of what it costs to lease one and to handle it.
    """
    if len(body) > SETTLED_BYTES:
        return None
    try:
        payload = read_payload(body)
        handler = route(event, str(payload.get("action") or ""))
        if handler is None:
            return NOTHING
        read = READERS.get(handler)
        return NO_COMMAND if read is not None and not may_hold_command(read(payload).body) else None
    except MalformedPayloadError:
        return None
