"""Which functions of a shared file are one kernel's, and what stands outside of them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gpu_runner.contracts.syntax import UNPARSABLE


def functions_using(source: str, names: Collection[str]) -> tuple[str, ...]:
    """Give the functions of a module, in order, that use one of the names."""
    found = []
    for node in _functions(source):
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if used & set(names):
            found.append(node.name)
    return tuple(found)


def outside(source: str, functions: Collection[str]) -> str | None:
    """Give a file without these functions, blank lines left out; None where one of them is not there once, or it does not parse."""
    nodes = [node for node in _functions(source) if node.name in functions]
    if sorted(node.name for node in nodes) != sorted(functions):
        return None
    lines = source.splitlines()
    inside: set[int] = set()
    for node in nodes:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        inside |= set(range(first, (node.end_lineno or node.lineno) + 1))
    return "\n".join(line.rstrip() for number, line in enumerate(lines, 1) if number not in inside and line.strip())


def _functions(source: str) -> list[ast.FunctionDef]:
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return []
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]
