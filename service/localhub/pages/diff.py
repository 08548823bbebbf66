"""A diff as rows with line numbers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.localhub.git import ChangedFile
from service.localhub.state import ReviewComment

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_MOST_ROWS = 2_000


@dataclass(frozen=True)
class Row:
    """A line of a diff; ``kind`` is hunk, added, removed, same or note."""

    kind: str
    old: int | None
    new: int | None
    text: str
    comments: tuple[ReviewComment, ...] = ()


@dataclass(frozen=True)
class FileDiff:
    """A file with its rows; ``cut`` where it has more than are shown."""

    file: ChangedFile
    rows: tuple[Row, ...]
    cut: bool


def file_diff(file: ChangedFile, comments: Sequence[ReviewComment] = ()) -> FileDiff:
    """The rows of a file, each with the comments that stand on it."""
    mine = [one for one in comments if one.path == file.path]
    rows = list(_rows(file.patch or "", mine))
    return FileDiff(file, tuple(rows[:_MOST_ROWS]), len(rows) > _MOST_ROWS)


def hunk_rows(hunk: str, most: int = 5) -> list[Row]:
    """The last lines of a hunk, for a comment in the conversation."""
    return [row for row in _rows(hunk, []) if row.kind != "hunk"][-most:]


def _rows(patch: str, comments: Sequence[ReviewComment]) -> Iterator[Row]:
    old = new = 0
    for line in patch.split("\n") if patch else []:
        match = _HUNK.match(line)
        if match:
            old, new = int(match[1]), int(match[2])
            yield Row("hunk", None, None, line)
        elif line.startswith("+"):
            yield Row("added", None, new, line[1:], _at(comments, "RIGHT", new))
            new += 1
        elif line.startswith("-"):
            yield Row("removed", old, None, line[1:], _at(comments, "LEFT", old))
            old += 1
        elif line.startswith("\\"):
            yield Row("note", None, None, line[2:])
        else:
            yield Row("same", old, new, line[1:], _at(comments, "RIGHT", new))
            old, new = old + 1, new + 1


def _at(comments: Sequence[ReviewComment], side: str, line: int) -> tuple[ReviewComment, ...]:
    return tuple(one for one in comments if one.side == side and one.line == line)
