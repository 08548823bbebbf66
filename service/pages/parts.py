"""What the page of a fused model shows of its parts: a picture that fills as they are proved, and their sources. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workers.contracts import JobView, Verb

NODE = re.compile(r'^ +(?P<unit>n\d+)\["(?P<label>[^"]*)"\]$', re.MULTILINE)
EDGE = re.compile(r"^ +(?P<source>n\d+) --> (?P<target>n\d+)$", re.MULTILINE)
MOST_NODES = 160
MOST_SOURCES = 24  # parts whose sources are on the page
MOST_CHARACTERS = 40_000  # of a source
# Units of the picture, which is as wide as a phone.
WIDTH, ROW, BOX, GAP, LETTER = 360, 46, 30, 6, 6.2
PROVED, FAILED, WAITING, TORCH = "proved", "failed", "waiting", "torch"
OUTCOMES = {PROVED: "proved", FAILED: "not proved", WAITING: "not tried yet"}


@dataclass(frozen=True)
class PartRow:
    """A part: what became of it by now, and its sources, empty where there are none yet."""

    name: str
    operators: str
    state: str
    outcome: str
    problem: str
    candidate: str


@dataclass(frozen=True)
class Box:
    """A part or an operator of torch in the picture."""

    x: float
    y: float
    width: float
    state: str
    text: str
    title: str


@dataclass(frozen=True)
class Line:
    """What one box computes for another."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class CutPicture:
    """The cut, from its inputs down."""

    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class FusedParts:
    """The parts of a model; ``picture`` is None where it is too large, ``whole`` what became of the program."""

    parts: tuple[PartRow, ...]
    picture: CutPicture | None
    whole: str

    @property
    def proved(self) -> int:
        """How many parts are proved."""
        return sum(part.state == PROVED for part in self.parts)


def parts_of(job: JobView, load: Callable[[str], bytes]) -> FusedParts | None:
    """The parts of a model that is fused; None for another job, or before it is cut."""
    digests = {artifact.name: artifact.digest for artifact in job.artifacts}
    if job.request.verb is not Verb.fuse or "subgraphs.json" not in digests:
        return None

    def text(name: str) -> str:
        try:
            return load(digests[name]).decode("utf-8", "replace")
        except (LookupError, OSError):
            return ""

    def form(name: str) -> dict[str, Any]:
        try:
            read = json.loads(text(name))
        except ValueError:
            return {}
        return read if isinstance(read, dict) else {}

    listed = {str(row.get("id")): row for row in form("subgraphs.json").get("subgraphs", ()) if isinstance(row, dict)}
    tried = [
        name.split("/")[1] for name in digests if name.startswith("kernels_out/") and name.endswith("/verdict.json")
    ]
    rows: list[PartRow] = []
    for name in dict.fromkeys((*listed, *tried)):
        state, outcome = _outcome(form(f"kernels_out/{name}/verdict.json"))
        operators = ", ".join(map(str, listed.get(name, {}).get("operators", ())))
        sources = [
            text(f"kernels_out/{name}/{file}.py")[:MOST_CHARACTERS] if len(rows) < MOST_SOURCES else ""
            for file in ("problem", "candidate")
        ]
        rows.append(PartRow(name, operators, state, outcome, *sources))
    states = {row.name: row.state for row in rows}
    _, whole = _outcome(form("compose_out/verdict.json"))
    return FusedParts(tuple(rows), cut_picture(text("cut.md"), states), whole)


def _outcome(verdict: Mapping[str, Any]) -> tuple[str, str]:
    status = verdict.get("status")
    if not isinstance(status, str):
        return WAITING, OUTCOMES[WAITING]
    state = PROVED if status == "passed" else FAILED
    return state, OUTCOMES[state] if state == PROVED else f"{OUTCOMES[state]}: {status}"


def cut_picture(mermaid: str, states: Mapping[str, str]) -> CutPicture | None:
    """The flowchart of a cut as boxes and lines, each part by what became of it; None where it has no nodes, or too many."""
    labels = {match["unit"]: match["label"].split("<br/>") for match in NODE.finditer(mermaid)}
    edges = [(match["source"], match["target"]) for match in EDGE.finditer(mermaid)]
    if not 0 < len(labels) <= MOST_NODES:
        return None
    # Nodes are numbered in an order in which they can be computed.
    rank = dict.fromkeys(labels, 0)
    order = {unit: place for place, unit in enumerate(labels)}
    for source, target in sorted(
        (e for e in edges if set(e) <= labels.keys()), key=lambda e: (order[e[1]], order[e[0]])
    ):
        rank[target] = max(rank[target], rank[source] + 1)
    rows: dict[int, list[str]] = {}
    for unit in labels:
        rows.setdefault(rank[unit], []).append(unit)
    boxes: dict[str, Box] = {}
    for place, units in rows.items():
        width = WIDTH / len(units)
        for column, unit in enumerate(units):
            state, words = _words(labels[unit], states)
            title = " ".join(labels[unit])
            room = int((width - 2 * GAP) / LETTER)
            shown = words if len(words) <= room else f"{words[: max(room - 1, 0)]}…"
            boxes[unit] = Box(column * width + GAP / 2, place * ROW + GAP, width - GAP, state, shown, title)
    lines = tuple(
        Line(one.x + one.width / 2, one.y + BOX, other.x + other.width / 2, other.y)
        for one, other in ((boxes[s], boxes[t]) for s, t in dict.fromkeys(edges) if s in boxes and t in boxes)
    )
    return CutPicture(len(rows) * ROW + GAP, tuple(boxes.values()), lines)


def _words(label: list[str], states: Mapping[str, str]) -> tuple[str, str]:
    """The state of a node, and what its box says."""
    if len(label) == 3 and label[1] in states:
        return states[label[1]], f"{label[0].removeprefix('part ')} · {label[2]}"
    return TORCH if label[-1] == "torch" else WAITING, label[0] if label[-1] == "torch" else " · ".join(label)
