"""The pages of docs/knowledge/ whose triggers hold for a kernel, as a model is given them. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from gpu_runner.contracts import Problem
from gpu_runner.contracts.reading import walk
from workers.strategies.evidence import row_bytes

RULED = ("anti-patterns", "languages")  # the optimizations are strategies, whose triggers are code
RULE = re.compile(r"\A---\n(.*?)---\n+", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Page:
    """A page: its sections by heading, and the rule by which it is found to hold."""

    title: str
    sections: dict[str, str]
    calls: tuple[str, ...] = ()  # functions or methods, of which the file calls one
    without: tuple[str, ...] = ()  # texts, of which the file has none
    row_bytes: int = 0  # some size has rows of so many bytes

    @property
    def advice(self) -> str:
        """What to know before the change is made."""
        return " ".join(self.sections[heading] for heading in ("Mechanism", "Evidence")) + f" {self.counter}"

    @property
    def counter(self) -> str:
        """What speaks against it."""
        return f"Counter-evidence: {self.sections['Counter-evidence']}"

    def called_in(self, source: str, calls: Iterable[str], problem: Problem) -> str | None:
        """The call by which the page holds for a file and its problem; None where it does not."""
        if any(text in source for text in self.without):
            return None
        if self.row_bytes and all(row_bytes(problem, size) < self.row_bytes for size in problem.workloads):
            return None
        return next((name for name in self.calls for call in calls if f".{call}".endswith(f".{name}")), None)


def read_page(text: str) -> Page:
    """A page of the knowledge base.

    Raises:
        ValueError: its rule has a key that is not known.
    """
    rule = RULE.match(text)
    fields = dict(line.split(": ", 1) for line in (rule[1].splitlines() if rule else ()))
    if not fields.keys() <= {"calls", "without", "row_bytes"}:
        message = f"a rule of a page has calls, without and row_bytes, not {', '.join(fields)}"
        raise ValueError(message)
    title, *parts = re.split(r"^#+ ", text[rule.end() if rule else 0 :], flags=re.MULTILINE)[1:]
    sections = (part.partition("\n") for part in parts)
    names = {key: tuple(fields[key].split(", ")) for key in ("calls", "without") if key in fields}
    return Page(
        title.strip(),
        {heading: " ".join(LINK.sub(r"\1", body).split()) for heading, _, body in sections},
        row_bytes=int(fields.get("row_bytes", 0)),
        **names,
    )


@cache
def page_of(document: str) -> Page:
    """The page of a strategy."""
    return read_page(_folder("optimizations").joinpath(document).read_text("utf-8"))


@cache
def ruled_pages() -> tuple[Page, ...]:
    """The pages that have a rule."""
    found = (item for name in RULED for item in _below(_folder(name)))
    return tuple(page for item in found if (page := read_page(item.read_text("utf-8"))).calls)


def _below(folder: Traversable) -> Iterator[Traversable]:
    """The files of a folder and of those in it, by name."""
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        yield from _below(item) if item.is_dir() else (item,)


def applying(source: str, problem: Problem) -> tuple[tuple[Page, str], ...]:
    """The pages whose rules hold for a file, each with the call by which it does; none where the file is not Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    calls = sorted({ast.unparse(node.func) for node in walk(tree) if isinstance(node, ast.Call)})
    held = ((page, page.called_in(source, calls, problem)) for page in ruled_pages())
    return tuple((page, call) for page, call in held if call is not None)


def _folder(name: str) -> Traversable:
    return files("workers.strategies").joinpath("knowledge", *name.split("/"))
