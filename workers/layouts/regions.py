"""Which parts of a file are one kernel's, and which are next to it. Pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping

from gpu_runner.contracts.reading import UNPARSABLE, walk


def functions_using(source: str, names: Collection[str]) -> tuple[str, ...]:
    """The functions of a module, in order, that use one of the names."""
    functions = []
    for node in _functions(source):
        used = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        if used & set(names):
            functions.append(node.name)
    return tuple(functions)


def outside(source: str, functions: Collection[str]) -> str | None:
    """A file without these functions, blank lines left out; None where one of them is not there once, or it does not parse."""
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


Uses = Mapping[str, set[str]]


def changed_outside_calls(before: str, after: str, calls: Iterable[str | None]) -> str | None:
    """A name whose meaning a change alters and that the calls do not use; None: there is none.

    The calls' own are the names in them, whatever uses one of those, and all that these use in turn in the file before; and of a
    new name in them, all that it uses. What is new may be anything.
    """
    stood, stands = _bound(before), _bound(after)
    names = {name for call in calls for name in _names(call)}
    if stood is None or stands is None or not names & set(stood):
        return None
    # What stood makes nothing its own by using it from now on; a call of something new does.
    own = _own(names, _uses(stood)) | _reached((names - set(stood)) & set(stands), _uses(stands))
    return next((name for name in stood if name not in own and _text(stood[name]) != _text(stands.get(name, []))), None)


def _bound(source: str) -> dict[str, list[ast.stmt]] | None:
    """The statements of a file's top level by the names that they bind, imports left out; None where it does not parse."""
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return None
    bindings: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in dict.fromkeys(_bound_by(node)):
            bindings.setdefault(name, []).append(node)
    return bindings


def _bound_by(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif not isinstance(node, ast.Import | ast.ImportFrom):
        yield from (n.id for n in walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))


def _names(call: str | None) -> set[str]:
    try:
        return _used([ast.parse(call or "", mode="eval")])
    except UNPARSABLE:
        return set()


def _used(nodes: Iterable[ast.AST]) -> set[str]:
    return {inner.id for node in nodes for inner in walk(node) if isinstance(inner, ast.Name)}


def _uses(bound: Mapping[str, list[ast.stmt]]) -> Uses:
    return {name: _used(nodes) & set(bound) for name, nodes in bound.items()}


def _own(names: set[str], uses: Uses) -> set[str]:
    roots = names & set(uses)
    return _reached(roots | {name for name in uses if roots & _reached({name}, uses)}, uses)


def _reached(start: set[str], uses: Uses) -> set[str]:
    reached, waiting = set(start), list(start)
    while waiting:
        new = uses[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _text(nodes: Iterable[ast.stmt]) -> list[str]:
    return [ast.dump(node) for node in nodes]
