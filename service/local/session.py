"""A job on a checkout, without GitHub: its updates become files and commits on a new branch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runner.contracts import from_json
from service.local.asking import (
    LocalJob,
    as_commands,
    comparing_request,
    nightly_request,
    stopped_comment,
    writing_request,
)
from service.local.checkout import Checkout
from service.local.terminal import StoppedError, Terminal, TerminalChoice
from service.report.job import checkpoint_comment, report_comment
from service.report.layout import Links
from service.report.measure import is_worse
from service.report.nightly import has_regressed
from service.report.pull_request import (
    commit_message,
    is_commit_of,
    pull_request_body,
    pull_request_title,
    with_trailer,
)
from service.report.status import MEASURING
from workers import artifacts, embedded, inbox, outbox
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    ClaimedUpdate,
    CommitUpdate,
    Decision,
    DecisionOutcome,
    Effect,
    Failure,
    FailureCode,
    JobRequest,
    JobState,
    JobView,
    LineComment,
    MeasuredKernel,
    MeasureSummary,
    NightlySummary,
    PullRequestUpdate,
    ReportUpdate,
    UserFacingError,
    Verb,
)
from workers.embedded import Decided


class Rehearsal(Terminal):
    """Answers with the recorded decisions in their order, and approves where they have come to an end."""

    def __init__(self, decisions: Sequence[Decided]) -> None:
        super().__init__()
        self._left = list(decisions)

    def ask(self, job: JobView) -> TerminalChoice:
        """Decide as it was decided then."""
        if not self._left:
            return TerminalChoice(Decision.approve)
        decided = self._left.pop(0)
        stage = job.checkpoint.stage.value if job.checkpoint else "this stage"
        self.say(f"{stage}: {decided.decision.value}, as recorded.")
        words = "\n\n".join(point.text for point in decided.feedback if point.path is None)
        lines = tuple(LineComment(p.path, p.line, p.text) for p in decided.feedback if p.path is not None)
        return TerminalChoice(decided.decision, words, lines)


@dataclass
class LocalEffects:
    """Carries updates out; the same update twice changes nothing the second time."""

    checkout: Checkout
    out: Path
    show: Callable[[str], None]
    shown: set[str] = field(default_factory=set)

    def apply(self, claimed: ClaimedUpdate) -> Effect:
        """The effect of one update.

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


# Longer than git takes for a commit, and not so long that a run after an interruption seems to hang.
LEASE_S = 60.0
HELD = "Another run holds this job, or one was interrupted a moment ago; waiting."
UNUSABLE = "Nothing can run on {}; the job resumes by itself once that is over, and Ctrl-C leaves it for later."
AGAIN = "A step failed; retrying in a moment."
ENDED = (JobState.done, JobState.failed, JobState.cancelled)


class LocalSession:
    """Drives the same engine as the service does, with a person at the terminal for a reviewer."""

    def __init__(self, checkout: Checkout, out: Path, terminal: Terminal) -> None:
        self.checkout = checkout
        self.out = out
        self.terminal = terminal
        self.worker = f"local/{os.getpid()}"
        self.effects = LocalEffects(checkout, out, terminal.show)

    def run(self, asked: LocalJob) -> JobView:
        """Carry the job out and give it as it ended, or as it waits where the person left.

        Raises:
            UserFacingError: the command cannot be carried out as it stands; nothing is left of it.
        """
        request = self._request(asked)
        self.out.mkdir(parents=True, exist_ok=True)
        job_id = inbox.submit(request).job_id
        job = self._view(job_id)
        if job.state in (JobState.failed, JobState.cancelled) and inbox.retry(job_id, "local"):
            self.terminal.say(f"Job {job_id} had stopped; resuming from that stage.")
        elif job.stages and job.stages[0].started_at:
            self.terminal.say(f"Job {job_id} already exists; resuming.")
        try:
            job = self._until_it_ends(job_id, asked.options.auto)
        except StoppedError:
            self.terminal.say("The job stays at this checkpoint. Run the same command again to decide.")
            job = self._view(job_id)
        self._copy_artifacts(job)
        return job

    def _copy_artifacts(self, job: JobView) -> None:
        """Lay the job's artifacts into its folder; a report that was shown there stays as it was shown."""
        root = self.out.resolve()
        for artifact in job.artifacts:
            place = (root / artifact.name).resolve()
            if place.is_relative_to(root) and artifact.name not in self.effects.shown:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(artifacts.get(artifact.digest))

    def _until_it_ends(self, job_id: str, auto: bool) -> JobView:
        notified = False
        while True:
            with self.terminal.following(job_id):
                worked = embedded.drive(1, only=job_id)
                published = self._publish(job_id)
            job = self._view(job_id)
            if worked or published:
                notified = False
                continue
            if job.state in ENDED:
                return job
            if job.state is JobState.waiting:
                self._decide(job, auto)
            else:
                due_in_s = embedded.next_due_in_s()
                if not notified:
                    unusable = UNUSABLE.format(job.host_trouble) if job.host_trouble else None
                    self.terminal.say(unusable or (HELD if due_in_s is None else AGAIN))
                    notified = True
                time.sleep(min(5.0, due_in_s or 0.5))

    def _decide(self, job: JobView, auto: bool) -> None:
        # Somebody who began without --auto and goes on with it wants to be asked no more.
        choice = TerminalChoice(Decision.approve) if auto else self.terminal.ask(job)
        sha = (job.checkpoint.sha if job.checkpoint else None) or job.head_sha or job.request.base_sha
        key = f"local:{job.job_id}:{len(job.stages)}:{choice.decision.value}"
        outcome = inbox.decide(
            job.job_id, None, sha, choice.decision, choice.feedback, choice.lines, "local", key
        ).outcome
        if outcome is DecisionOutcome.attempts_used and choice.decision is Decision.revise:
            self.terminal.say("This stage has had all its attempts; approve it or quit.")

    def _publish(self, job_id: str) -> int:
        done = 0
        while (claimed := outbox.claim(self.worker, LEASE_S, only=job_id)) is not None:
            try:
                effect = self.effects.apply(claimed)
            except UserFacingError as error:
                outbox.give_up(claimed.update_id, self.worker, error.failure)
                self.terminal.say(error.failure.message)
            except KeyboardInterrupt:
                # The next run need not wait until the lease has run out.
                outbox.postpone(claimed.update_id, self.worker, "interrupted", 0, refused=False)
                raise
            else:
                outbox.complete(claimed.update_id, self.worker, effect)
            done += 1
        return done

    def _request(self, asked: LocalJob) -> JobRequest:
        changed = self.checkout.changed()
        if changed and not asked.dirty:
            self.terminal.say(f"Not committed, so not part of the job: {', '.join(changed[:5])}")
        if asked.verb is Verb.nightly:
            return nightly_request(self.checkout, asked)
        return (
            comparing_request(self.checkout, asked)
            if asked.verb in MEASURING
            else writing_request(self.checkout, asked)
        )

    def _view(self, job_id: str) -> JobView:
        job = inbox.get_job(job_id)
        if job is None:
            raise UserFacingError(Failure(FailureCode.internal, f"job {job_id} is gone from the database"))
        return job


def worse(job: JobView) -> bool:
    """Whether a comparison found anything slower, larger or wrong."""
    report = artifacts.report_of(job)
    return report is not None and is_worse(from_json(MeasureSummary, report))


def compared(job: JobView, name: str) -> MeasuredKernel:
    """What a comparison of one kernel came to; a commit with which it ends early is one that cannot be measured.

    Raises:
        UserFacingError: the fault is not the commit's.
    """
    report = artifacts.report_of(job)
    if report is not None:
        return from_json(MeasureSummary, report).kernels[0]
    failure = job.failure or Failure(FailureCode.internal, f"job {job.job_id} ended without a report")
    if failure.code in (FailureCode.environment, FailureCode.internal):
        raise UserFacingError(failure)
    return MeasuredKernel(name, "", (), skipped=failure)


def was_predicted(job: JobView) -> bool:
    """Whether a comparison was made where no GPU was, so that nothing was timed."""
    report = artifacts.report_of(job)
    kernels = () if report is None else from_json(MeasureSummary, report).kernels
    return any(kernel.benchmark is not None and kernel.benchmark.predicted for kernel in kernels)


def regressed(job: JobView) -> bool:
    """Whether a night confirmed a change for the worse."""
    report = artifacts.report_of(job)
    return report is not None and has_regressed(from_json(NightlySummary, report))
