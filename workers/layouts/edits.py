"""Small edits of existing Python files that leave every other byte as it is. Pure."""

from __future__ import annotations

import ast
import os
from collections.abc import Sequence


def place_of(names: Sequence[str], new: str) -> int:
    """Give the index at which a name is inserted among names that are only partly in alphabetical order.

    It is a place between a smaller and a greater neighbour, the one with the neighbour most alike; else behind the greatest
    smaller name.
    """
    keys, key = [name.lower() for name in names], new.lower()
    fitting = [i for i in range(1, len(keys)) if keys[i - 1] < key < keys[i]]
    if fitting:
        return max(fitting, key=lambda i: max(_alike(keys[i - 1], key), _alike(keys[i], key)))
    smaller = [i for i, other in enumerate(keys) if other < key]
    return max(smaller, key=lambda i: keys[i]) + 1 if smaller else 0


def with_listed_name(source: str, name: str) -> str:
    """Give the source with one more string in ``__all__``, one a line; unchanged where there is no such list."""
    items = _all_items(source)
    if not items or name in [value for value, _ in items]:
        return source
    lines = source.splitlines(keepends=True)
    at = place_of([value for value, _ in items], name)
    line = items[at][1] - 1 if at < len(items) else items[-1][1]
    model = lines[(line if at < len(items) else line - 1)]
    margin, newline = model[: len(model) - len(model.lstrip())], _newline(model)
    lines.insert(line, f'{margin}"{name}",{newline}')
    return "".join(lines)


def with_function(source: str, name: str, definition: str) -> str:
    """Give the source with a function more, two blank lines apart, among its neighbours by name."""
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    lines = source.splitlines(keepends=True)
    newline = _newline(lines[0]) if lines else "\n"
    text = definition.rstrip("\n").replace("\n", newline) + newline
    at = place_of([f.name for f in functions], name)
    if functions and at == 0:
        lines.insert(_start_of(functions[0], lines), text + newline * 2)
        return "".join(lines)
    line = (functions[at - 1].end_lineno or 0) if functions else len(lines)
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += newline
    lines.insert(line, newline * 2 + text)
    return "".join(lines)


def _all_items(source: str) -> list[tuple[str, int]]:
    for node in ast.parse(source).body:
        named = isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        )
        if named and isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
            items = [(e.value, e.lineno) for e in node.value.elts if isinstance(e, ast.Constant)]
            one_a_line = len({line for _, line in items}) == len(items) and node.lineno not in {
                line for _, line in items
            }
            return [(str(value), line) for value, line in items] if one_a_line else []
    return []


def _start_of(node: ast.FunctionDef, lines: list[str]) -> int:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return first


def _alike(one: str, other: str) -> int:
    return len(os.path.commonprefix([one, other]))


def _newline(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n"
