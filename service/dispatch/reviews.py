"""A submitted review: a decision where a checkpoint waits, and commands like any other text."""

from __future__ import annotations

import structlog

from service.dispatch.commander import carry_out
from service.dispatch.decisions import Given, decide
from service.dispatch.desk import Desk
from service.dispatch.hearing import hear, is_person
from service.dispatch.payloads import Review
from service.dispatch.replies import reply_once
from service.permissions import Refused
from service.report.replies import reply_decision, reply_no_permission, reply_secret
from workers.contracts import Decision, DecisionOutcome, JobState, JobView
from workers.redaction import secret_in

log = structlog.get_logger(__name__)

DECISIONS = {"approved": Decision.approve, "changes_requested": Decision.revise}
ENDED = (JobState.done, JobState.failed, JobState.cancelled)


def carry_out_review(desk: Desk, review: Review) -> str:
    """Decide with a review, and carry out the commands in it."""
    decision = DECISIONS.get(review.state)
    job = _job(desk, review)
    if decision is None or job is None or not is_person(desk, review.text):
        return carry_out(desk, review.text)
    outcome = _decide(desk, review, decision, job)
    return f"{decision.value}: {outcome}; {carry_out(desk, review.text, decided=True)}"


def _decide(desk: Desk, review: Review, decision: Decision, job: JobView) -> str:
    text = review.text
    github = desk.client(text.place.repository, text.place.installation_id)
    hearing = hear(desk, github, text)
    refused = hearing.may_decide()
    if isinstance(refused, Refused):
        if job.state is JobState.waiting and not refused.silent:
            reply_once(desk, github, text, (reply_no_permission(text.actor.login, hearing.permission, decides=True),))
        return "no permission"
    lines = github.pulls.review_comments(text.place.number, review.review_id) if decision is Decision.revise else ()
    secret = secret_in("\n".join((text.body, *(line.body for line in lines))))
    if secret is not None:
        log.warning("secret_in_command", kind=secret[0], by=text.actor.login, source=text.source)
        reply_once(desk, github, text, (reply_secret(secret[0], "This review"),))
        return "holds a secret"
    key = f"{text.place.repository}#{text.source}"
    given = Given(key, decision, review.commit_sha, text.actor.login, text.given_at, text.body, lines)
    result = decide(desk.inbox, job, given)
    # A review that was accepted is seen in the status comment; one of a pull request that is finished is for people.
    silent = result.outcome is DecisionOutcome.accepted or (
        result.outcome is DecisionOutcome.nothing_waits and job.state in ENDED
    )
    answer = None if silent else reply_decision(result, decision, review.commit_sha, job)
    reply_once(desk, github, text, () if answer is None else (answer,))
    return result.outcome.value


def _job(desk: Desk, review: Review) -> JobView | None:
    place = review.text.place
    jobs = desk.inbox.find_jobs(place.repository, pull_number=place.number)
    return next((job for job in jobs if job.state is JobState.waiting), jobs[-1] if jobs else None)
