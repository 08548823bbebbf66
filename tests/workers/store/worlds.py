"""A world of its own for a test: a runtime on a fresh database with a clock that stands still, and a publisher."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from tests.workers.engine.fakes import RUNNER, fake_stages
from workers import inbox, outbox, runtime
from workers.contracts import ClaimedUpdate, CommitUpdate, Decision, DecisionResult, Effect, JobView, PullRequestUpdate
from workers.engine.protocol import Stages
from workers.runtime import Runtime
from workers.settings import Settings
from workers.store.blobs import BlobStore
from workers.store.database import Database


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Messages:
    """Keeps the messages that would have been sent."""

    jobs: list[str] = field(default_factory=list)
    gpu_requests: list[tuple[str, str]] = field(default_factory=list)

    def advance(self, job_id: str) -> None:
        self.jobs.append(job_id)

    def gpu(self, request_id: str, architecture: str) -> None:
        self.gpu_requests.append((request_id, architecture))


@dataclass
class World:
    """A runtime and what a test does to it."""

    runtime: Runtime
    clock: Clock
    messages: Messages
    commits: int = 0
    reviews: int = 0

    def publish(self, limit: int | None = None) -> list[ClaimedUpdate]:
        """Publish what is to be published; commits get ids that count up."""
        published: list[ClaimedUpdate] = []
        while limit is None or len(published) < limit:
            claimed = outbox.claim("publisher", 30)
            if claimed is None:
                break
            assert outbox.complete(claimed.update_id, "publisher", self.effect(claimed))
            published.append(claimed)
        return published

    def effect(self, claimed: ClaimedUpdate) -> Effect:
        if isinstance(claimed.update, CommitUpdate):
            self.commits += 1
            return Effect(sha=f"{self.commits:040x}"[::-1])
        return Effect(pull_number=12) if isinstance(claimed.update, PullRequestUpdate) else Effect()

    def job(self, job_id: str) -> JobView:
        found = inbox.get_job(job_id)
        assert found is not None
        return found

    def decide(
        self, job_id: str, decision: Decision = Decision.approve, sha: str | None = None, text: str = ""
    ) -> DecisionResult:
        self.reviews += 1
        waits = self.job(job_id).checkpoint
        named = sha or (waits.sha if waits else None) or "f" * 40
        return inbox.decide(job_id, None, named, decision, text, (), "mona", f"review/{self.reviews}")


def record(delivery_id: str, event: str, payload: bytes) -> bool:
    """Keep one delivery; tell whether it is new."""
    (is_new,) = inbox.record_deliveries((inbox.NewDelivery(delivery_id, event, payload),))
    return is_new


def build(folder: Path, url: str | None, stages: Stages | None = None) -> World:
    settings = Settings(data_dir=folder, lease_s=60, architecture="interpreter").model_copy(
        update={"database_url": None if url is None else SecretStr(url), "redis_url": None}
    )
    clock, messages = Clock(), Messages()
    chosen = fake_stages() if stages is None else stages
    made = Runtime(
        settings,
        Database(settings.database()),
        BlobStore(settings.artifacts()),
        notifier=messages,
        stages=lambda: chosen,
        clock=clock,
        runner_command=RUNNER,
    )
    runtime.install(made)
    return World(made, clock, messages)
