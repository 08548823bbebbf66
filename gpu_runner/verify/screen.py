"""The static screen: a candidate's files against the language of host code and of kernels. It refuses early, with the line.

What stands in the original's files too, by its statement and not by its line, is let pass.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpu_runner.contracts.reading import SourceError, read_source, walk
from gpu_runner.contracts.verify import CandidateSource, SourceFile, Status
from gpu_runner.program.check import check
from gpu_runner.program.imports import Library

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_WHOLE = (*_DEFINITIONS, ast.Try, ast.TryStar)

Key = tuple[str, str]  # the rule, and the statement without its place in the file


@dataclass
class Anchors:
    """For every node of a tree the statement by which it is known again, and the top-level statement that holds it.

    A simple statement is known by itself; of a compound one only what decides it counts (a condition, what is looped over),
    but of a definition or a ``try`` all of it. What annotates a parameter or a result is known by that parameter, or by itself: it
    has no part in what the function does, so that other statements in the function change nothing about it.
    """

    tree: ast.Module
    _near: dict[int, ast.AST] = field(default_factory=dict)
    _top: dict[int, ast.AST] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Walk the tree once."""
        for statement in self.tree.body:
            for node in walk(statement):
                self._top[id(node)] = statement
            self._statement(statement)

    def key(self, rule: str, node: ast.AST, whole: bool) -> Key:
        """What an objection is known by; ``whole``: by all of the top-level statement around it."""
        anchor = (self._top if whole else self._near).get(id(node), node)
        return rule, ast.dump(anchor)

    def _statement(self, statement: ast.AST) -> None:
        inner = list(_bodies(statement))
        below = {id(node) for item in inner for node in walk(item)}
        for child in [statement, *ast.iter_child_nodes(statement)]:
            simple = not inner or isinstance(statement, _WHOLE)
            anchor = statement if simple or child is statement else child
            for node in [child] if child is statement else walk(child):
                if id(node) not in below:
                    self._near[id(node)] = anchor
        if isinstance(statement, _FUNCTIONS):
            self._annotations(statement)
        for item in inner:
            self._statement(item)

    def _annotations(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        taken = [(arg.annotation, arg) for arg in walk(function.args) if isinstance(arg, ast.arg)]
        for annotation, anchor in [*taken, (function.returns, function.returns)]:
            if annotation is not None and anchor is not None:
                self._near.update((id(node), anchor) for node in walk(annotation))


def _bodies(statement: ast.AST) -> Iterator[ast.AST]:
    """The statements inside of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(statement, name, None)
        yield from part if isinstance(part, list) else ()
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, ()):
            yield from _bodies(part)


def excused(keys: Iterable[Key | None]) -> Counter[Key]:
    """Count what the original's files were objected to for: each may stand in the candidate as often, and no more."""
    return Counter(key for key in keys if key is not None)


@dataclass(frozen=True)
class Objection:
    """A rule that a candidate breaks."""

    status: Status
    rule: str | None
    message: str
    line: int | None = None
    path: str | None = None
    key: Key | None = None  # by which it is known again in another file


def screen(candidate: CandidateSource, library: Library, original: Mapping[str, str] | None = None) -> Objection | None:
    """The first objection to the screened files; ``library`` are the modules that they may import from.

    What the original's files of these paths are objected to for as well is dropped, as often as it stands in them.
    """
    before = (SourceFile(path, text) for path, text in (original or {}).items())
    known = excused(objection.key for file in before for objection in objections_to(file, library))
    for file in candidate.screened_files:
        for objection in objections_to(file, library):
            if objection.key is None or not known[objection.key]:
                return objection
            known[objection.key] -= 1
    return None


def objections_to(file: SourceFile, library: Library) -> list[Objection]:
    """The objections to one file, by line."""
    try:
        tree = read_source(file.text, file.path).tree
    except SourceError as error:
        status = Status.compile_error if error.rule == "syntax" else Status.refused
        return [Objection(status, error.rule, f"{error.message} {error.fix or ''}".strip(), error.line, file.path)]
    anchors = Anchors(tree)
    objections = []
    for remark in check(tree, library.module_of(file.path), library):
        violation = remark.violation
        # What reaches out of a candidate must stand in the very function in which it stands today.
        key = anchors.key(violation.rule or "", remark.node, whole=violation.status is Status.cheating)
        line = getattr(remark.node, "lineno", None)
        objections.append(Objection(violation.status, violation.rule, violation.message, line, file.path, key))
    return objections
