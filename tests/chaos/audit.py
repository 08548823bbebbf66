"""What became of each job in the end: what of it was lost, and what is there twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from deploy.localhub.conversation import CommentEntry, CommitEntry
from deploy.localhub.hub import Hub
from service.report.layout import find_marker
from tests.faults.creating import CREATED
from workers import inbox
from workers.contracts import JobState


@dataclass(frozen=True)
class Audit:
    """What is missing and what there is too much of, a few words each."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]


def audit(hub: Hub, repository: str, issue: int) -> Audit:
    """Hold one job against what a job leaves that nobody disturbed."""
    jobs, pulls = inbox.find_jobs(repository), hub.pull_numbers(repository)
    if not jobs:
        return Audit(("the command",), ())
    lost, doubled = _counted({"job": (len(jobs), 1), "pull request": (len(pulls), 1)})
    job = jobs[0]
    if job.state is not JobState.done:
        lost.append(f"the job is {job.state.value}: {job.failure.message if job.failure else 'it did not end'}")
    entries = [entry for number in {issue, *pulls} for entry in hub.conversation(repository, number)]
    comments = [entry for entry in entries if isinstance(entry, CommentEntry) and entry.by.endswith("[bot]")]
    marks = Counter(str(find_marker(entry.body)) for entry in comments)
    checks = Counter(check.external_id for check in hub.check_runs(repository))
    titles = Counter(entry.message.splitlines()[0] for entry in entries if isinstance(entry, CommitEntry))
    asked = Counter(event.text for event in job.timeline if event.kind == "gpu_requested")
    for what, found, expected in (
        ("comment", marks, CREATED.comments),
        ("check run", checks, CREATED.checks),
        ("commit", titles, len(CREATED.commits)),
        ("GPU request", asked, CREATED.gpu_requests["done"]),
    ):
        doubled += [f"{what} {name}" for name, count in found.items() if count > 1]
        missing, more = _counted({f"{what} ({', '.join(sorted(found))})": (len(found), expected)})
        lost, doubled = [*lost, *missing], [*doubled, *more]
    stages = tuple((view.stage.value, view.attempt) for view in job.stages)
    doubled += [f"stage {stage}" for stage, attempt in stages if attempt > 1]
    return Audit(tuple(lost), tuple(doubled))


def _counted(found: dict[str, tuple[int, int]]) -> tuple[list[str], list[str]]:
    lost = [
        f"{expected - count} of {expected}: {what}" for what, (count, expected) in found.items() if count < expected
    ]
    return lost, [f"{count} for {expected}: {what}" for what, (count, expected) in found.items() if count > expected]
