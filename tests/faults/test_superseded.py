"""A push to a benched pull request, or its end, whatever its job is at: that job ends, and nothing is doubled."""

from __future__ import annotations

import pytest

from deploy.localhub.conversation import CommentEntry
from service.report.layout import MessageKind, find_marker
from tests.faults.installation import ENDED, REPOSITORY, Installation
from tests.faults.processes import until
from tests.workers.stages import library
from workers import inbox
from workers.contracts import JobState

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(900)]

PLACES = ["stage_claimed", "memo_computed", "gpu_requested", "gpu_claimed", "runner.benchmark", "gpu_ran", "stage_ran"]


def push(installation: Installation, text: str) -> str:
    change = {library.PATH: library.GEGLU.encode() + f"# {text}\n".encode()}
    return installation.hub.push(REPOSITORY, "faster", "maintainer", change, text)


def benched(installation: Installation, place: str) -> int:
    """Ask for a bench of a pull request, and wait until it is at a place."""
    push(installation, "one way")
    number = installation.hub.open_pull(REPOSITORY, "maintainer", "faster", "Faster").number
    installation.ready()
    installation.pause(place)
    installation.say(number, "/kernel bench geglu")
    installation.paused(place)
    return number


def kinds(installation: Installation, number: int) -> list[tuple[str, str]]:
    """Each comment of the bot by job and kind."""
    found = []
    for entry in installation.hub.conversation(REPOSITORY, number):
        mark = find_marker(entry.body) if isinstance(entry, CommentEntry) else None
        if mark is not None:
            found.append((mark.job_id, mark.kind.value))
    return sorted(found)


def all_told(installation: Installation) -> bool:
    """Whether every job has ended and nothing is left to be said."""
    jobs = inbox.find_jobs(REPOSITORY)
    return bool(jobs) and all(job.state in ENDED for job in jobs) and not installation.busy()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.long  # in `make test` tests/service/io/test_pull_events has pushes, without processes
def test_a_push_ends_the_job_of_the_old_head_wherever_it_is(standing: Installation, place: str) -> None:
    number = benched(standing, place)
    new = push(standing, "another way")
    until(lambda: len(inbox.find_jobs(REPOSITORY)) == 2, "the new head to be measured", standing.story)
    standing.release(place)
    until(lambda: all_told(standing), "both jobs to end", standing.story)
    old, again = inbox.find_jobs(REPOSITORY)
    assert (old.state, again.state, again.request.head_sha) == (JobState.cancelled, JobState.done, new)
    assert kinds(standing, number) == sorted(
        (job.job_id, kind.value) for job in (old, again) for kind in (MessageKind.status, MessageKind.report)
    )
    assert not inbox.counts()["gpu_requests"].get("running")


@pytest.mark.long  # in `make test` tests/service/io/test_pull_events closes one, without processes
@pytest.mark.parametrize("place", PLACES)
def test_a_pull_request_that_is_closed_ends_its_job_wherever_it_is(standing: Installation, place: str) -> None:
    number = benched(standing, place)
    standing.hub.set_issue_state(REPOSITORY, number, "maintainer", "closed")
    until(lambda: inbox.find_jobs(REPOSITORY)[0].state is JobState.cancelled, "the job to end", standing.story)
    standing.release(place)
    until(lambda: all_told(standing), "all to be told", standing.story)
    (job,) = inbox.find_jobs(REPOSITORY)
    assert kinds(standing, number) == sorted(
        (job.job_id, kind.value) for kind in (MessageKind.status, MessageKind.report)
    )
    assert not inbox.counts()["gpu_requests"].get("running")
