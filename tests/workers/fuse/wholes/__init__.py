"""Whole models with their traces: ``NAME.py`` in the KernelBench form, ``NAME.json`` the captures of it and of its parts.

``python -m tests.workers.fuse.wholes [NAME]`` captures them again.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from gpu_runner.contracts import CaptureRequest, CaptureResult, parse_problem
from gpu_runner.contracts.envelope import from_json, to_json
from tests.compact import compact
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal
from workers.fuse.cut import Cut, cut
from workers.fuse.part import Part, digest_of, moves_more, style_of
from workers.fuse.traced import Traced, traced_of

FOLDER = Path(__file__).parent
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def source_of(name: str) -> str:
    """The model."""
    return (FOLDER / f"{name}.py").read_text()


class Captures:
    """What was captured of a model and of its parts, by digest of their text; a new one is captured where that is allowed."""

    def __init__(self, name: str, *, fresh: bool = False) -> None:
        path = FOLDER / f"{name}.json"
        self.fresh = fresh
        self.known: dict[str, Any] = {} if fresh else json.loads(path.read_text())
        self.used: dict[str, Any] = {}

    def of(self, source: str, *, whole: bool = False) -> CaptureResult:
        """The capture of a problem."""
        key = "model" if whole else digest_of(source)
        if key not in self.known:
            assert self.fresh, "the cut has another part than was captured: run python -m tests.workers.fuse.wholes"
            self.known[key] = to_json(_captured(source, whole=whole))
        self.used[key] = self.known[key]
        return from_json(CaptureResult, self.known[key])

    def written(self, part: Part) -> Proposal | AuthorRefusal:
        """The compiler's answer for a part."""
        captured = self.of(part.source)
        assert captured.graph is not None, captured.error
        brief = Brief(part.name, parse_problem(part.source), captured.graph, style_of(part.name))
        return CompilerAuthor().propose(brief)

    def refusal(self, part: Part) -> str | None:
        """Why the compiler's kernels are no part."""
        answer = self.written(part)
        return answer.sentence if isinstance(answer, AuthorRefusal) else moves_more(part, answer.plan)


def _captured(source: str, *, whole: bool) -> CaptureResult:
    from gpu_runner.capture import run
    from gpu_runner.context import RunContext

    return run(CaptureRequest(source, whole=whole), RunContext(Path(tempfile.mkdtemp())))


@cache
def cut_model(name: str) -> tuple[Traced, Cut, dict[str, str]]:
    """A model, its cut, and the compiler's file of each part."""
    captures = Captures(name)
    return _cut(name, captures)


def _cut(name: str, captures: Captures) -> tuple[Traced, Cut, dict[str, str]]:
    source = source_of(name)
    model = traced_of(source, captures.of(source, whole=True))
    chosen = cut(model, captures.refusal)
    bodies = {part.name: captures.written(part) for part in chosen.parts.values()}
    return model, chosen, {part: body.source for part, body in bodies.items() if isinstance(body, Proposal)}


def main(names: list[str]) -> None:
    """Capture models again."""
    for name in names or NAMES:
        captures = Captures(name, fresh=True)
        _, chosen, _ = _cut(name, captures)
        (FOLDER / f"{name}.json").write_text(compact(captures.used) + "\n")
        print(f"{name}: {', '.join(chosen.parts)}")
