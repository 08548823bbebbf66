"""The style of a section that is pasted into the file of a kernel that stands there. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts.syntax import UNPARSABLE
from workers.authors.protocol import SourceStyle
from workers.layouts.imports import read_imports
from workers.layouts.protocol import Standing
from workers.layouts.ruff import line_length, single_line_imports
from workers.tree import Tree


def section_style(standing: Standing, tree: Tree, helpers: dict[str, str]) -> SourceStyle:
    """Give the style: every name begins with a prefix that the file does not use yet.

    ``helpers`` are those that the library has, by module; what the file imports already is taken from where it imports it.
    """
    source = tree.read(standing.path) or ""
    there = {s.imported.bound: s.imported.module for s in read_imports(source) if s.imported.name == s.imported.bound}
    prefix = _prefix(standing.name, source)
    return SourceStyle(
        function_class=standing.functions[0] if standing.functions else "",
        forward_function=f"{prefix}forward",
        backward_function=f"{prefix}backward",
        helpers=tuple((helper, there.get(helper, module)) for helper, module in sorted(helpers.items())),
        line_length=line_length(tree),
        single_line_imports=single_line_imports(tree),
        section=True,
        prefix=prefix,
    )


def _prefix(name: str, source: str) -> str:
    used, number = _names(source), 1
    while any(one.startswith(f"_fast{number if number > 1 else ''}_{name}_") for one in used):
        number += 1
    return f"_fast{number if number > 1 else ''}_{name}_"


def _names(source: str) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except UNPARSABLE:
        return set()
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
