"""How much a change changes, and how it is shown. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from workers.contracts import ChangedFile, FileChange
from workers.tree import Tree


def counted(old: str, new: str) -> tuple[int, int]:
    """Give how many lines come and how many go."""
    added = removed = 0
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""):
        if not line.startswith(("+++", "---")):
            added += line.startswith("+")
            removed += line.startswith("-")
    return added, removed


def changed_files(changes: Iterable[FileChange], tree: Tree) -> tuple[ChangedFile, ...]:
    """Give each file of a change with its numbers of lines."""
    return tuple(
        ChangedFile(change.path, *counted(tree.read(change.path) or "", change.text or "")) for change in changes
    )


def diff(changes: Iterable[FileChange], tree: Tree) -> str:
    """Give a change as a patch of the tree."""
    parts: list[str] = []
    for change in changes:
        old, new = tree.read(change.path) or "", change.text or ""
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{change.path}", f"b/{change.path}"
        )
        parts += [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)
