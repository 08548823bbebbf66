"""Plays a maintainer's conversation with the bot, and leaves what came of it in a folder."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import typer

from deploy.demo import library
from deploy.demo.library import audit
from deploy.demo.scripts import SCRIPTS, Script
from deploy.demo.theatre import (
    ASKER,
    MAINTAINER,
    REPOSITORY,
    DemoError,
    Theatre,
    empty_folder,
    kept_ports,
    open_theatre,
)
from deploy.localhub.conversation import CommentEntry, CommitEntry, Entry, OpeningEntry, ReviewEntry
from workers import artifacts, inbox
from workers.contracts import JobState, JobView, StageState

STATES = {"APPROVED": "approved", "CHANGES_REQUESTED": "requested changes", "COMMENTED": "commented"}


def transcript(parts: list[tuple[str, list[Entry]]]) -> str:
    """Conversations, each with its title, entry after entry."""
    return "\n".join(f"# {title}\n\n" + "\n".join(_entry(entry) for entry in entries) for title, entries in parts)


def headline(entry: Entry) -> str:
    """An entry in one line."""
    return f"{entry.by} {_did(entry)}{_first_line(entry)}"


def _entry(entry: Entry) -> str:
    body = getattr(entry, "body", "") or ""
    return f"**{entry.by}** {_did(entry)}  \n\n{_quoted(body)}" if body else f"**{entry.by}** {_did(entry)}\n"


def _did(entry: Entry) -> str:
    if isinstance(entry, OpeningEntry):
        return f"opened «{entry.title}»"
    if isinstance(entry, CommentEntry):
        return "commented" + (" (edited)" if entry.edited else "") + (" (minimised)" if entry.minimized else "")
    if isinstance(entry, ReviewEntry):
        return f"{STATES.get(entry.state, entry.state.lower())} at {entry.commit_id[:7]}"
    if isinstance(entry, CommitEntry):
        return f"committed {entry.sha[:7]} {entry.message.splitlines()[0]}"
    return f"{entry.kind.replace('_', ' ')} {entry.detail}".rstrip()


def _first_line(entry: Entry) -> str:
    lines = [line for line in (getattr(entry, "body", "") or "").splitlines() if line and not line.startswith("<!--")]
    return f": {lines[0][:140]}" if lines and not isinstance(entry, OpeningEntry) else ""


def _quoted(body: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in body.strip().splitlines()) + "\n"


LIMIT_S = 900.0
POLL_S = 0.5
ENDED = (JobState.done, JobState.failed, JobState.cancelled)


def play(out: Path, keep: bool = False, archive: Path | None = None, script: Script = SCRIPTS["create"]) -> int:
    """Play it and give the exit status: 0 only if the job is done and its patch applies to the untouched library."""
    started = time.monotonic()
    try:
        ports = kept_ports() if keep else (0, 0)
        source = archive or library.fetch(out.parent / "library")
        with empty_folder(out), tempfile.TemporaryDirectory() as scratch:
            untouched = library.unpack(source, Path(scratch))
            say(started, f"{library.PROJECT} {library.VERSION} is unpacked; starting localhub and the bot")
            with open_theatre(out, untouched, ports) as theatre:
                passed = _act(theatre, script, out, untouched, started)
                if keep:
                    _stay(theatre)
        return 0 if passed else 1
    except (DemoError, library.LibraryError) as error:
        typer.echo(f"The demo stopped: {error}", err=True)
        return 1


def say(started: float, text: str) -> None:
    """Print one line with the seconds since the start."""
    typer.echo(f"[{time.monotonic() - started:6.1f} s] {text}")


def _act(theatre: Theatre, script: Script, out: Path, untouched: Path, started: float) -> bool:
    issue = theatre.hub.open_issue(REPOSITORY, ASKER, script.issue_title, script.issue_body)
    theatre.hub.comment(REPOSITORY, issue.number, MAINTAINER, script.command)
    say(started, f"{MAINTAINER} commented `{script.command}` on {theatre.hub_url}/{REPOSITORY}/issues/{issue.number}")
    audience = Audience(theatre, issue.number, started, script.approvals)
    job = audience.watch()
    done = job.state is JobState.done and _encore(audience, script, job)
    _leave(theatre, out, issue.number, job)
    say(started, f"the job is {job.state.value}; now the library's own checks on the patch, without the bot")
    held = _audited(script, out / "pull_request.patch", untouched, started)
    typer.echo(f"\nConversation: {out}/transcript.md   report: {out}/report.json   patch: {out}/pull_request.patch")
    return done and held


def _encore(audience: Audience, script: Script, job: JobView) -> bool:
    """Say what is said on the pull request at last, and tell whether that ended well too."""
    if script.encore is None or job.pull_number is None:
        return True
    audience.theatre.hub.comment(REPOSITORY, job.pull_number, MAINTAINER, script.encore)
    audience.issue = job.pull_number
    return audience.watch().state is JobState.done


def _audited(script: Script, patch: Path, untouched: Path, started: float) -> bool:
    if not patch.exists():
        return False
    findings = audit(patch, untouched, script.kernel_tests, script.neighbours)
    for finding in findings:
        say(started, f"  {'held' if finding.held else 'BROKEN'}: {finding.what}  {finding.detail}")
    return all(finding.held for finding in findings)


class Audience:
    """Watches a job, tells what happens, and approves each checkpoint once."""

    def __init__(self, theatre: Theatre, issue: int, started: float, approvals: dict[str, str]) -> None:
        self.theatre = theatre
        self.approvals = approvals
        self.issue = issue
        self.started = started
        self._told: set[object] = set()
        self._approved: set[tuple[str, int]] = set()

    def watch(self) -> JobView:
        """The job when it has ended.

        Raises:
            DemoError: it did not end in time, or the bot's process did.
        """
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            self.theatre.check()
            jobs = inbox.find_jobs(REPOSITORY, self.issue)
            if jobs:
                self._tell(jobs[0])
                if jobs[0].state in ENDED and not inbox.counts()["updates"].get("pending"):
                    return jobs[0]
                self._decide(jobs[0])
            time.sleep(POLL_S)
        raise DemoError(f"the job did not end within {LIMIT_S:.0f} s; read {self.theatre.log}")

    def _tell(self, job: JobView) -> None:
        for stage in job.stages:
            mark: object = (stage.stage, stage.attempt, stage.note)
            if stage.note and stage.state is StageState.running and mark not in self._told:
                self._told.add(mark)
                say(self.started, f"  {stage.stage.value}: {stage.note}")
        numbers = [self.issue, *([job.pull_number] if job.pull_number else [])]
        for number in numbers:
            for entry in self.theatre.hub.conversation(REPOSITORY, number)[1:]:
                mark = (number, type(entry).__name__, entry.id, getattr(entry, "sha", ""))
                if mark not in self._told:
                    self._told.add(mark)
                    say(self.started, f"#{number} {headline(entry)}")

    def _decide(self, job: JobView) -> None:
        point = job.checkpoint
        if job.state is not JobState.waiting or point is None or point.sha is None:
            return
        key = (point.stage.value, point.attempt)
        # A reviewer decides once the checkpoint is told, not as soon as its commit is there.
        if key not in self._approved and not inbox.counts()["updates"].get("pending"):
            self._approved.add(key)
            words = self.approvals[point.stage.value]
            if job.pull_number is None:
                command = f"/kernel approve {point.sha[:12]}"
                self.theatre.hub.comment(REPOSITORY, self.issue, MAINTAINER, f"{words}\n\n{command}")
            else:
                self.theatre.hub.review(REPOSITORY, job.pull_number, MAINTAINER, "APPROVE", words, commit_id=point.sha)


def _leave(theatre: Theatre, out: Path, issue: int, job: JobView) -> None:
    hub = theatre.hub
    parts = [(f"Issue #{issue}", hub.conversation(REPOSITORY, issue))]
    if job.pull_number is not None:
        parts.append((f"Pull request #{job.pull_number}", hub.conversation(REPOSITORY, job.pull_number)))
    (out / "transcript.md").write_text(transcript(parts), encoding="utf-8")
    for artifact in job.artifacts:
        (out / Path(artifact.name).name).write_bytes(artifacts.get(artifact.digest))
    if job.pull_number is not None:
        text = hub.as_patch(REPOSITORY, job.pull_number)
        (out / "pull_request.patch").write_bytes(text.encode("utf-8", "surrogateescape"))


def _stay(theatre: Theatre) -> None:
    typer.echo(f"\nlocalhub: {theatre.hub_url}/{REPOSITORY}   the bot's jobs: {theatre.service_url}/")
    typer.echo("Open an issue, comment `/kernel help`, review. Ctrl+C ends it.")
    try:
        while True:
            theatre.check()
            time.sleep(1)
    except KeyboardInterrupt:
        typer.echo("")
