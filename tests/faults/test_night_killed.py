"""Whatever is killed in the middle of a night: no number is lost or kept twice, and each issue and report is told once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.localhub.conversation import CommentEntry
from gpu_runner.contracts import to_json
from service.report.layout import find_marker
from tests.conversations.test_nightly import GEGLU, HOST, measured
from tests.faults.conftest import installed
from tests.faults.installation import ENDED, REPOSITORY, Installation
from tests.faults.processes import parent_of, until
from tests.recorded.libraries import LIGER
from tests.service.report.facts import VERDICT
from workers import inbox
from workers.contracts import JobState
from workers.runtime import current
from workers.store import history

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(900)]

NIGHTS = 2
# Of a night: what the host is, the verdict, the times; of the last one three runs of both commits, too.
ASKED = {"doctor": NIGHTS, "verify": NIGHTS, "benchmark": NIGHTS + 3}


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[tuple[Installation, int]]:
    """An installation whose kernel was measured in a quiet night, and the issue of the nights."""
    with ExitStack() as stack:
        installation = stack.enter_context(installed(tmp_path, LIGER))
        number = installation.hub.open_issue(REPOSITORY, "maintainer", "The nights are here.").number
        installation.ready()
        for night in range(NIGHTS - 1):
            begin(installation, number, night, 200.0)
            all_told(installation, night + 1)
        yield installation, number


def begin(installation: Installation, number: int, night: int, times_us: float) -> None:
    """Push a commit whose kernel takes so long, and ask for its night."""
    for action, answer in {"doctor": HOST, "verify": VERDICT, "benchmark": measured(times_us)}.items():
        (installation.desk / "answers" / f"{action}-always.json").write_text(json.dumps(to_json(answer)))
    if night:
        changed = LIGER[GEGLU] + f"# night {night}\n".encode()
        installation.hub.push(REPOSITORY, "main", "maintainer", {GEGLU: changed})
    installation.say(number, "/kernel nightly geglu")


def all_told(installation: Installation, jobs: int) -> None:
    def told() -> bool:
        found = inbox.find_jobs(REPOSITORY)
        assert len(found) <= jobs
        ended = len(found) == jobs and all(job.state in ENDED for job in found)
        return ended and not installation.busy()

    until(told, f"{jobs} nights to be told", lambda: str(inbox.counts()))
    assert {job.state for job in inbox.find_jobs(REPOSITORY)} == {JobState.done}


def assert_told_once(installation: Installation, number: int) -> None:
    """Assert that each series has a number of each night, and that there is one issue and one report a night."""
    all_told(installation, NIGHTS)
    with current().database.read() as session:
        series = list(history.own_series(session, REPOSITORY, "geglu"))
    assert {key.metric.value for key, _, _ in series} == {"time_us", "peak_bytes", "wrong_values"}
    for key, points, changes in series:
        assert len({point.revision for point in points}) == len(points) == NIGHTS, key
        wanted = ["confirmed"] if key.metric == "time_us" else []
        assert [change.state.value for change in changes] == wanted, key
    (issue,) = (one for one in installation.hub.world.repository(REPOSITORY).issues.values() if one.number != number)
    assert (issue.title, issue.state) == ("geglu became slower on NVIDIA H200", "open")
    assert not [one for one in installation.hub.conversation(REPOSITORY, issue.number) if isinstance(one, CommentEntry)]
    marks = Counter(
        str(find_marker(entry.body))
        for entry in installation.hub.conversation(REPOSITORY, number)
        if isinstance(entry, CommentEntry) and entry.by.endswith("[bot]")
    )
    assert set(marks.values()) == {1}
    assert len([mark for mark in marks if "report" in mark]) == NIGHTS, marks
    done = Counter(
        event.text.split(":")[0]
        for job in inbox.find_jobs(REPOSITORY)
        for event in job.timeline
        if event.kind == "gpu_requested"
    )
    assert done == ASKED
    assert installation.hub.errors == []
    assert installation.hub.faults.waiting() == {}


# In `make test` the runner and both kinds of its workers are killed in each action of a create: test_killed.
@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "victim"),
    [
        ("runner.verify", "worker"),
        ("runner.benchmark", "pool process"),
        ("memo_kept", "worker"),
        ("memo_computed", "pool process"),
        ("gpu_ran", "pool process"),
        ("stage_ran", "worker"),
    ],
)
def test_a_worker_is_killed_at_any_place_of_a_night(nights: tuple[Installation, int], place: str, victim: str) -> None:
    installation, number = nights
    installation.pause(place)
    begin(installation, number, NIGHTS - 1, 220.0)
    pid = installation.paused(place)
    pid = parent_of(pid) if place.startswith("runner.") else pid
    installation.kill(parent_of(pid) if victim == "worker" else pid, f"{victim} at {place}")
    installation.release(place)
    assert_told_once(installation, number)


@pytest.mark.long  # in `make test` tests/workers/stages/test_nightly cuts a night off
@pytest.mark.parametrize("run", [1, 2, 3])
def test_the_service_and_all_workers_are_killed_while_a_regression_is_confirmed(
    nights: tuple[Installation, int], run: int
) -> None:
    installation, number = nights
    installation.pause("runner.benchmark")
    begin(installation, number, NIGHTS - 1, 220.0)
    for _ in range(run):
        pid = installation.paused("runner.benchmark")
        installation.pause("gpu_answered")
        installation.release("runner.benchmark")
        installation.paused("gpu_answered")
        installation.pause("runner.benchmark")
        installation.release("gpu_answered")
    pid = installation.paused("runner.benchmark")
    assert pid
    installation.kill_service()
    installation.release("runner.benchmark")
    assert_told_once(installation, number)


@pytest.mark.parametrize("operations", ["create_issue", "create_git_commit", "update_issue_comment, list_issues"])
@pytest.mark.long  # in `make test` tests/service/io/test_faults has who dies while it tells
def test_the_service_is_killed_while_a_regression_is_told(nights: tuple[Installation, int], operations: str) -> None:
    installation, number = nights
    begin(installation, number, NIGHTS - 1, 220.0)
    names = operations.split(", ")
    for operation in names:
        installation.hub.faults.before_next(operation, installation.kill_service)
    assert_told_once(installation, number)
    assert installation.killed == ["service"] * len(names)
