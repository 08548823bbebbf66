"""How an installation is once a job has ended well: there is one of everything, whatever was killed on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from deploy.localhub.conversation import CommentEntry, CommitEntry
from service.report.layout import find_marker
from tests.faults.installation import REPOSITORY, Installation
from workers import inbox
from workers.contracts import JobState, JobView


@dataclass(frozen=True)
class Ending:
    """What a job leaves: the titles of its commits, how many comments and check runs, its attempts, its GPU requests by state."""

    commits: tuple[str, ...]
    comments: int
    checks: int
    stages: tuple[tuple[str, int], ...]
    gpu_requests: dict[str, int]
    has_pictures: bool = True


def assert_one_of_everything(installation: Installation, issue: int, ending: Ending) -> JobView:
    """One job, one comment of each kind, one commit of each purpose, one pull request, and nothing open or lost; give the job."""
    hub, job = installation.hub, installation.ended(JobState.done)
    pull = job.pull_number or 0
    assert hub.pull_numbers(REPOSITORY) == [pull]
    opened = hub.issue(REPOSITORY, pull).pull
    assert opened is not None and not opened.draft
    marks = Counter(
        str(find_marker(entry.body))
        for number in (issue, pull)
        for entry in hub.conversation(REPOSITORY, number)
        if isinstance(entry, CommentEntry) and entry.by.endswith("[bot]")
    )
    assert len(marks) == ending.comments, marks
    assert set(marks.values()) == {1}
    commits = [e.message.splitlines()[0] for e in hub.conversation(REPOSITORY, pull) if isinstance(e, CommitEntry)]
    assert tuple(commits) == ending.commits, commits
    assert sorted(hub.branches(REPOSITORY)) == sorted(
        ["main", job.branch, *(["kernelsmith-assets"] if ending.has_pictures else [])]
    )
    checks = Counter(check.external_id for check in hub.check_runs(REPOSITORY))
    assert set(checks.values()) == {1}
    assert len(checks) == ending.checks, checks
    assert {check.status for check in hub.check_runs(REPOSITORY)} == {"completed"}
    assert [(view.stage.value, view.attempt) for view in job.stages] == list(ending.stages)
    counts = inbox.counts()
    assert counts["gpu_requests"] == ending.gpu_requests
    # Cancelling withdraws what nobody had begun to publish.
    assert set(counts["updates"]) <= {"published", "dropped"}, counts
    assert set(counts["deliveries"]) == {"done"}, counts
    assert hub.errors == []
    assert hub.faults.waiting() == {}
    return job
