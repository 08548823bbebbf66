"""The terminal: what is shown on it, and what is asked there."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser

import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console
from rich.markdown import Markdown

from service.escape import clean
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


@functools.cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def plain_text(markdown: str) -> str:
    """A comment as text: no signs or escapes of markdown, the columns of tables aligned, links with their addresses."""
    lines: list[str] = []
    rows: list[list[str]] = []
    right: set[int] = set()  # columns of numbers
    items: list[str] = []  # the sign of each list that is open
    for token in _parser().parse(unfolded(markdown)):
        if token.type in ("fence", "code_block"):
            lines += [f"    {line}" for line in token.content.splitlines()]
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            items.append("")
        elif token.type == "list_item_open":
            items[-1] = "- " if token.markup == "-" else f"{token.info}. "
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            items.pop()
        elif token.type == "tr_open":
            rows.append([])
        elif token.type == "td_open" and "right" in str(token.attrGet("style")):
            right.add(len(rows[-1]))
        elif token.type == "inline" and rows:
            rows[-1].append(_inline(token.children or ()))
        elif token.type == "inline":
            indent = "  " * (len(items) - 1) + items[-1] if items else ""
            lines.append(indent + _inline(token.children or ()).replace("\n", "\n" + " " * len(indent)))
        elif token.type == "table_close":
            lines += _aligned(rows, right)
            rows, right = [], set()
        if token.level == 0 and token.nesting <= 0:
            lines.append("")
    return "\n".join(lines).strip("\n")


def _inline(tokens: Sequence[Token]) -> str:
    text, targets = "", list[str]()
    for token in tokens:
        if token.type == "link_open":
            targets.append(str(token.attrGet("href")))
        elif token.type == "link_close":
            text += f" ({targets.pop()})"
        elif token.type in ("softbreak", "hardbreak"):
            text += "\n"
        elif token.type == "image":
            text += f"{token.content} ({token.attrGet('src')})"
        else:
            text += token.content  # none in what opens and closes emphasis
    return text.replace("\u200b", "")


def _aligned(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = (
        (cell.rjust(width) if place in right else cell.ljust(width))
        for cells in rows
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return ["  ".join(next(padded) for _ in widths).rstrip() for _ in rows]


def show_markdown(markdown: str, console: Console) -> None:
    """Print a comment: laid out on a terminal, as plain text where the output is piped."""
    if console.is_terminal:
        console.print(Markdown(unfolded(markdown)))
    else:
        typer.echo(clean(plain_text(markdown)), file=console.file)


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
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, markdown: str) -> None:
        """Print a comment as it would stand on GitHub, with all of it open."""
        self.console.print()
        show_markdown(markdown, self.console)
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
            self.say("Answer approve, revise or quit.")

    @contextmanager
    def following(self, job_id: str) -> Iterator[None]:
        """Print each new note of a job while the block runs, and show on a terminal that it does."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(job_id, stop), daemon=True)
        watcher.start()
        try:
            with self.console.status("working"):
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
