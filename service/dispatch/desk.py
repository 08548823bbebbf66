"""What those who carry out commands work with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from service.addresses import Addresses
from service.github.client import GitHubClient
from service.github.clients import GitHubClients
from service.github.credentials import CredentialPurpose
from workers.contracts import (
    Decision,
    DecisionResult,
    Estimate,
    Failure,
    JobOptions,
    JobRequest,
    JobView,
    LineComment,
    ProblemText,
    StageName,
    Submission,
)
from workers.inbox import NewDelivery

WORK_SHARE = 0.9  # of a delivery's lease, after which no further request is begun


class Inbox(Protocol):
    """The production's inbox, as far as commands need it."""

    def record_deliveries(self, arrived: Iterable[NewDelivery]) -> tuple[bool, ...]:
        """Keep deliveries, and tell of each whether it is new."""
        ...

    def last_delivery(self, prefix: str) -> tuple[str, bytes] | None:
        """The id and payload of the delivery whose id is ``prefix`` and the latest time."""
        ...

    def submit(self, request: JobRequest) -> Submission:
        """Accept a command."""
        ...

    def pull_closed(self, repository: str, number: int, *, closed: bool) -> None:
        """Note that a pull request was closed, or opened again."""
        ...

    def look_over(self, kernel: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
        """The new kernel's name, or why a create command cannot be carried out in its repository."""
        ...

    def look_over_optimize(
        self, kernel: str, problem: ProblemText, snapshot: str, options: JobOptions
    ) -> str | Failure:
        """The kernel's name in the repository, or everything that an optimize command lacks there."""
        ...

    def touched_kernel(self, before: str, after: str, layout: str | None) -> str | Failure:
        """The one kernel in which two snapshots differ, or why there is none."""
        ...

    def look_over_modify(
        self, kernel: str, words: str, problem: ProblemText, snapshot: str, layout: str | None
    ) -> str | Failure:
        """The kernel's name in the repository, or everything that a modify command lacks there."""
        ...

    def look_over_port(self, kernel: str, problem: ProblemText, snapshot: str, options: JobOptions) -> str | Failure:
        """The kernel's name in the repository, or why it cannot be ported to a target."""
        ...

    def look_over_fuse(self, kernel: str, problem: ProblemText, snapshot: str, layout: str | None) -> str | Failure:
        """The model's name, or why it cannot be fused."""
        ...

    def estimate(self, request: JobRequest) -> Estimate:
        """What a job would take at most and what is missing, starting nothing."""
        ...

    def has_models(self) -> bool:
        """Whether jobs may ask a language model."""
        ...

    def needs_model(self, problem: ProblemText) -> bool:
        """Whether only a model can make a problem of this."""
        ...

    def decide(
        self,
        job_id: str,
        stage: StageName | None,
        sha: str,
        decision: Decision,
        feedback: str,
        lines: tuple[LineComment, ...],
        by: str,
        key: str,
    ) -> DecisionResult:
        """Decide at a checkpoint."""
        ...

    def triage(self, repository: str, key: str, reason: str) -> int:
        """Accept regressions as the new base; give how many numbers that concerns."""
        ...

    def cancel(self, job_id: str, by: str, why: str = "") -> bool:
        """Cancel a job; ``why`` is one sentence, where it is not that ``by`` said so."""
        ...

    def retry(self, job_id: str, by: str, snapshot: str | None = None, base_sha: str | None = None) -> bool:
        """Have a failed or cancelled job go on, or start over."""
        ...

    def get_job(self, job_id: str) -> JobView | None:
        """A job."""
        ...

    def find_jobs(
        self, repository: str, number: int | None = None, active: bool | None = None, pull_number: int | None = None
    ) -> tuple[JobView, ...]:
        """Jobs, oldest first."""
        ...

    def submitted_since(self, repository: str, since: float) -> tuple[tuple[str, float], ...]:
        """Who started jobs since a time, and when, both times as Unix time."""
        ...

    def has_untold(self, repository: str) -> bool:
        """Whether the issue of a kernel was not told what a night has found."""
        ...

    def gpu_seconds_since(self, repository: str, since: float, author: str | None = None) -> float:
        """The seconds that a repository's jobs, all or one person's, kept a GPU busy since a time."""
        ...


@dataclass(frozen=True)
class Desk:
    """One for the whole service."""

    inbox: Inbox
    clients: GitHubClients
    put_artifact: Callable[[bytes, str], str]
    addresses: Addresses
    html_host: str  # whose links are followed, with its port where it has one
    snapshot_limit_bytes: int
    work_s: float  # how long one delivery may take before another worker may have it
    clock: Callable[[], float]  # the production's, by which it dates jobs

    def client(self, repository: str, installation_id: int | None) -> GitHubClient:
        """A client for one delivery's work."""
        deadline_s = time.monotonic() + self.work_s * WORK_SHARE
        return self.clients.client(repository, installation_id, CredentialPurpose.intake, deadline_s)

    def at_github(self, ours: datetime) -> datetime:
        """GitHub's time when the production's clock, as it is set now, was at ``ours``."""
        return ours + (self.clients.clock.now() - datetime.fromtimestamp(self.clock(), UTC))

    def snapshot(self, github: GitHubClient, sha: str) -> str:
        """Keep a repository as it is at a commit; give the digest of its tarball."""
        tarball = github.snapshots.tarball(sha, self.snapshot_limit_bytes)
        return self.put_artifact(tarball, "application/gzip")
