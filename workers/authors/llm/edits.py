"""Edits out of an answer, on files that may be edited: each old text stands there exactly once. Pure."""

from __future__ import annotations

import ast
from pathlib import PurePosixPath
from typing import Any

from gpu_runner.contracts.reading import SourceError, parse_bounded
from workers.authors.llm.hearing import named
from workers.authors.llm.kernel_module import check_kernels, kernels_of
from workers.authors.llm.protocol import Fault, UnusableAnswer
from workers.authors.llm.python_text import check_reach, parsed


def edited(
    edits: list[dict[str, Any]], files: dict[str, str], forbidden: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The files as the edits leave them, those that change only; ``forbidden`` are the tests, which are added to alone.

    Raises:
        UnusableAnswer: a path is none of the files, or an old text is not there exactly once.
    """
    texts = dict(files)
    for place, edit in enumerate(edits, 1):
        path = check_path(str(edit["path"]), texts, forbidden)
        old, new = _ends_as(texts[path], str(edit["old"])), _ends_as(texts[path], str(edit["new"]))
        if old == new:
            raise UnusableAnswer(Fault.same, f"edit {place} puts in place of a text the same text")
        found = _count(texts[path], old)
        if found != 1:
            times = "not there" if found == 0 else "there more than once"
            raise UnusableAnswer(Fault.edit, f"the old text of edit {place} is {times} in `{named(path)}`")
        texts[path] = texts[path].replace(old, new)
    return {path: text for path, text in texts.items() if text != files[path]}


def check_path(path: str, files: dict[str, str], forbidden: frozenset[str] = frozenset()) -> str:
    """A path that is one of the files, written exactly so.

    Raises:
        UnusableAnswer: it is not.
    """
    if path in files:
        return path
    if path in forbidden or str(PurePosixPath(path)) in forbidden:
        sentence = f"`{named(path)}` is a test file that stands: tests are added at its end and never edited"
        raise UnusableAnswer(Fault.tests, sentence)
    raise UnusableAnswer(Fault.path, f"`{named(path)}` is none of the files that this change may touch")


def check_file(path: str, before: str, after: str) -> None:
    """See to it that a file of Python is one still, reaches no further than before, and keeps what others may call.

    Raises:
        UnusableAnswer: it does not.
    """
    if not path.endswith(".py"):
        return
    what = f"`{named(path)}`"
    tree, stood = parsed(after, what, before), _stood(before)
    check_reach(tree, what, before=stood)
    if stood is None:
        return
    lost = sorted(_public(stood) - _public(tree))
    if lost:
        raise UnusableAnswer(Fault.names, f"{what} no longer defines `{named(lost[0])}`, which others may call")
    if _has_kernels(stood):
        check_kernels(tree, what)


def _stood(text: str) -> ast.Module | None:
    try:
        return parse_bounded(text)
    except SourceError:  # what stands there may be anything; then all of it is new
        return None


def _has_kernels(tree: ast.Module) -> bool:
    try:
        check_kernels(tree, "")
    except UnusableAnswer:
        return False
    return True


def _public(tree: ast.Module) -> set[str]:
    kernels = kernels_of(tree)
    defined = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return {node.name for node in defined if not node.name.startswith("_") and node.name not in kernels}


def _count(text: str, old: str) -> int:
    """Overlapping places count too: which of them is meant nobody knows."""
    first = text.find(old)
    if first < 0:
        return 0
    return 1 if text.find(old, first + 1) < 0 else 2


def _ends_as(text: str, piece: str) -> str:
    """A model is shown ``\\n``; a file that ends its lines otherwise keeps its way."""
    return piece.replace("\n", "\r\n") if "\r\n" in text else piece
