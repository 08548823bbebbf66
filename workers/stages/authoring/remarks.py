"""A review as numbered points for a model, and its replies as sentences for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.authors.llm.protocol import Remark, Reply
from workers.authors.protocol import Feedback
from workers.tree import Tree

MOST_QUOTED = 300  # characters of a line
MOST_SAID = 90  # characters of a point, where it is told again
HEARD = "heard"  # in a stage's output: of how many points its result knows


def new_points(feedback: Sequence[Feedback], earlier: dict[str, Any] | None) -> tuple[Feedback, ...]:
    """Give what was said since the stage's last result; all of it where that was the first to hear any."""
    known = 0 if earlier is None else int(earlier.get(HEARD, 0))
    return tuple(point for point in feedback[known:] if point.text.strip())


def remarks_of(points: Sequence[Feedback], tree: Tree) -> tuple[Remark, ...]:
    """Give points as remarks, numbered from 1, those on a line with the line as it stands in ``tree``."""
    return tuple(
        Remark(number, point.text, point.path, point.line, _line(tree, point)) for number, point in enumerate(points, 1)
    )


def answered(remarks: Sequence[Remark], replies: Sequence[Reply]) -> tuple[str, ...]:
    """Give each point with what was done about it, a sentence each; all of it is untrusted text."""
    said = {reply.number: reply.text for reply in replies}
    return tuple(f"{_subject(remark)}: {said.get(remark.number, NOTHING)}" for remark in remarks)


NOTHING = "the model said nothing about it."


def _subject(remark: Remark) -> str:
    words = " ".join(remark.text.split()).replace("`", "'")
    shown = words if len(words) <= MOST_SAID else words[: MOST_SAID - 1].rstrip() + "…"
    if remark.path is None:
        return f"“{shown}”"
    path = remark.path.replace("`", "'")
    return f"`{path}{f':{remark.line}' if remark.line else ''}`, “{shown}”"


def _line(tree: Tree, point: Feedback) -> str | None:
    if point.path is None or point.line is None:
        return None
    lines = (tree.read(point.path) or "").splitlines()
    return lines[point.line - 1][:MOST_QUOTED] if 1 <= point.line <= len(lines) else None
