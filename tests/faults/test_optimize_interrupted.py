"""An optimize job may be interrupted anywhere: no variant is measured twice, and nothing is committed before all has passed."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from gpu_runner.contracts import BenchmarkRequest, CandidateSource, to_json
from tests.few import few
from tests.workers.engine.mortals import Mortals, started
from tests.workers.stages import library
from tests.workers.stages.answers import answers
from tests.workers.stages.context import optimizing, packed
from tests.workers.store import worlds
from tests.workers.store.worlds import World
from workers import embedded, inbox, runtime
from workers.contracts import CommitUpdate, JobState, JobView, PullRequestUpdate, StageName, StatusUpdate
from workers.stages.table import STAGES
from workers.store.models import GpuWork, OutboxUpdate, StageAttempt
from workers.upkeep import reconcile

pytestmark = pytest.mark.fault

RUNNER = Path(__file__).with_name("quick_runner.py")
PROFILE = [
    "tests: environment",
    "capture: capture",
    "record: record",
    "verify: verify",
    "benchmark: benchmark",
    "profile: profile",
    "tests: v0-script",
]
VARIANTS = ["tune: v1-tune"] + [f"{what}: v{n}-{what}" for n in (2, 3, 4) for what in ("verify", "benchmark")]
VARIANTS.insert(3, "tests: v2-script")  # the one that is kept
FINALIZE = ["tests: tests-v2", "verify: verify-v2", "benchmark: benchmark", "tests: script"]


@dataclass
class Site:
    """A world with the real stages, a runner that answers at once, and engines that die."""

    world: World
    mortals: Mortals
    folder: Path

    @property
    def runner(self) -> list[str]:
        return ["-S", str(RUNNER), "--desk", str(self.folder)]

    def ask(self) -> str:
        snapshot = self.world.runtime.blobs.put(packed(library.tree()))
        request = optimizing({}, auto=True, layout="liger").request
        return inbox.submit(replace(request, snapshot=snapshot)).job_id

    def work(self, boundary: int = -1) -> int | None:
        """Have an engine work on everything, and die at a boundary; give the signal that ended it."""
        signal_number: int | None = self.mortals.work(self.folder, None, boundary=boundary, runner=self.runner)[
            "signal"
        ]
        return signal_number

    def forget(self) -> None:
        """Have every lease run out of those that the dead held, and every pause that follows be over."""
        with self.world.runtime.database.write() as session:
            for table in (StageAttempt, GpuWork):
                session.execute(
                    update(table).where(table.lease_token.is_not(None)).values(lease_until=0.0, not_before=0.0)
                )
        self.world.clock.advance(100)
        reconcile(self.world.runtime)

    def job(self) -> JobView:
        (found,) = inbox.find_jobs("acme/kernels")
        return found

    def requested(self) -> list[str]:
        """Give what was asked of a GPU, once for each time that it was asked."""
        return [event.text for event in self.job().timeline if event.kind == "gpu_requested"]

    def ran(self) -> int:
        """Give how often a runner was started."""
        return len((self.folder / "asked").read_text().splitlines())

    def committing(self) -> bool:
        """Tell whether anything waits that would change the repository."""
        with self.world.runtime.database.read() as session:
            kinds = set(session.scalars(select(OutboxUpdate.kind)))
        return bool(kinds & {"CommitUpdate", "PullRequestUpdate"})


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with started("tests.faults.mortals") as process:
        yield process


@pytest.fixture
def site(tmp_path: Path, mortals: Mortals) -> Iterator[Site]:
    world = worlds.build(tmp_path, None, STAGES)
    made = Site(world, mortals, tmp_path)
    world.runtime.runner_command = (sys.executable, *made.runner)
    (tmp_path / "answers.json").write_text(json.dumps(payloads()))
    yield made
    runtime.install(None)


def payloads() -> dict[str, Any]:
    """Give the runner's answers: every variant that changes something is 1.2 times as fast."""
    form = CandidateSource(())
    made = {name: answer for name, answer in answers().items() if name != "benchmark"}
    measured = answers()["benchmark"]
    made["benchmark"] = measured(BenchmarkRequest("", form, original=form))
    made["benchmark-alone"] = measured(BenchmarkRequest("", form))
    return {name: to_json(answer) for name, answer in made.items()}


def outcomes(site: Site) -> dict[str, str]:
    found = {a.name: a.digest for a in site.job().artifacts}
    variants = json.loads(site.world.runtime.blobs.get(found["variants.json"]))["variants"]
    return {variant["name"]: variant["outcome"] for variant in variants}


def assert_done_once(site: Site) -> None:
    """As if nothing had happened: every request asked once, every variant judged, one commit, at the very end."""
    job = site.job()
    assert job.state is JobState.done, job.failure
    assert site.requested() == [*PROFILE, *VARIANTS, *FINALIZE]
    assert outcomes(site) == {"v1": "duplicate", "v2": "kept", "v3": "no_gain", "v4": "no_gain"}
    assert_one_commit(site)


def assert_one_commit(site: Site) -> None:
    told = [u.update for u in site.world.publish() if not isinstance(u.update, StatusUpdate)]
    kinds = [type(item).__name__ for item in told]
    assert kinds.count("CommitUpdate") == kinds.count("PullRequestUpdate") == kinds.count("ReadyUpdate") == 1
    (commit,) = [item for item in told if isinstance(item, CommitUpdate)]
    assert (commit.stage, [change.path for change in commit.changes]) == (StageName.finalize, [library.PATH])
    before = told[: told.index(commit)]
    assert not any(isinstance(item, PullRequestUpdate) for item in before)


# In `make test` a job whose worker is killed again and again comes to the same, and one that is cancelled.
@pytest.mark.long
def test_an_undisturbed_job_asks_for_everything_once(site: Site) -> None:
    site.ask()
    assert site.work() is None
    assert_done_once(site)
    assert site.ran() == len(PROFILE + VARIANTS + FINALIZE)


@pytest.mark.parametrize("stride", (7, 10))
@pytest.mark.long  # in `make test` one is cancelled and retried, and test_killed kills workers
def test_a_job_whose_worker_is_killed_again_and_again_does_nothing_twice(site: Site, stride: int) -> None:
    site.ask()
    kills = 0
    while site.work(boundary=stride) == signal.SIGKILL:
        kills += 1
        assert kills < 40, "it makes no progress"
        finalized = any(s.stage is StageName.finalize and s.state.value == "done" for s in site.job().stages)
        assert finalized or not site.committing()
        site.forget()
    assert kills > 5
    assert_done_once(site)
    # Only what a runner was at when its worker died was run again.
    assert site.ran() <= len(PROFILE + VARIANTS + FINALIZE) + kills


@pytest.mark.long  # in `make test` test_gpu_host has a runner die, and test_killed of an installation
def test_a_runner_that_is_killed_is_started_again_and_nothing_else_is(site: Site) -> None:
    site.ask()
    for action in ("tune", "verify", "benchmark", "tests"):
        (site.folder / f"die-{action}-1").touch()
    while site.work() is not None or site.job().state is not JobState.done:
        site.forget()
    assert_done_once(site)
    assert site.ran() == len(PROFILE + VARIANTS + FINALIZE) + 4


def drive_to(site: Site, key: str) -> None:
    """Work until a request was asked, and was not answered."""
    while key not in site.requested():
        assert embedded.step(), f"{key} was never asked"


@pytest.mark.long  # in `make test` test_gpu_host counts hosts that were lost
@pytest.mark.slow
def test_a_host_that_is_lost_again_and_again_is_counted_and_the_job_goes_on_from_the_last_finished_variant(
    site: Site,
) -> None:
    site.ask()
    drive_to(site, "benchmark: v3-benchmark")
    for number in range(5):
        assert site.work(boundary=0) == signal.SIGKILL
        site.forget()
        assert site.job().losses == number + 1
    assert not site.committing()
    embedded.drive()
    assert site.job().state is JobState.done
    assert site.job().failure is None
    assert Counter(site.requested()) == Counter([*PROFILE, *VARIANTS, *FINALIZE])
    assert_one_commit(site)


CANCELLED = ("verify: v2-verify", "benchmark: v3-benchmark", "tests: tests-v2")


@pytest.mark.parametrize("key", few(CANCELLED, CANCELLED[:1]))
def test_a_job_that_is_cancelled_and_retried_goes_on_from_the_last_finished_variant(site: Site, key: str) -> None:
    job_id = site.ask()
    drive_to(site, key)
    assert inbox.cancel(job_id, "maintainer")
    embedded.drive()
    assert site.job().state is JobState.cancelled
    assert not site.committing()
    assert inbox.retry(job_id, "maintainer")
    embedded.drive()
    assert site.job().state is JobState.done
    assert Counter(site.requested()) == Counter([*PROFILE, *VARIANTS, *FINALIZE, key])
    assert outcomes(site) == {"v1": "duplicate", "v2": "kept", "v3": "no_gain", "v4": "no_gain"}
    assert_one_commit(site)


@pytest.mark.long  # in `make test` test_advance retries on a new snapshot, and test_optimizing_ends cancels and retries
def test_a_job_on_a_fresh_snapshot_measures_everything_anew(site: Site) -> None:
    job_id = site.ask()
    drive_to(site, "verify: v4-verify")
    assert inbox.cancel(job_id, "maintainer")
    moved = library.tree(**{"README.md": "It moved on.\n"})
    snapshot = site.world.runtime.blobs.put(packed(moved))
    assert inbox.retry(job_id, "maintainer", snapshot, "c" * 40)
    embedded.drive()
    assert site.job().state is JobState.done
    asked = Counter(site.requested())
    # A problem is traced without the repository, so that its graph is the same.
    assert {text for text in (*PROFILE, *VARIANTS) if asked[text] == 1} == {
        "capture: capture",
        "benchmark: v4-benchmark",
    }
    assert_one_commit(site)
