"""What a change may touch and how much, whoever proposed it and whatever was said. Pure; the last word before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.llm.protocol import Fault
from workers.contracts import FileChange
from workers.layouts.protocol import Changeable, Shared
from workers.layouts.regions import outside
from workers.stages.modifying.added_tests import weakening
from workers.stages.modifying.diffs import counted
from workers.tree import Tree

MOST_LINES = 400  # that come and go, in the kernel's files and in its tests each
MOST_SHARE = 0.6  # of a file's lines that go
LEAST_LINES = 40  # of a file before a share of it says anything


@dataclass(frozen=True)
class Objection:
    """Why a change is not even run. The sentence is ours and quotes names alone."""

    fault: Fault
    sentence: str


def objection(changes: tuple[FileChange, ...], changeable: Changeable, tree: Tree) -> Objection | None:
    """Give the first thing that a change may not do; None where it keeps to what is its own."""
    for change in changes:
        found = _of_place(change, changeable, tree)
        if found is not None:
            return found
    if all(change.path in changeable.tests or change.text == tree.read(change.path) for change in changes):
        return Objection(Fault.same, "The kernel's files stay as they are: nothing is changed.")
    return _of_size(changes, changeable, tree)


def within(changes: tuple[FileChange, ...], changeable: Changeable, tree: Tree) -> bool:
    """Tell whether changes, such as those of a formatter, keep to the places that are given."""
    return all(_of_place(change, changeable, tree) is None for change in changes)


def _of_place(change: FileChange, changeable: Changeable, tree: Tree) -> Objection | None:
    if change.path not in changeable.paths:
        return Objection(Fault.path, "A file is changed that is none of the kernel's own files and tests.")
    if change.text is None:
        return Objection(Fault.path, f"`{change.path}` would be removed.")
    old = tree.read(change.path) or ""
    if change.path in changeable.tests:
        weaker = weakening(old, change.text)
        return None if weaker is None else Objection(Fault.tests, f"`{change.path}`: {weaker}")
    shared = next((item for item in changeable.shared if item.path == change.path), None)
    return None if shared is None else _of_shared(shared, old, change.text)


def _of_shared(shared: Shared, old: str, new: str) -> Objection | None:
    after = outside(new, shared.functions)
    if after is not None and after == outside(old, shared.functions):
        return None
    named = ", ".join(f"`{name}`" for name in shared.functions)
    return Objection(Fault.path, f"Other kernels share `{shared.path}`: only {named} may be changed in it.")


def _of_size(changes: tuple[FileChange, ...], changeable: Changeable, tree: Tree) -> Objection | None:
    lines = {False: 0, True: 0}
    for change in changes:
        old = tree.read(change.path) or ""
        added, removed = counted(old, change.text or "")
        lines[change.path in changeable.tests] += added + removed
        standing = len(old.splitlines())
        if standing >= LEAST_LINES and removed > MOST_SHARE * standing:
            told = f"{removed} of {standing} lines of `{change.path}` are replaced, and at most {MOST_SHARE:.0%} may be"
            return Objection(Fault.too_large, f"{told}: change only what the request needs.")
    for is_test, count in lines.items():
        if count > MOST_LINES:
            what = "tests" if is_test else "kernel's files"
            told = f"{count} lines come and go in the {what}, and at most {MOST_LINES} may"
            return Objection(Fault.too_large, f"{told}: change only what the request needs.")
    return None
