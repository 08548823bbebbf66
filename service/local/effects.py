"""The effects of updates on a local checkout: commits on a branch, and what would be said on GitHub as files in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from service.local.checkout import Checkout
from service.local.words import as_commands, stopped_comment
from service.publisher.trailers import is_commit_of, with_trailer
from service.report.job import checkpoint_comment, report_comment
from service.report.layout import Links
from service.report.pull_request import commit_message, pull_request_body, pull_request_title
from workers import artifacts
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    ClaimedUpdate,
    CommitUpdate,
    Effect,
    PullRequestUpdate,
    ReportUpdate,
)


@dataclass
class LocalEffects:
    """Carries updates out; the same update twice changes nothing the second time."""

    checkout: Checkout
    out: Path
    show: Callable[[str], None]
    shown: set[str] = field(default_factory=set)

    def apply(self, claimed: ClaimedUpdate) -> Effect:
        """Give the effect of one update.

        Raises:
            UserFacingError: the branch was moved by somebody else, or git failed.
        """
        update = claimed.update
        if isinstance(update, CommitUpdate):
            return Effect(sha=self._commit(claimed, update))
        if isinstance(update, PullRequestUpdate):
            title = pull_request_title(update, claimed.job)
            body = pull_request_body(update, claimed.job, self._links())
            self._write("pull_request.md", f"# {title}\n\n{body}\n")
        elif isinstance(update, AssetsUpdate):
            for image in update.images:
                (self.out / image.name).write_bytes(artifacts.get(image.digest))
        elif isinstance(update, CheckpointUpdate):
            images = {image.name: image.name for image in getattr(update.summary, "images", ())}
            comment = checkpoint_comment(update, claimed.job, self._links(), images)
            self._tell(f"{update.stage.value}-{update.attempt}.md", comment)
        elif isinstance(update, ReportUpdate):
            self._tell("report.md", self._report(claimed, update))
        return Effect()

    def _commit(self, claimed: ClaimedUpdate, update: CommitUpdate) -> str:
        job = claimed.job
        head = self.checkout.resolve(f"refs/heads/{job.branch}")
        if head is not None and is_commit_of(self.checkout.message(head), claimed.update_id):
            return head
        message = with_trailer(commit_message(update, job), claimed.update_id)
        return self.checkout.commit(job.branch, job.head_sha or job.request.base_sha, update.changes, message)

    def _report(self, claimed: ClaimedUpdate, update: ReportUpdate) -> str:
        if update.failure is not None:
            return stopped_comment(update.failure, claimed.job)
        return as_commands(report_comment(update, claimed.job, self._links(), {}))

    def _links(self) -> Links:
        return Links("", f"file://{self.checkout.folder}", "kernelsmith")

    def _tell(self, name: str, comment: str) -> None:
        self._write(name, comment)
        if name not in self.shown:
            self.shown.add(name)
            self.show(comment)

    def _write(self, name: str, text: str) -> None:
        (self.out / name).write_text(text, encoding="utf-8")
