"""The buttons of a check run: approve, run again, cancel."""

from __future__ import annotations

from service.dispatch.decisions import Given, decide
from service.dispatch.desk import Desk
from service.dispatch.hearing import Hearing, hear, is_person
from service.dispatch.measuring import measure_again
from service.dispatch.payloads import Place, Rerequest, Text
from service.dispatch.problem import AnswerError
from service.dispatch.verbs import ACTIVE, STOPPED, fresh_start, retry_job
from service.permissions import Refused
from service.publisher.check_run import APPROVE, CANCEL, REVISE, job_id_of
from workers.contracts import Decision, JobState, JobView, Verb

DECISIONS = {APPROVE: Decision.approve, REVISE: Decision.revise}
MEASURING = (Verb.bench, Verb.verify)


def carry_out_rerequest(desk: Desk, rerequest: Rerequest) -> str:
    """Do what the pressed button says, where the person may say so."""
    job_id = job_id_of(rerequest.external_id)
    job = desk.inbox.get_job(job_id) if job_id is not None else None
    if job is None or job.request.origin.repository.lower() != rerequest.repository.lower():
        return "no job of ours"
    asked = job.request.origin
    place = Place(rerequest.repository, asked.number, asked.is_pull, rerequest.installation_id)
    # A comparison is made once more for the commit that the check run stands on; what was pushed since, nobody has asked for.
    seen = rerequest.head_sha if job.request.verb in MEASURING else ""
    text = Text(place, rerequest.actor, f"check-{job_id}", "", None, None, asked.url, "", commit_sha=seen)
    if not is_person(desk, text):
        return "not from a person"
    hearing = hear(desk, desk.client(place.repository, place.installation_id), text)
    if isinstance(hearing.may_command(), Refused):
        return "no permission"
    verb, _, bound = rerequest.button.partition("/")
    if verb in DECISIONS:
        return _decide(hearing, job, DECISIONS[verb], bound, rerequest.head_sha)
    if verb == CANCEL:
        return "cancelled" if desk.inbox.cancel(job.job_id, rerequest.actor.login) else "the job has ended"
    return _again(hearing, job)


def _decide(hearing: Hearing, job: JobView, decision: Decision, bound: str, sha: str) -> str:
    if isinstance(hearing.may_decide(), Refused):
        return "no permission"
    waits = job.checkpoint
    if job.state is not JobState.waiting or waits is None or bound != f"{waits.stage.value}/{waits.attempt}":
        return "that checkpoint does not wait"
    given = Given(f"{job.job_id}/{decision.value}/{bound}", decision, sha, hearing.text.actor.login, "")
    return decide(hearing.desk.inbox, job, given).outcome.value


def _again(hearing: Hearing, job: JobView) -> str:
    if job.state is JobState.done and job.request.verb in MEASURING:
        known = hearing.desk.inbox.find_jobs(job.request.origin.repository, number=job.request.origin.number)
        same = [other for other in known if other.request.key.startswith(f"{job.request.key}+")]
        if any(other.state in ACTIVE for other in same):
            return "it is measured again already"
        refused = measure_again(hearing, job, f"{job.request.key}+{len(same) + 1}")
        return "measured again" if refused is None else f"not measured again: {refused}"
    if job.state not in STOPPED:
        return "the job did not stop"
    try:
        done = retry_job(hearing, job, fresh_start(hearing, job))
    except AnswerError:
        return "the branch to start from is gone"
    return "retried" if done else "the job did not stop"
