"""Runs jobs on an installation of real processes while faults strike it, and tells what came of both.

The installation is the product's own: service, Redis, workers and their pools, against a GitHub on this machine, with a runner that
gives recorded answers. Webhooks are delivered twice and shuffled all the while; those that come while nobody listens are asked for
again by the service. A fault has been recovered from once the installation does something new for a job after it.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from service.dispatch.events import handles
from tests.chaos.audit import Audit, audit
from tests.chaos.kinds import KINDS
from tests.faults.conftest import installed
from tests.faults.installation import ENDED, Installation
from tests.recorded.libraries import PLAIN, REGLU, create
from workers import inbox
from workers.contracts import JobState, JobView
from workers.runtime import current
from workers.store.models import Delivery

OWNER, PERSON = "octo", "maintainer"
TOGETHER = 3  # jobs at a time
END_S = 600.0  # for what is left once nothing strikes any more
STALL_S = 180.0
BREATH_S = (
    20.0  # without anything new, after which faults wait for it: on a busy machine nothing would ever start between two
)
STEP_S = 0.25
WEBHOOKS = "webhooks, each twice and shuffled"  # all the while, and not counted among the faults


@dataclass
class Row:
    """What came of one kind of fault; ``seconds`` until the installation did something new after each.

    Of webhooks ``recovered`` counts those that were handled, and ``lost`` those that were not kept.
    """

    injected: int = 0
    recovered: int = 0
    seconds: list[float] = field(default_factory=list)
    lost: int = 0
    doubled: int = 0


@dataclass
class Work:
    """One job: its repository, its issue, the attempts that were approved, and the kinds of fault that struck meanwhile."""

    repository: str
    issue: int
    approved: set[tuple[str, int]] = field(default_factory=set)
    struck: set[str] = field(default_factory=set)
    events: int = -1
    over: bool = False


class Trial:
    """One run. ``rows`` are by kind of fault."""

    def __init__(self, installation: Installation, seed: int, say: Callable[[str], None] = print) -> None:
        self.rows = {kind: Row() for kind in (*KINDS, WEBHOOKS)}
        self.works: list[Work] = []
        self.ended_s = 0.0
        self._installation = installation
        self._progress_at = time.monotonic()
        self._chance = random.Random(seed)
        self._say = say
        self._open: list[tuple[str, float]] = []  # faults that nothing has followed yet
        self._guard = threading.Lock()
        self._calm = threading.Event()  # nothing strikes any more, and no further job is begun
        self._over = threading.Event()

    def run(self, count: int, pause_s: float) -> None:
        """Strike so often while jobs run, then let all of them end."""
        threads = [threading.Thread(target=target, daemon=True) for target in (self._deliver, self._carry_on)]
        for thread in threads:
            thread.start()
        try:
            self._strike(count, pause_s)
        except KeyboardInterrupt:
            self._say("told to end: what was begun goes on to its end")
        self._installation.hub.faults.clear()
        calm_from = time.monotonic()
        self._calm.set()
        # What came while nobody listened is asked for by a service that starts.
        KINDS["SIGTERM and start"][0](self._installation, self._chance)
        try:
            while time.monotonic() < calm_from + END_S and not self._all_over():
                time.sleep(STEP_S)
        except KeyboardInterrupt:
            self._say("told to end: what is under way counts as lost")
        self.ended_s = time.monotonic() - calm_from
        self._over.set()
        for thread in threads:
            thread.join(60)

    def audits(self) -> dict[str, Audit]:
        """Hold every job against what it must leave, and count what is lost or doubled by what struck it."""
        found = {work.repository: audit(self._installation.hub, work.repository, work.issue) for work in self.works}
        for work in self.works:
            for kind in work.struck:
                self.rows[kind].lost += bool(found[work.repository].lost)
                self.rows[kind].doubled += bool(found[work.repository].doubled)
        self._count_webhooks(any(audit.doubled for audit in found.values()))
        return found

    def _count_webhooks(self, any_doubled: bool) -> None:
        sent = {item.guid for item in self._installation.hub.deliveries.log() if handles(item.event)}
        with current().database.read() as session:
            kept = dict(session.execute(select(Delivery.delivery_id, Delivery.state)).tuples().all())
        handled = sum(kept.get(guid) == "done" for guid in sent)
        self.rows[WEBHOOKS] = Row(len(sent), handled, lost=len(sent - kept.keys()), doubled=int(any_doubled))

    def _strike(self, count: int, pause_s: float) -> None:
        kinds, weights = list(KINDS), [weight for _, weight in KINDS.values()]
        # Each kind once, so that a short trial has all of them; then by chance.
        plan = self._chance.sample(kinds, min(count, len(kinds)))
        done = 0
        while done < count:
            while BREATH_S < time.monotonic() - self._progress_at <= STALL_S:
                time.sleep(STEP_S)
            if time.monotonic() - self._progress_at > STALL_S:
                self._say(f"nothing new for {STALL_S:.0f} s, so that nothing more strikes")
                return
            kind = plan.pop() if plan else self._chance.choices(kinds, weights)[0]
            if not self._one(kind):
                # What it strikes is not there at this moment, such as a runner.
                if self.rows[kind].injected == 0:
                    plan.insert(0, kind)
                continue
            done += 1
            if done % 25 == 0:
                over = sum(work.over for work in self.works)
                self._say(f"{done} faults, {len(self.works)} jobs, {over} of them over")
            time.sleep(self._chance.uniform(0.2, 2 * pause_s))

    def _one(self, kind: str) -> bool:
        try:
            struck = KINDS[kind][0](self._installation, self._chance)
        except (AssertionError, ProcessLookupError):
            # What was to be killed was gone already; the service is up all the same.
            if self._installation.serving["service"].poll() is not None:
                self._installation.start()
            return False
        if struck:
            with self._guard:
                self.rows[kind].injected += 1
                self._open.append((kind, time.monotonic()))
                for work in self.works:
                    if not work.over:
                        work.struck.add(kind)
        return struck

    def _deliver(self) -> None:
        seed = self._chance.randint(0, 10**6)
        while not self._over.is_set():
            seed += 1
            with suppress(RuntimeError):  # webhooks that cause webhooks: the next round goes on
                self._installation.hub.deliver_all("shuffled", twice=True, seed=seed)
            time.sleep(STEP_S)

    def _carry_on(self) -> None:
        while not self._over.is_set():
            # A database that is locked or full is one of the faults.
            with suppress(SQLAlchemyError):
                if not self._calm.is_set() and sum(not work.over for work in self.works) < TOGETHER:
                    self._begin()
                for work in [work for work in self.works if not work.over]:
                    self._look(work)
            time.sleep(STEP_S)

    def _begin(self) -> None:
        hub, name = self._installation.hub, f"library-{len(self.works) + 1}"
        hub.create_repository(OWNER, name, files=dict(PLAIN))
        repository = f"{OWNER}/{name}"
        hub.add_collaborator(repository, PERSON, "write")
        issue = hub.open_issue(repository, PERSON, "Wanted: reglu").number
        hub.comment(repository, issue, PERSON, create("reglu", REGLU))
        with self._guard:
            self.works.append(Work(repository, issue))

    def _look(self, work: Work) -> None:
        jobs = inbox.find_jobs(work.repository)
        if not jobs:
            return
        job = jobs[0]
        if len(job.timeline) != work.events:
            work.events = len(job.timeline)
            self._recovered()
        if job.state is JobState.waiting:
            self._approve(work, job)
        if job.state in ENDED:
            work.over = True

    def _approve(self, work: Work, job: JobView) -> None:
        here = job.checkpoint
        if here is None or here.sha is None or job.pull_number is None or here.decision is not None:
            return
        # People approve what they have been asked about.
        kinds = Counter((event.kind, event.text) for event in job.timeline if event.kind == "update_published")
        if kinds["update_published", "CheckpointUpdate"] < sum(event.kind == "checkpoint" for event in job.timeline):
            return
        if (here.stage.value, here.attempt) not in work.approved:
            work.approved.add((here.stage.value, here.attempt))
            hub = self._installation.hub
            hub.review(work.repository, job.pull_number, PERSON, "APPROVE", commit_id=job.head_sha)

    def _recovered(self) -> None:
        self._progress_at = now = time.monotonic()
        with self._guard:
            for kind, since in self._open:
                self.rows[kind].recovered += 1
                self.rows[kind].seconds.append(now - since)
            self._open.clear()

    def _all_over(self) -> bool:
        with suppress(SQLAlchemyError):
            counts = inbox.counts()
            unfinished = any(counts[table].get("pending") for table in ("updates", "deliveries"))
            return all(work.over for work in self.works) and not unfinished and not self._waiting()
        return False

    def _waiting(self) -> bool:
        return bool(self._installation.hub.deliveries.waiting())


def table(trial: Trial) -> str:
    """Give what came of each kind of fault, as Markdown."""
    lines = [
        "| fault | injected | recovered | lost | doubled | seconds, median | longest |",
        "| --- " + "| ---: " * 6 + "|",
    ]
    for kind, row in trial.rows.items():
        times = sorted(row.seconds)
        middle, most = (f"{times[len(times) // 2]:.1f}", f"{times[-1]:.1f}") if times else ("", "")
        lines.append(f"| {kind} | {row.injected} | {row.recovered} | {row.lost} | {row.doubled} | {middle} | {most} |")
    return "\n".join(lines)


def run(folder: Path, count: int, seed: int, pause_s: float, say: Callable[[str], None] = print) -> bool:
    """Make a trial in a folder, say what came of it, and tell whether nothing was lost or doubled."""
    with ExitStack() as stack:
        # By a pipe: a log on the disk that is full would have the processes fail for want of a log.
        reading, writing = os.pipe()
        log = stack.enter_context(os.fdopen(writing, "wb"))
        copier = threading.Thread(target=_copy, args=(reading, folder / "kernelsmith.log"), daemon=True)
        copier.start()
        with installed(folder, PLAIN, deliver=False, log=log) as installation:
            installation.ready()
            trial = Trial(installation, seed, say)
            started = time.monotonic()
            trial.run(count, pause_s)
            found, counts, errors = trial.audits(), inbox.counts(), installation.hub.errors
            took_s = time.monotonic() - started
    wrong = [f"{name}: lost: {text}" for name, it in found.items() for text in it.lost]
    wrong += [f"{name}: doubled: {text}" for name, it in found.items() for text in it.doubled]
    wrong += [f"left over in {name}: {counts[name]}" for name, states in LEFT.items() if set(counts[name]) - states]
    wrong += [f"{trial.rows[WEBHOOKS].lost} webhooks were not kept"] if trial.rows[WEBHOOKS].lost else []
    wrong += [f"the GitHub of this machine broke: {text.splitlines()[-1]}" for text in errors]
    say("\n" + table(trial) + "\n")
    say(
        f"Seed {seed}; {sum(trial.rows[kind].injected for kind in KINDS)} faults in {took_s:.0f} s; {len(found)} jobs, "
        f"{sum(bool(it.lost) for it in found.values())} with something lost, "
        f"{sum(bool(it.doubled) for it in found.values())} with something doubled; "
        f"all ended {trial.ended_s:.0f} s after the last fault; Python {platform.python_version()}, {os.cpu_count()} cores."
    )
    for text in wrong:
        say(f"- {text}")
    return not wrong and bool(found)


LEFT = {"updates": {"published", "dropped"}, "deliveries": {"done"}, "gpu_requests": {"done", "cancelled"}}


def _copy(reading: int, path: Path) -> None:
    with os.fdopen(reading, "rb", buffering=0) as source, path.open("wb") as target:
        while chunk := source.read(65_536):
            target.write(chunk)
            target.flush()


def main() -> int:
    """Run the trial as the command line says; give the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--count", type=int, default=100, help="how many faults strike")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6))
    parser.add_argument("--pause-s", type=float, default=1.0, help="between two faults, on the average")
    parser.add_argument("--keep", type=Path, help="a folder for the log and the state of the installation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernelsmith-chaos-") as folder:
        where = options.keep or Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        return 0 if run(where, options.count, options.seed, options.pause_s) else 1
