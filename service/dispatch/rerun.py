"""The re-run button of a check run: the same as ``/kernel retry``."""

from __future__ import annotations

from service.dispatch.desk import Desk
from service.dispatch.hearing import hear, is_person
from service.dispatch.payloads import Place, Rerequest, Text
from service.dispatch.problem import AnswerError
from service.dispatch.verbs import STOPPED, fresh_start, retry_job
from service.permissions import Refused
from service.publisher.check_run import job_id_of


def carry_out_rerequest(desk: Desk, rerequest: Rerequest) -> str:
    """Have the job of a check run go on, where it stopped and the person may say so."""
    job_id = job_id_of(rerequest.external_id)
    job = desk.inbox.get_job(job_id) if job_id is not None else None
    if job is None or job.request.origin.repository.lower() != rerequest.repository.lower():
        return "no job of ours"
    if job.state not in STOPPED:
        return "the job did not stop"
    place = Place(rerequest.repository, job.request.origin.number, False, rerequest.installation_id)
    text = Text(place, rerequest.actor, f"check-{job_id}", "", None, None, "", "")
    if not is_person(desk, text):
        return "not from a person"
    hearing = hear(desk, desk.client(place.repository, place.installation_id), text)
    if isinstance(hearing.may_command(), Refused):
        return "no permission"
    try:
        done = retry_job(hearing, job, fresh_start(hearing, job))
    except AnswerError:
        return "the branch to start from is gone"
    return "retried" if done else "the job did not stop"
