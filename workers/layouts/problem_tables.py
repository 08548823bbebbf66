"""The tables of a problem as a test file states them, and the whole problem read back out of such a file. Pure.

A test file that was written here holds the problem: its reference is what the tests compare with, and below it stand the
dimensions, the sizes to measure and the call, so that whoever works on the kernel later needs nothing else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from gpu_runner.contracts import Problem, ProblemError, parse_problem
from gpu_runner.contracts.syntax import UNPARSABLE
from workers.layouts.imports import block
from workers.layouts.protocol import Design
from workers.layouts.pysource import INDENT, docstring, literal
from workers.layouts.reference import TABLES, reference_in

COMMENT = "# What the kernel is measured on: the dimensions of its inputs, the sizes, and how it is called."
HEADING = re.compile(r"^# -{2,} .* -{2,}\n", re.MULTILINE)
NEEDED = frozenset({"INPUTS", "WORKLOADS", "CALL"})
ORDER = ("INPUTS", "WORKLOADS", "DTYPES", "NAMES", "MUTATES")


def opening(design: Design) -> str:
    """Give the docstring of the test file, the problem's title; nothing where it has none."""
    return f"{docstring(design.problem.title)}\n\n" if design.problem.title else ""


def tables_source(design: Design, width: int) -> str:
    """Give the problem's tables and the call of the new kernel's Function, as the library's formatter leaves them."""
    values = _values(design.problem.source)
    lines = [COMMENT]
    for name in ORDER:
        if name in values:
            spread = name == "WORKLOADS"
            lines += _lines(f"{name} = ", values[name], "", width, spread=spread)
    call = f"{design.names.function}.apply({', '.join(design.problem.parameters)})"
    return "\n".join([*lines, *_text_lines("CALL = ", call, width)])


def problem_in_suite(source: str) -> str | None:
    """Give the problem that a test file states; None where it states none."""
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
    found: dict[str, ast.Assign | ast.AnnAssign] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and target.id in TABLES:
            found[target.id] = node
    return found


def _values(source: str) -> dict[str, object]:
    nodes = _table_nodes(ast.parse(source))
    return {name: ast.literal_eval(node.value) for name, node in nodes.items() if node.value is not None}


def _lines(head: str, value: object, tail: str, width: int, *, spread: bool = False) -> list[str]:
    """Give a value on one line where it fits, else one item a line; ``spread`` is one item a line in any case."""
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
    """Give a string, in pieces where it is too long for one line."""
    line = head + literal(text)
    if len(line) <= width:
        return [line]
    pieces, room = [""], width - len(INDENT) - 2
    for word in text.replace(", ", ",\0 ").split("\0"):
        if pieces[-1] and len(pieces[-1]) + len(word) > room:
            pieces.append("")
        pieces[-1] += word
    return [head + "(", *(INDENT + literal(piece) for piece in pieces), ")"]
