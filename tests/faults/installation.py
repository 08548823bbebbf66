"""A whole installation in processes of its own, the GitHub that it talks to, and the means to kill any part of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from redis import Redis
from redis.exceptions import RedisError

from service.conversation import find_marker
from service.localhub import Hub
from service.localhub.conversation import CommentEntry, CommitEntry
from service.localhub.hub_deliveries import Order
from service.settings import clean_environment
from tests.recorded.libraries import REGLU, create
from workers import inbox
from workers.broker import socket_path
from workers.contracts import JobState, JobView

ROOT = Path(__file__).parents[2]
REPOSITORY = "octo/kernels"
WITHIN_S = 120.0
SECRET = secrets.token_hex(32)
ENDED = (JobState.done, JobState.failed, JobState.cancelled)
T = TypeVar("T")


@dataclass
class Installation:
    """``kernelsmith serve`` and what it works with; ``serving`` is its process."""

    hub: Hub
    folder: Path
    port: int
    environment: dict[str, str]
    log: BinaryIO
    serving: subprocess.Popen[bytes] | None = None
    killed: list[str] = field(default_factory=list)
    order: Order | None = None  # how the test delivers webhooks, where no thread does

    @property
    def desk(self) -> Path:
        return self.folder / "desk"

    def start(self) -> None:
        """Start the service and its workers, without waiting for them."""
        self.serving = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.serve"],
            cwd=ROOT,
            env=clean_environment() | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def ready(self) -> None:
        """Wait until the service answers."""

        def answers() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
            return False

        until(answers, "the service to answer", self.story)

    def pause(self, place: str) -> None:
        """Have the next process that comes to a place wait there."""
        (self.desk / "pause" / place).touch()

    def paused(self, place: str) -> int:
        """Wait until a process waits at a place, and give its id."""
        told = self.desk / "paused" / place
        until(told.exists, f"something to wait at {place}", self.story)
        pid = int(told.read_text())
        told.unlink()
        return pid

    def release(self, place: str) -> None:
        """Let whoever waits at a place go on."""
        (self.desk / "pause" / place).unlink()

    def kill(self, pid: int, what: str) -> None:
        """End a process of this installation at once, without a word."""
        assert pid in descendants(os.getpid()), f"{pid} was not started here"
        os.kill(pid, signal.SIGKILL)
        self.killed.append(what)
        until(lambda: is_gone(pid), f"{what} to end", self.story)

    def kill_service(self) -> None:
        """End the service, and with it everything that it started, and start it again."""
        assert self.serving is not None
        ours = descendants(self.serving.pid)
        self.kill(self.serving.pid, "service")
        self.serving.wait()
        until(lambda: all(is_gone(pid) for pid in ours), "the workers to end with the service", self.story)
        self.start()

    def kill_redis(self) -> None:
        """End the embedded Redis; everything in it is lost."""
        self.kill(until(self._redis, "Redis", self.story), "redis")

    def job(self) -> JobView | None:
        found = inbox.find_jobs(REPOSITORY)
        assert len(found) <= 1
        return found[0] if found else None

    def ask(self) -> int:
        """Ask for a kernel, and give the issue's number."""
        number = self.hub.open_issue(REPOSITORY, "maintainer", "Wanted: reglu").number
        self.hub.comment(REPOSITORY, number, "maintainer", create("reglu", REGLU))
        return number

    def waits(self, stage: str) -> JobView:
        """Wait until a stage waits for its review, and everything about it is told."""

        def there() -> JobView | None:
            # Asked before, so that all was published of a stage that waited then; asked again for the commit that was.
            before, busy, job = self.job(), self.busy(), self.job()
            if busy or before is None or job is None or before.state is not job.state:
                return None
            if len(before.stages) != len(job.stages):
                return None
            assert job.state not in ENDED, f"{job.failure}\n{self.story()}"
            here = job.state is JobState.waiting and job.checkpoint is not None and job.checkpoint.stage == stage
            return job if here else None

        return until(there, f"{stage} to wait for a review", self.story)

    def approve(self, stage: str) -> None:
        """Approve a stage once it waits."""
        job = self.waits(stage)
        assert job.pull_number is not None
        # What comes while nobody listens is asked for again only minutes later.
        self.ready()
        self.hub.review(REPOSITORY, job.pull_number, "maintainer", "APPROVE", commit_id=job.head_sha)

    def done(self) -> JobView:
        """Wait until the job is done and everything about it is told."""

        def there() -> JobView | None:
            busy, job = self.busy(), self.job()
            return job if job is not None and job.state in ENDED and not busy else None

        job = until(there, "the job to end", self.story)
        assert job.state is JobState.done, f"{job.failure}\n{self.story()}"
        return job

    def busy(self) -> bool:
        """Tell whether there is something to handle or to publish; deliver what waits where the test says how."""
        if self.order is not None:
            self.hub.deliver_all(self.order, twice=True)
        counts = inbox.counts()
        left = [counts[table].get(state) for table in ("updates", "deliveries") for state in ("pending", "leased")]
        return any(left) or bool(self.hub.deliveries.waiting())

    def story(self) -> str:
        """Give what is known of what went wrong."""
        lines = (self.folder / "kernelsmith.log").read_text(errors="replace").splitlines()
        tail = "\n".join([line for line in lines if "celery.beat" not in line][-40:])
        return f"killed so far: {self.killed}\ncounts: {inbox.counts()}\njob: {self.job()}\nlog:\n{tail}"

    def _redis(self) -> int | None:
        with (
            contextlib.suppress(RedisError, OSError),
            Redis(unix_socket_path=str(socket_path(self.folder / "state"))) as client,
        ):
            return int(client.info("server")["process_id"])
        return None


def assert_one_of_everything(installation: Installation, issue: int) -> None:
    """One job, one comment of each kind, one commit of each purpose, one pull request, and nothing open or lost."""
    hub, job = installation.hub, installation.done()
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
    assert len(marks) == 4, marks
    assert set(marks.values()) == {1}
    commits = [e.message.splitlines()[0] for e in hub.conversation(REPOSITORY, pull) if isinstance(e, CommitEntry)]
    assert commits == ["Add the reference of reglu and its tests", "Add the reglu kernel"]
    assert sorted(hub.branches(REPOSITORY)) == sorted(["main", job.branch, "kernelsmith-assets"])
    checks = Counter(check.external_id for check in hub.check_runs(REPOSITORY))
    assert set(checks.values()) == {1}
    assert len(checks) == 3
    assert {check.status for check in hub.check_runs(REPOSITORY)} == {"completed"}
    assert [(view.stage.value, view.attempt) for view in job.stages] == [
        ("analyze", 1),
        ("generate", 1),
        ("validate", 1),
    ]
    counts = inbox.counts()
    assert counts["gpu_requests"] == {"done": 4}
    assert set(counts["updates"]) == {"published"}, counts
    assert set(counts["deliveries"]) == {"done"}, counts
    assert hub.errors == []
    assert hub.faults.waiting() == {}


def until(found: Callable[[], T | None], what: str, story: Callable[[], str] = str) -> T:
    """Wait until something is there, and give it."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {WITHIN_S:.0f} s in vain for {what}\n{story()}")


def descendants(pid: int) -> set[int]:
    """Give the processes that a process started, and theirs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found: set[int] = set()
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.add(child)
            queue.append(child)
    return found


def parent_of(pid: int) -> int:
    """Give the process that started another."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def free_port() -> Iterator[int]:
    """Give a port of loopback that stays this test's own while nobody listens there."""
    with socket.socket() as held:
        # Bound and never listening: others cannot get it by chance, and the service may bind it as well.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
