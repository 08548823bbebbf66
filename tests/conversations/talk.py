"""A conversation with the whole product, one step at a time; what the bot said and nobody looked at is left over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from deploy.localhub.conversation import CommentEntry, CommitEntry, Entry, EventEntry, OpeningEntry, ReviewEntry
from deploy.localhub.hub import Hub
from deploy.localhub.webhooks import HookAnswer
from service.app import Parts
from tests.conversations.normal import Normal, folded, gist
from workers import inbox
from workers.contracts import JobView
from workers.embedded import drive, next_due_in_s, reconcile

REPOSITORY = "octo/kernels"
BOT = "smith[bot]"
UNFINISHED = ("pending", "leased", "claimed")


@dataclass
class Talk:
    """The product, a GitHub on this machine, and what was seen of the conversation so far."""

    hub: Hub
    parts: Parts
    client: TestClient
    desk: Path
    clock: list[float]
    normal: Normal
    errors: list[str]
    seen: dict[int, str] = field(default_factory=dict)

    def transport(self, _url: str, headers: Mapping[str, str], body: bytes) -> HookAnswer:
        answer = self.client.post("/webhook", content=body, headers=dict(headers))
        return HookAnswer(answer.status_code, dict(answer.headers), answer.text)

    def issue(self, body: str = "We need it.", by: str = "maintainer") -> int:
        return self.hub.open_issue(REPOSITORY, by, "Wanted: a kernel", body).number

    def say(self, number: int, body: str, by: str = "maintainer") -> int:
        return self.hub.comment(REPOSITORY, number, by, body).id

    def ask(self, body: str, by: str = "maintainer", issue: str = "We need it.") -> int:
        """Open an issue, comment on it, let everything happen, and give the issue's number."""
        number = self.issue(issue)
        self.say(number, body, by)
        self.settle()
        return number

    def review(self, state: str = "APPROVE", body: str = "", by: str = "maintainer", **more: Any) -> None:
        """Review the only job's pull request, and let everything happen."""
        self.hub.review(REPOSITORY, self.pull(), by, state, body, **more)
        self.settle()

    def listen(self) -> int:
        """Handle what GitHub sends, and nothing more."""
        count = 0
        while self.hub.deliver_all() or count == 0:
            count += 1
            while self.parts.processor.step():
                count += 1
        return count - 1

    def publish(self) -> int:
        count = 0
        while self.parts.publisher.step():
            count += 1
        return count

    def settle(self) -> None:
        """Let everything happen, also what is tried again later."""
        for _ in range(60):
            while self.listen() + drive() + self.publish():
                pass
            counts = inbox.counts()
            unfinished = any(counts[table].get(state) for table in ("updates", "deliveries") for state in UNFINISHED)
            if not unfinished and next_due_in_s() is None:
                return
            self.clock[0] += 35
            reconcile()
        raise AssertionError(f"it does not end: {inbox.counts()}")

    def answer(self, action: str, payload: Any, always: bool = False) -> None:
        """Have the runner give this answer the next time, or always."""
        folder = self.desk / "answers"
        number = "always" if always else f"{len(list(folder.glob(f'{action}-*'))):02}"
        (folder / f"{action}-{number}.json").write_text(json.dumps(payload))

    def logged(self, event: str) -> int:
        """Give how often an error was logged that the test expects."""
        found = [line for line in self.errors if event in line]
        self.errors[:] = [line for line in self.errors if line not in found]
        return len(found)

    def asked(self) -> list[str]:
        """Give the actions that the runner was asked for."""
        told = self.desk / "asked"
        return [line.split()[0] for line in told.read_text().splitlines()] if told.exists() else []

    def job(self) -> JobView:
        (found,) = inbox.find_jobs(REPOSITORY)
        return found

    def pull(self) -> int:
        number = self.job().pull_number
        assert number is not None
        return number

    def read(self, number: int, unfolded: bool = False) -> str:
        """Give the only comment that the bot wrote or edited since the last look."""
        (body,) = self.heard(number)
        return body if unfolded else folded(body)

    def glance(self, number: int) -> str:
        """Give the first two lines of the only comment that the bot wrote or edited since the last look."""
        return gist(self.read(number))

    def heard(self, number: int) -> list[str]:
        """Give what the bot wrote or edited since the last look."""
        found = [entry for entry in self._written(number) if self.seen.get(entry.id) != entry.body]
        self.seen |= {entry.id: entry.body for entry in found}
        return [self.normal(entry.body) for entry in found]

    def skip(self, number: int) -> None:
        """Look at nothing that was said so far: another test has."""
        self.heard(number)

    def skip_all(self, number: int) -> None:
        """Look at nothing that was said so far, there and on the jobs' pull requests."""
        pulls = {job.pull_number for job in inbox.find_jobs(REPOSITORY, number=number) if job.pull_number is not None}
        for place in {number} | pulls:
            self.skip(place)

    def page(self, number: int) -> str:
        """Give what a person sees of a conversation at a glance: one line an entry."""
        entries = self.hub.conversation(REPOSITORY, number)
        return "\n".join(self.normal(_line(entry)) for entry in entries)

    def body(self, number: int) -> str:
        """Give what the bot wrote into a pull request's opening."""
        return folded(self.normal(self.hub.issue(REPOSITORY, number).body or ""))

    def changed(self, job: JobView | None = None) -> list[str]:
        """Give the files that a job's pull request changes, by default the only one's, with how many lines come and go."""
        patch = self.hub.as_patch(REPOSITORY, (job or self.job()).pull_number or 0)
        found: dict[str, list[int]] = {}
        for line in patch.splitlines():
            if line.startswith("diff --git "):
                found[path := line.rpartition(" b/")[2]] = [0, 0]
            elif line[:1] in "+-" and line[:3] not in ("+++", "---") and found:
                found[path]["+-".index(line[:1])] += bool(line) and line != "-- "
        return [f"{path} +{plus} -{minus}" for path, (plus, minus) in found.items()]

    def checks(self) -> list[str]:
        """Give the check runs, each in a line."""
        found = self.hub.check_runs(REPOSITORY)
        return [f"{run.name}: {run.status} {run.conclusion}, {self.normal(run.title or '')}" for run in found]

    def reactions(self, number: int, comment_id: int) -> tuple[str, ...]:
        found = self.hub.conversation(REPOSITORY, number)
        return next(e.reactions for e in found if isinstance(e, CommentEntry) and e.id == comment_id)

    def leftovers(self) -> list[str]:
        """Give everything that no test should leave behind unnoticed."""
        state = self.hub.world.repository(REPOSITORY)
        unread = [
            f"nobody looked at a comment in #{number}: {entry.body}"
            for number in state.issues
            for entry in self._written(number)
            if self.seen.get(entry.id) != entry.body
        ]
        counts = inbox.counts()
        undone = [
            f"{table} left {kept}: {counts[table][kept]}"
            for table in ("updates", "deliveries")
            for kept in counts[table]
            if kept in UNFINISHED
        ]
        checks = [f"an open check run: {run.name}" for run in state.check_runs if run.status != "completed"]
        faults = [f"a fault that nothing met: {name}" for name in self.hub.faults.waiting()]
        waiting = [f"an undelivered webhook: {item.event}" for item in self.hub.deliveries.waiting()]
        directed = [
            f"an answer that nobody asked for: {path.name}" for path in (self.desk / "answers").glob("*-[0-9]*")
        ]
        return [*unread, *undone, *checks, *faults, *waiting, *directed, *self.hub.errors, *self.errors]

    def untouched(self) -> bool:
        """Tell whether there is no job, no branch, no pull request and no check run."""
        nothing = not inbox.find_jobs(REPOSITORY) and not self.hub.pull_numbers(REPOSITORY)
        return nothing and list(self.hub.branches(REPOSITORY)) == ["main"] and not self.hub.check_runs(REPOSITORY)

    def _written(self, number: int) -> list[CommentEntry]:
        found = self.hub.conversation(REPOSITORY, number)
        return [entry for entry in found if isinstance(entry, CommentEntry) and entry.by == BOT]


def _line(entry: Entry) -> str:
    if isinstance(entry, OpeningEntry):
        return f"{entry.by} opened «{entry.title}»"
    if isinstance(entry, CommentEntry):
        folded = f" ({entry.minimized})" if entry.minimized else ""
        return f"{entry.by} commented{folded}: {gist(entry.body, 1)}"
    if isinstance(entry, CommitEntry):
        return f"{entry.by} committed: {entry.message.splitlines()[0]}"
    if isinstance(entry, ReviewEntry):
        return f"{entry.by} reviewed: {entry.state.lower()}"
    assert isinstance(entry, EventEntry)
    return f"{entry.by}: {entry.kind} {entry.detail}".rstrip()
