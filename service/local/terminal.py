"""What a person sees of a local job: progress on standard error, checkpoints as markdown, and a question where one decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.markdown import Markdown

from service.local.unfolded import unfolded
from workers import inbox
from workers.contracts import Decision, JobView, LineComment, StageState

POLL_S = 0.5


@dataclass(frozen=True)
class Choice:
    """What a person decided, and why."""

    decision: Decision
    feedback: str = ""
    lines: tuple[LineComment, ...] = ()


class StoppedError(Exception):
    """The person left at a checkpoint; the job stays where it is."""


class Terminal:
    """Progress and comments go to standard error, so that standard output stays for ``--json``."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """Print one line."""
        self.console.print(text, highlight=False, markup=False)

    def show(self, markdown: str) -> None:
        """Print a comment as it would stand on GitHub, with all of it open."""
        self.console.print()
        self.console.print(Markdown(unfolded(markdown)))
        self.console.print()

    def ask(self, job: JobView) -> Choice:
        """Ask what to do at a checkpoint.

        Raises:
            StoppedError: the person leaves.
        """
        stage = job.checkpoint.stage.value if job.checkpoint else "this stage"
        while True:
            answer = typer.prompt(f"{stage}: approve, revise or quit", default="approve", err=True).strip().lower()
            if answer in {"a", "approve", "y", "yes"}:
                return Choice(Decision.approve)
            if answer in {"r", "revise"}:
                return Choice(Decision.revise, typer.prompt("what should change", err=True))
            if answer in {"q", "quit", "n", "no"}:
                raise StoppedError
            self.say("Say approve, revise or quit.")

    @contextmanager
    def following(self, job_id: str) -> Iterator[None]:
        """Print each new note of a job while the block runs."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(job_id, stop), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()

    def _watch(self, job_id: str, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            job = inbox.get_job(job_id)
            for stage in job.stages if job else ():
                line = f"  {stage.stage.value}: {stage.note}"
                if stage.state is StageState.running and stage.note and line not in self._said:
                    self._said.add(line)
                    self.say(line)


class Quiet(Terminal):
    """Prints progress and no comment: for jobs that are steps of something larger."""

    def show(self, markdown: str) -> None:
        """Print nothing; the comment is in the job's folder."""
