"""The terminal: what is shown on it, and what is asked there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser

import typer
from rich.console import Console
from rich.markdown import Markdown

from service.report.layout import fences
from workers import inbox
from workers.contracts import Decision, JobView, LineComment, StageState

_SHOWN = {"summary": "**", "br": "; "}


def unfolded(markdown: str) -> str:
    """A comment with the titles of folded parts in bold and the lines of a cell side by side; code stays as it is."""
    return "\n".join(line if fence else _shown(line) for line, fence in fences(markdown.splitlines()))


def _shown(line: str) -> str:
    reader = _Line()
    reader.feed(line)
    reader.close()
    return "".join(reader.parts)


class _Line(HTMLParser):
    """One line of a comment of ours; what no terminal knows is left out, and entities stay for markdown to read."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, _attributes: list[tuple[str, str | None]]) -> None:
        self.parts.append(_SHOWN.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(_SHOWN.get(tag, ""))

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")


POLL_S = 0.5


@dataclass(frozen=True)
class TerminalChoice:
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

    def ask(self, job: JobView) -> TerminalChoice:
        """Ask what to do at a checkpoint.

        Raises:
            StoppedError: the person leaves.
        """
        stage = job.checkpoint.stage.value if job.checkpoint else "this stage"
        while True:
            answer = typer.prompt(f"{stage}: approve, revise or quit", default="approve", err=True).strip().lower()
            if answer in {"a", "approve", "y", "yes"}:
                return TerminalChoice(Decision.approve)
            if answer in {"r", "revise"}:
                return TerminalChoice(Decision.revise, typer.prompt("what should change", err=True))
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
