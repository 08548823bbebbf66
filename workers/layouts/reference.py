"""The reference of a problem as it stands in a test file: its own code, without the tables of the problem. Pure."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpu_runner.contracts import Problem
from workers.layouts.imports import Import, read_imports

TABLES = frozenset({"INPUTS", "WORKLOADS", "DTYPES", "NAMES", "MUTATES", "CALL"})
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Reference:
    """``code`` defines ``reference`` and what it needs of the problem, as it was written there."""

    imports: tuple[Import, ...]
    code: str


def reference_of(problem: Problem) -> Reference:
    """Take the reference, and only what it needs, out of a problem's source."""
    return reference_in(problem.source)


def reference_in(source: str) -> Reference:
    """Take ``reference``, and only what it needs, out of a module that defines it."""
    definitions = _needed(ast.parse(source))
    lines = source.splitlines()
    parts = [_text(lines, node) for node in definitions]
    used = {name for node in definitions for name in _names(node)}
    there = [statement.imported for statement in read_imports(source)]
    imports = tuple(i for i in there if i.bound in used or i.name == "*")
    future = tuple(i for i in there if i.module == "__future__")
    return Reference(tuple(dict.fromkeys((*future, *imports))), _joined(definitions, parts))


def defined_beside(problem: Problem) -> tuple[str, ...]:
    """Give the names that the reference's own code defines beside ``reference``."""
    names = {name for node in _needed(ast.parse(problem.source)) for name in _bound(node)}
    return tuple(sorted(names - {"reference"}))


def _needed(tree: ast.Module) -> list[Definition]:
    definitions = [node for node in tree.body if isinstance(node, Definition) and not _bound(node) & TABLES]
    wanted, last = {"reference"}, -1
    while len(wanted) != last:
        last = len(wanted)
        wanted |= {name for node in definitions if _bound(node) & wanted for name in _names(node)}
    return [node for node in definitions if _bound(node) & wanted]


def _bound(node: Definition) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _names(node: ast.AST) -> set[str]:
    """Give the names that a definition takes from around it; a function's own variables are not among them."""
    names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
    own = {name.id for name in names if isinstance(name.ctx, ast.Store)} if isinstance(node, ast.FunctionDef) else set()
    return {name.id for name in names} - own


def _text(lines: list[str], node: Definition) -> str:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    first = min([node.lineno, *(d.lineno for d in decorators)]) - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join(line.rstrip() for line in lines[first : node.end_lineno])


def _joined(definitions: list[Definition], parts: list[str]) -> str:
    text = parts[0] if parts else ""
    for earlier, later, part in zip(definitions, definitions[1:], parts[1:], strict=False):
        tight = isinstance(earlier, ast.Assign | ast.AnnAssign) and isinstance(later, ast.Assign | ast.AnnAssign)
        text += ("\n" if tight else "\n\n\n") + part
    return text
