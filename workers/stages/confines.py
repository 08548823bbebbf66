"""What a change may touch and how much, whoever proposed it and whatever was said. Pure; the last word before anything runs."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpu_runner.contracts.reading import UNPARSABLE
from workers.authors.llm.protocol import AnswerFault
from workers.contracts import ChangedFile, FileChange
from workers.layouts.protocol import Changeable, Shared
from workers.layouts.regions import outside
from workers.tree import Tree


def counted(old: str, new: str) -> tuple[int, int]:
    """How many lines come and how many go."""
    added = removed = 0
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""):
        if not line.startswith(("+++", "---")):
            added += line.startswith("+")
            removed += line.startswith("-")
    return added, removed


def changed_files(changes: Iterable[FileChange], tree: Tree) -> tuple[ChangedFile, ...]:
    """Each file of a change with its numbers of lines."""
    return tuple(
        ChangedFile(change.path, *counted(tree.read(change.path) or "", change.text or "")) for change in changes
    )


def diff(changes: Iterable[FileChange], tree: Tree) -> str:
    """A change as a patch of the tree."""
    parts: list[str] = []
    for change in changes:
        old, new = tree.read(change.path) or "", change.text or ""
        before = f"a/{change.path}" if change.path in tree.files else "/dev/null"
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), before, f"b/{change.path}"
        )
        parts += [line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)


# What pytest and unittest call around tests that they find.
HOOKS = re.compile(r"(?:pytest_|setup|teardown|setUp|tearDown|collect_ignore)\w*|__\w+__|pytestmark|load_tests")
STATEMENTS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
STAYS = "what stands there must stay as it is; tests are added behind its last line, imports among its imports."
Imports = ast.Import | ast.ImportFrom


def weakening(old: str, new: str) -> str | None:
    """How a new text removes something from a test file; None where all of it is kept, and what is new leaves it alone."""
    if not _lines_stay(old, new):
        return STAYS
    try:
        before, whole = ast.parse(old), ast.parse(new)
        added = _added(before, whole)
    except UNPARSABLE:
        return "it cannot be parsed with what is added."
    if added is None:
        return STAYS
    names = {name for node in before.body for name in _bound(node)}
    known = {ast.dump(single) for node in ast.walk(before) if isinstance(node, Imports) for single in _singles(node)}
    return next((violation for node in added if (violation := _violation(node, names, known)) is not None), None)


def _lines_stay(old: str, new: str) -> bool:
    """Whether the old lines follow each other in the new text, with imports and empty lines alone between them."""
    waiting = old.rstrip().splitlines()
    lines = iter(new.splitlines())
    for wanted in waiting:
        for line in lines:
            if line == wanted:
                break
            if line.strip() and not _is_import(line):
                return False
        else:
            return False
    return True


def _is_import(line: str) -> bool:
    try:
        return all(isinstance(node, Imports) for node in ast.parse(line).body)
    except UNPARSABLE:
        return False


def _added(before: ast.Module, whole: ast.Module) -> list[ast.stmt] | None:
    """The new statements; None where an old one is missing, or something but an import precedes it."""
    old, added, place = [ast.dump(node) for node in before.body], [], 0
    for node in whole.body:
        if place < len(old) and ast.dump(node) == old[place]:
            place += 1
            continue
        if place < len(old) and not isinstance(node, Imports):
            return None
        added.append(node)
    return added if place == len(old) else None


def _violation(node: ast.stmt, names: set[str], known: set[str]) -> str | None:
    if not isinstance(node, STATEMENTS):
        return f"only tests, what they need and imports may be added, and line {node.lineno} is something else."
    if isinstance(node, Imports):
        again = any(set(_bound(one)) & names and ast.dump(one) not in known for one in _singles(node))
        return f"line {node.lineno} gives another meaning to a name that is in use." if again else None
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    if not all(isinstance(target, ast.Name) for target in targets):
        return f"line {node.lineno} changes something that stands elsewhere."
    for name in _bound(node):
        if name in names:
            return f"`{name}` is there already and would be replaced."
        if HOOKS.fullmatch(name):
            return f"`{name}` would be called around the tests that stand there."
    inner = list(ast.walk(node))
    if any(isinstance(n, ast.keyword) and n.arg == "autouse" for n in inner):
        return f"line {node.lineno} is a fixture that the tests that stand there would use."
    if any(isinstance(n, ast.Global) for n in inner):
        return f"the code from line {node.lineno} writes names of the whole file."
    return None


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, Imports):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    stored = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return stored + [name for child in inner for name in _bound(child)]


def _singles(node: Imports) -> Iterator[Imports]:
    for alias in node.names:
        yield ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)


MOST_LINES = 400  # that come and go, in the kernel's files and in its tests each
MOST_SHARE = 0.6  # of a file's lines that go
LEAST_LINES = 40  # of a file before a share of it says anything


@dataclass(frozen=True)
class EditViolation:
    """Why a change is not even run. The sentence is ours and quotes names alone."""

    fault: AnswerFault
    sentence: str


def violation(changes: tuple[FileChange, ...], changeable: Changeable, tree: Tree) -> EditViolation | None:
    """The first thing that a change may not do; None where it keeps to what is its own."""
    for change in changes:
        broken = _of_place(change, changeable, tree)
        if broken is not None:
            return broken
    if all(change.path in changeable.tests or change.text == tree.read(change.path) for change in changes):
        return EditViolation(AnswerFault.same, "The kernel's files stay as they are: nothing is changed.")
    return _of_size(changes, changeable, tree)


def within(changes: tuple[FileChange, ...], changeable: Changeable, tree: Tree) -> bool:
    """Whether changes, such as those of a formatter, keep to the places that are given."""
    return all(_of_place(change, changeable, tree) is None for change in changes)


def _of_place(change: FileChange, changeable: Changeable, tree: Tree) -> EditViolation | None:
    if change.path not in changeable.paths:
        return EditViolation(AnswerFault.path, "A file is changed that is none of the kernel's own files and tests.")
    if change.text is None:
        return EditViolation(AnswerFault.path, f"`{change.path}` would be removed.")
    old = tree.read(change.path) or ""
    if change.path in changeable.tests:
        weaker = weakening(old, change.text)
        return None if weaker is None else EditViolation(AnswerFault.tests, f"`{change.path}`: {weaker}")
    shared = next((item for item in changeable.shared if item.path == change.path), None)
    return None if shared is None else _of_shared(shared, old, change.text)


def _of_shared(shared: Shared, old: str, new: str) -> EditViolation | None:
    after = outside(new, shared.functions)
    if after is not None and after == outside(old, shared.functions):
        return None
    named = ", ".join(f"`{name}`" for name in shared.functions)
    return EditViolation(AnswerFault.path, f"Other kernels share `{shared.path}`: only {named} may be changed in it.")


def _of_size(changes: tuple[FileChange, ...], changeable: Changeable, tree: Tree) -> EditViolation | None:
    lines = {False: 0, True: 0}
    for change in changes:
        old = tree.read(change.path) or ""
        added, removed = counted(old, change.text or "")
        lines[change.path in changeable.tests] += added + removed
        total = len(old.splitlines())
        if total >= LEAST_LINES and removed > MOST_SHARE * total:
            message = f"{removed} of {total} lines of `{change.path}` are replaced, and at most {MOST_SHARE:.0%} may be"
            return EditViolation(AnswerFault.too_large, f"{message}: change only what the request needs.")
    for is_test, count in lines.items():
        if count > MOST_LINES:
            what = "tests" if is_test else "kernel's files"
            message = f"{count} lines come and go in the {what}, and at most {MOST_LINES} may"
            return EditViolation(AnswerFault.too_large, f"{message}: change only what the request needs.")
    return None
