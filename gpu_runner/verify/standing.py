"""Which objections of the screen stand in the original too: by the statement that they are about, not by its line. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

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
            for node in ast.walk(statement):
                self._top[id(node)] = statement
            self._statement(statement)

    def key(self, rule: str, node: ast.AST, whole: bool) -> Key:
        """Give what an objection is known by; ``whole``: by all of the top-level statement around it."""
        anchor = (self._top if whole else self._near).get(id(node), node)
        return rule, ast.dump(anchor)

    def _statement(self, statement: ast.AST) -> None:
        inner = list(_bodies(statement))
        below = {id(node) for item in inner for node in ast.walk(item)}
        for child in [statement, *ast.iter_child_nodes(statement)]:
            simple = not inner or isinstance(statement, _WHOLE)
            anchor = statement if simple or child is statement else child
            for node in [child] if child is statement else ast.walk(child):
                if id(node) not in below:
                    self._near[id(node)] = anchor
        if isinstance(statement, _FUNCTIONS):
            self._annotations(statement)
        for item in inner:
            self._statement(item)

    def _annotations(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        taken = [(arg.annotation, arg) for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]
        for annotation, anchor in [*taken, (function.returns, function.returns)]:
            if annotation is not None and anchor is not None:
                self._near.update((id(node), anchor) for node in ast.walk(annotation))


def _bodies(statement: ast.AST) -> Iterator[ast.AST]:
    """Give the statements inside of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        part = getattr(statement, name, None)
        yield from part if isinstance(part, list) else ()
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, ()):
            yield from _bodies(part)


def excused(keys: Iterable[Key | None]) -> Counter[Key]:
    """Count what the original's files were objected to for: each may stand in the candidate as often, and no more."""
    return Counter(key for key in keys if key is not None)
