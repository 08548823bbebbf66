"""The Python API: a hub on disk, its people, apps and repositories, and everything that a person could do on its pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from service.localhub import state as stored
from service.localhub.actions import pulls
from service.localhub.conversation import Entry, conversation
from service.localhub.faults import Faults
from service.localhub.git import patch
from service.localhub.hub_acts import HubActs
from service.localhub.hub_deliveries import Deliveries, Order
from service.localhub.hub_setup import HubSetup
from service.localhub.state import CheckRun, Delivery, Issue
from service.localhub.world import RequestRecord, World, utc_now


class Hub(HubSetup, HubActs):
    """GitHub on this machine. Methods may be called from any thread; ``repo`` is ``owner/name``, ``by`` a login."""

    def __init__(self, data_dir: Path | str, clock: Callable[[], datetime] = utc_now) -> None:
        folder = Path(data_dir).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self.world = World(folder, stored.load(folder / "state.json"), clock)
        self.deliveries = Deliveries(self.world)

    @property
    def faults(self) -> Faults:
        """What the next requests will meet."""
        return self.world.faults

    @property
    def requests(self) -> list[RequestRecord]:
        """The API requests so far, oldest first."""
        with self.world.lock:
            return list(self.world.requests)

    def deliver_next(self, twice: bool = False) -> Delivery | None:
        """Deliver the webhook that happened first; more ways stand in ``deliveries``."""
        return self.deliveries.deliver_next(twice)

    def deliver_all(self, order: Order = "as_sent", twice: bool = False, seed: int = 0) -> list[Delivery]:
        """Deliver webhooks until none waits."""
        return self.deliveries.deliver_all(order, twice, seed)

    def save(self) -> None:
        """Write the state beside git's data, so that a new Hub on the same folder goes on from here."""
        with self.world.lock:
            stored.save(self.world.state, self.world.data_dir / "state.json")

    def conversation(self, repo: str, number: int) -> list[Entry]:
        """Opening, comments, reviews, commits and events, in order."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return conversation(self.world, self.world.git(repository), self.world.issue(repository, number))

    def check_runs(self, repo: str, sha: str | None = None) -> list[CheckRun]:
        """The check runs, oldest first, perhaps of one commit."""
        with self.world.lock:
            return [run for run in self.world.repository(repo).check_runs if sha in (None, run.head_sha)]

    def issue(self, repo: str, number: int) -> Issue:
        """An issue or pull request as it is stored; change it only through the methods here."""
        with self.world.lock:
            return self.world.issue(self.world.repository(repo), number)

    def pull_numbers(self, repo: str, state: str = "all") -> list[int]:
        """The numbers of the pull requests, oldest first."""
        with self.world.lock:
            found = self.world.repository(repo).issues.values()
            return [issue.number for issue in found if issue.pull and state in ("all", issue.state)]

    def head(self, repo: str, branch: str | None = None) -> str | None:
        """The commit at the tip of a branch; None for a branch that is not there."""
        with self.world.lock:
            repository = self.world.repository(repo)
            return self.world.git(repository).ref(f"refs/heads/{branch or repository.default_branch}")

    def branches(self, repo: str) -> dict[str, str]:
        """Every branch with the commit at its tip."""
        with self.world.lock:
            found = self.world.git(self.world.repository(repo)).refs()
            return {
                name.removeprefix("refs/heads/"): sha for name, sha in found.items() if name.startswith("refs/heads/")
            }

    def read_file(self, repo: str, ref: str, path: str) -> bytes | None:
        """A file at a branch or commit; None where there is none."""
        with self.world.lock:
            git = self.world.git(self.world.repository(repo))
            commit = git.resolve(ref)
            return git.file(commit, path) if commit else None

    def as_patch(self, repo: str, number: int) -> str:
        """The changes of a pull request as one mail-style patch for `git apply` or `git am`; encode with surrogateescape."""
        with self.world.lock:
            repository = self.world.repository(repo)
            issue, pull = self.world.pull(repository, number)
            git = self.world.git(repository)
            commit = git.commit(pull.head_sha)
            base = pulls.pull_base(self.world, repository, pull)
            head = [
                f"From {pull.head_sha} Mon Sep 17 00:00:00 2001",
                f"From: {commit.author.name} <{commit.author.email}>",
                f"Date: {commit.author.at.strftime('%a, %d %b %Y %H:%M:%S %z')}",
                f"Subject: [PATCH] {issue.title}",
                "",
                "---",
            ]
            return "\n".join(head) + "\n" + patch(git, base, pull.head_sha) + "-- \nlocalhub\n"

    def remove(self) -> None:
        """Delete the data folder."""
        shutil.rmtree(self.world.data_dir, ignore_errors=True)
