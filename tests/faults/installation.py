"""A whole installation in processes of its own, the GitHub that it talks to, and the means to kill any part of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import httpx
from redis import Redis
from redis.exceptions import RedisError

from deploy.localhub.hub import Hub
from deploy.localhub.webhooks import Order
from tests.faults.processes import descendants, is_gone, until
from workers import embedded, inbox
from workers.broker import socket_path
from workers.contracts import JobState, JobView
from workers.environment import plain_environment

ROOT = Path(__file__).parents[2]
REPOSITORY = "octo/kernels"
SECRET = secrets.token_hex(32)
LOOK_S = 1.0  # after which it is looked again where nothing has happened
ENDED = (JobState.done, JobState.failed, JobState.cancelled)
# The commands of an installation: all of it on one machine, or its parts on several.
ONE_MACHINE = {"service": ("serve",)}
SEVERAL_MACHINES = {"service": ("web",), "stages": ("work", "--only", "stages"), "gpu": ("work", "--only", "gpu")}


@dataclass
class Installation:
    """The commands of ``kernelsmith`` that serve, and what they work with; ``serving`` are their processes by name."""

    hub: Hub
    hub_url: str
    folder: Path
    port: int
    environment: dict[str, str]
    log: BinaryIO
    commands: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(ONE_MACHINE))
    serving: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    killed: list[str] = field(default_factory=list)
    order: Order | None = None  # how the test delivers webhooks, where no thread does
    _database: sqlite3.Connection | None = None
    _seen: tuple[int, int] | None = None
    _looked_at: float = 0.0

    @property
    def desk(self) -> Path:
        return self.folder / "desk"

    def start(self, name: str = "service") -> None:
        """Start one of the commands, without waiting for it. Each has a folder of its own, as on a machine of its own."""
        own = {} if name == "service" else {"KERNELSMITH_DATA_DIR": str(self.folder / name)}
        self.serving[name] = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.serve", *self.commands[name]],
            cwd=ROOT,
            env=plain_environment() | self.environment | own,
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
        serving = self.serving["service"]
        ours = descendants(serving.pid)
        self.kill(serving.pid, "service")
        serving.wait()
        until(lambda: all(is_gone(pid) for pid in ours), "the workers to end with the service", self.story)
        self.start()

    def lose(self, name: str) -> None:
        """End one of the commands with all of its processes in one moment, as a machine that loses its power."""
        serving = self.serving.pop(name)
        # The system starts nothing there anew: what would is stopped first.
        for pid in (serving.pid, *sorted(descendants(serving.pid))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        ours = descendants(serving.pid)
        for pid in (*ours, serving.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        serving.wait()
        self.killed.append(name)
        until(lambda: all(is_gone(pid) for pid in ours), f"all of {name} to end", self.story)

    def end(self) -> None:
        """End everything that was started."""
        if self._database is not None:
            self._database.close()
        for serving in self.serving.values():
            serving.kill()
            serving.wait()

    def kill_redis(self) -> None:
        """End the embedded Redis; everything in it is lost."""
        self.kill(until(self._redis, "Redis", self.story), "redis")

    def job(self) -> JobView | None:
        found = inbox.find_jobs(REPOSITORY)
        assert len(found) <= 1
        return found[0] if found else None

    def ask(self, title: str, comment: str) -> int:
        """Open an issue, give a command on it, and give the issue's number."""
        number = self.hub.open_issue(REPOSITORY, "maintainer", title).number
        self.say(number, comment)
        return number

    def say(self, number: int, comment: str) -> None:
        """Give a command."""
        self.hub.comment(REPOSITORY, number, "maintainer", comment)

    def waits(self, stage: str) -> JobView:
        """Wait until a stage waits for its review, and everything about it is told."""

        def there() -> JobView | None:
            if self._nothing_happened():
                return None
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

    def ended(self, state: JobState) -> JobView:
        """Wait until the job has ended, that way and no other, and everything about it is told."""

        def there() -> JobView | None:
            if self._nothing_happened():
                return None
            self.busy()  # delivers what waits, where the test says how
            # What is to be told is there as soon as the end is, so that it is asked for after it.
            job = self.job()
            return job if job is not None and job.state in ENDED and not self.busy() else None

        job = until(there, "the job to end", self.story)
        assert job.state is state, f"{job.failure}\n{self.story()}"
        return job

    def retry(self, number: int) -> None:
        """Have the job go on that has ended, and wait until it does."""
        self.say(number, "/kernel retry")
        until(lambda: (job := self.job()) is not None and job.state not in ENDED, "the job to go on", self.story)

    def asked(self) -> list[str]:
        """Give the action and the request of every start of a runner."""
        told = self.desk / "asked"
        return told.read_text().splitlines() if told.exists() else []

    def busy(self) -> bool:
        """Tell whether there is something to handle or to publish; deliver what waits where the test says how."""
        if self.order is not None:
            self.hub.deliver_all(self.order, twice=True)
        # What is published has caused its webhooks before, and what has arrived is in the database: asked in this order, no
        # webhook slips through between the two.
        return self._unfinished() or bool(self.hub.deliveries.waiting()) or self._unfinished()

    def _nothing_happened(self) -> bool:
        """Tell whether all is as when it was last asked: to read a whole job twenty times a second takes half a core."""
        if self._database is None:
            self._database = sqlite3.connect(embedded.settings().database().removeprefix("sqlite:///"))
        # Which changes whenever another connection has written.
        (version,) = self._database.execute("PRAGMA data_version").fetchone()
        now, there = time.monotonic(), (version, len(self.hub.deliveries.waiting()))
        if there == self._seen and now < self._looked_at + LOOK_S:
            return True
        self._seen, self._looked_at = there, now
        return False

    def _unfinished(self) -> bool:
        counts = inbox.counts()
        return any(counts[table].get(state) for table in ("updates", "deliveries") for state in ("pending", "leased"))

    def logged(self) -> str:
        """Give what all processes have logged."""
        return (self.folder / "kernelsmith.log").read_text(errors="replace")

    def readiness(self) -> dict[str, dict[str, object]]:
        """Ask the service what it needs, and what of it is there."""
        self.ready()
        answer: dict[str, dict[str, object]] = httpx.get(f"http://127.0.0.1:{self.port}/readyz").json()
        return answer

    def story(self) -> str:
        """Give what is known of what went wrong."""
        tail = "\n".join(self.logged().splitlines()[-40:])
        return f"killed so far: {self.killed}\ncounts: {inbox.counts()}\njob: {self.job()}\nlog:\n{tail}"

    def _redis(self) -> int | None:
        with (
            contextlib.suppress(RedisError, OSError),
            Redis(unix_socket_path=str(socket_path(self.folder / "state"))) as client,
        ):
            return int(client.info("server")["process_id"])
        return None
