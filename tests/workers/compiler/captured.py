"""Captured problems as files: ``graphs/NAME.json`` holds a problem's source and its graph.

``python -m tests.workers.compiler.captured`` captures every problem again.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from gpu_runner.contracts import Graph, Problem, parse_problem
from gpu_runner.contracts.envelope import from_json, to_json
from tests.compact import compact
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal, SourceStyle

FOLDER = Path(__file__).parent / "graphs"
LIGER_HELPERS = tuple(
    (name, "liger_kernel.ops.utils") for name in ("calculate_settings", "device_context", "ensure_contiguous")
)
# The problems that the compiler refuses, with the operator that it names.
REFUSED = {"sort": "aten.sort.default", "every_other": "slice", "first_rows": "slice"}


def names() -> list[str]:
    """The captured problems."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


COMPILED = [name for name in names() if name not in REFUSED]
# Of these `make test` looks at how they are written; that all are compiled, and that their values are right, it sees of each.
LOOKED_AT = COMPILED[::3]


@cache
def captured(name: str) -> tuple[Problem, Graph]:
    """A problem and its graph."""
    form = json.loads((FOLDER / f"{name}.json").read_text())
    return parse_problem(form["problem"]), from_json(Graph, form["graph"])


def write(name: str, source: str, graph: Graph) -> None:
    """Keep a problem and its graph."""
    form = {"problem": source, "graph": to_json(graph)}
    (FOLDER / f"{name}.json").write_text(compact(form) + "\n")


def style(name: str, *, liger: bool = False, entry: str | None = "candidate") -> SourceStyle:
    """The style of a library without helpers, or of one with them."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    helpers = LIGER_HELPERS if liger else ()
    return SourceStyle(f"Liger{camel}Function", f"{name}_forward", f"{name}_backward", entry, helpers)


@cache
def answer(name: str, *, liger: bool = False, entry: str | None = "candidate") -> Proposal | AuthorRefusal:
    """Ask the compiler."""
    problem, graph = captured(name)
    return CompilerAuthor().propose(Brief(name, problem, graph, style(name, liger=liger, entry=entry)))


def proposal(name: str, *, liger: bool = False, entry: str | None = "candidate") -> Proposal:
    """Ask the compiler, which must not refuse."""
    given = answer(name, liger=liger, entry=entry)
    assert isinstance(given, Proposal), given
    return given


def main() -> None:
    """Capture every problem again."""
    from gpu_runner.capture import run
    from gpu_runner.context import RunContext
    from gpu_runner.contracts import CaptureRequest

    for name in names():
        source = json.loads((FOLDER / f"{name}.json").read_text())["problem"]
        result = run(CaptureRequest(source), RunContext(Path(tempfile.mkdtemp())))
        if result.graph is None:
            raise SystemExit(f"{name}: {result.error}")
        write(name, source, result.graph)


if __name__ == "__main__":
    main()
