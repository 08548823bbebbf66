"""The reference and the tables of a problem as a test file states them, and the problem read back out of it. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts import Problem, ProblemError, parse_problem
from gpu_runner.contracts.reading import UNPARSABLE
from workers.layouts.protocol import Design
from workers.layouts.python_source import INDENT, Import, block, docstring, literal, read_imports

TABLES = frozenset({"INPUTS", "WORKLOADS", "DTYPES", "NAMES", "MUTATES", "CALL"})
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Reference:
    """``code`` defines ``reference`` and what it needs of the problem, verbatim."""

    imports: tuple[Import, ...]
    code: str


def reference_of(problem: Problem) -> Reference:
    """The reference in a problem's source, with only what it needs."""
    return reference_in(problem.source)


def reference_in(source: str) -> Reference:
    """``reference`` in a module that defines it, with only what it needs."""
    definitions = _needed(ast.parse(source))
    lines = source.splitlines()
    parts = [_text(lines, node) for node in definitions]
    used = {name for node in definitions for name in _names(node)}
    there = [statement.imported for statement in read_imports(source)]
    imports = tuple(i for i in there if i.bound in used or i.name == "*")
    future = tuple(i for i in there if i.module == "__future__")
    return Reference(tuple(dict.fromkeys((*future, *imports))), _joined(definitions, parts))


def helper_names(problem: Problem) -> tuple[str, ...]:
    """The names that the reference's own code defines besides ``reference``."""
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
    """The names that a definition takes from around it; a function's own variables are not among them."""
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


COMMENT = "# What the kernel is measured on: the dimensions of its inputs, the sizes, and how it is called."
COMMENT_OF_VERSIONS = "# What every version is proved and measured on: the dimensions of its inputs, and the sizes."
HEADING = re.compile(r"^# -{2,} .* -{2,}\n", re.MULTILINE)
NEEDED = frozenset({"INPUTS", "WORKLOADS", "CALL"})
ORDER = ("INPUTS", "WORKLOADS", "DTYPES", "NAMES", "MUTATES")


def opening(design: Design) -> str:
    """The docstring of the test file, the problem's title; empty where it has none."""
    return f"{docstring(design.problem.title)}\n\n" if design.problem.title else ""


def tables_source(design: Design, width: int, *, with_call: bool = True) -> str:
    """The problem's tables as the library's formatter leaves them, and the call of the new kernel's Function unless that differs by
    version."""
    values = _values(design.problem.source)
    lines = [COMMENT if with_call else COMMENT_OF_VERSIONS]
    for name in ORDER:
        if name in values:
            spread = name == "WORKLOADS"
            lines += _lines(f"{name} = ", values[name], "", width, spread=spread)
    call = f"{design.names.function}.apply({', '.join(design.problem.parameters)})"
    return "\n".join([*lines, *(_text_lines("CALL = ", call, width) if with_call else [])])


def problem_source(design: Design, width: int, *, single_line: bool, with_call: bool) -> str:
    """The module of a library that holds the problem: the reference and the tables."""
    reference = reference_of(design.problem)
    imports = block(reference.imports, frozenset(), single_line=single_line)
    return (
        f"{opening(design)}{imports}\n\n\n{reference.code}\n\n\n{tables_source(design, width, with_call=with_call)}\n"
    )


def problem_in_suite(source: str) -> str | None:
    """The problem that a test file states; None where it states none."""
    try:
        tree = ast.parse(source)
    except UNPARSABLE:
        return None
    tables = _table_nodes(tree)
    defines = any(isinstance(node, ast.FunctionDef) and node.name == "reference" for node in tree.body)
    if not defines or not set(tables) >= NEEDED:
        return None
    reference = reference_in(source)
    title = ast.get_docstring(tree)
    parts = [
        *([docstring(" ".join(title.split()))] if title else []),
        block(reference.imports, frozenset()),
        "\n" + HEADING.sub("", reference.code),
        "\n" + "\n".join(ast.get_source_segment(source, node) or "" for node in tables.values()),
    ]
    text = "\n\n".join(parts) + "\n"
    return text if _is_problem(text) else None


def _is_problem(text: str) -> bool:
    try:
        return isinstance(parse_problem(text), Problem)
    except ProblemError:
        return False


def _table_nodes(tree: ast.Module) -> dict[str, ast.Assign | ast.AnnAssign]:
    nodes: dict[str, ast.Assign | ast.AnnAssign] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and target.id in TABLES:
            nodes[target.id] = node
    return nodes


def _values(source: str) -> dict[str, object]:
    nodes = _table_nodes(ast.parse(source))
    return {name: ast.literal_eval(node.value) for name, node in nodes.items() if node.value is not None}


def _lines(head: str, value: object, tail: str, width: int, *, spread: bool = False) -> list[str]:
    """A value on one line where it fits, else one item a line; ``spread`` is one item a line in any case."""
    line = head + _flat(value) + tail
    if not isinstance(value, Mapping | list | tuple) or not value or (len(line) <= width and not spread):
        return [line]
    margin = INDENT * (1 + (len(head) - len(head.lstrip())) // len(INDENT))
    brackets = "{}" if isinstance(value, Mapping) else "()" if isinstance(value, tuple) else "[]"
    items = value.items() if isinstance(value, Mapping) else [(None, item) for item in value]
    inner: list[str] = []
    for key, item in items:
        inner += _lines(margin + ("" if key is None else f"{literal(key)}: "), item, ",", width)
    return [head + brackets[0], *inner, margin[len(INDENT) :] + brackets[1] + tail]


def _flat(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {_flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return f"({_flat(value[0])},)" if len(value) == 1 else f"({', '.join(map(_flat, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_flat, value))}]"
    return literal(value)


def _text_lines(head: str, text: str, width: int) -> list[str]:
    """A string, in pieces where it is too long for one line."""
    line = head + literal(text)
    if len(line) <= width:
        return [line]
    pieces, room = [""], width - len(INDENT) - 2
    for word in text.replace(", ", ",\0 ").split("\0"):
        if pieces[-1] and len(pieces[-1]) + len(word) > room:
            pieces.append("")
        pieces[-1] += word
    return [head + "(", *(INDENT + literal(piece) for piece in pieces), ")"]
