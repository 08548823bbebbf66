"""Whether a test file that was added to still holds all that it held before. Pure: sources are parsed, never run.

The reading of an answer says the same of what a model adds; this is the last word, whoever wrote the file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpu_runner.contracts.syntax import UNPARSABLE

# What pytest and unittest call around tests that they find.
HOOKS = re.compile(r"(?:pytest_|setup|teardown|setUp|tearDown|collect_ignore)\w*|__\w+__|pytestmark|load_tests")
STATEMENTS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
STAYS = "what stands there must stay as it is; tests are added behind its last line, imports among its imports."
Imports = ast.Import | ast.ImportFrom


def weakening(old: str, new: str) -> str | None:
    """Say how a new text takes something away from a test file; None where all of it stands, and what is new leaves it alone."""
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
    return next((found for node in added if (found := _objection(node, names, known)) is not None), None)


def _lines_stay(old: str, new: str) -> bool:
    """Tell whether the old lines follow each other in the new text, with imports and empty lines alone between them."""
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
    """Give the new statements; None where one that stood is not there, or something but an import stands before it."""
    old, added, place = [ast.dump(node) for node in before.body], [], 0
    for node in whole.body:
        if place < len(old) and ast.dump(node) == old[place]:
            place += 1
            continue
        if place < len(old) and not isinstance(node, Imports):
            return None
        added.append(node)
    return added if place == len(old) else None


def _objection(node: ast.stmt, names: set[str], known: set[str]) -> str | None:
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
