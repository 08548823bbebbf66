"""Takes one element out of a list that is written in a file: a parameter, an argument, an element of a tuple. Pure."""

from __future__ import annotations

import ast

from workers.strategies.fitting import KeptError
from workers.strategies.patches import Patches
from workers.strategies.syntax import KernelFile

Element = ast.expr | ast.keyword | ast.arg


def remove_elements(patches: Patches, file: KernelFile, elements: list[Element], gone: list[Element]) -> None:
    """Take elements out of a comma-separated list that is on one line, or has a line for each.

    Raises:
        KeptError: nothing would be left, or the list is written in another way.
    """
    left = [element for element in elements if element not in gone]
    if not left or any(isinstance(e, ast.Starred) for e in elements):
        raise KeptError("a list would be left empty, or its elements cannot be told apart")
    lines = [e.lineno for e in elements]
    source = file.source.split("\n")
    if len(set(lines)) == len(lines) and len(lines) > 1:
        for element in gone:
            last = source[(element.end_lineno or element.lineno) - 1]
            before = source[element.lineno - 1].encode()[: element.col_offset].strip()
            if not last.split("#")[0].rstrip().endswith(",") or before:
                raise KeptError("a list is written in a way that loses no element alone")
            patches.replace_lines(element.lineno, element.end_lineno or element.lineno, "")
        return
    if len(set(lines)) > 1:
        raise KeptError("a list is written in a way that loses no element alone")
    text = source[lines[0] - 1]
    if "#" in text:
        raise KeptError("a comment stands beside a list that would lose an element")
    patches.replace_span(elements[0], elements[-1], ", ".join(file.segment(e) for e in left))


def remove_statement(patches: Patches, file: KernelFile, statement: ast.stmt) -> None:
    """Take a whole statement away, with the comment right above it.

    Raises:
        KeptError: it shares a line.
    """
    lines = file.source.split("\n")
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    if lines[first - 1].encode()[: statement.col_offset].strip() or ";" in lines[last - 1]:
        raise KeptError("a statement that would go shares its line")
    while lines[first - 2].lstrip().startswith("#"):
        first -= 1
    patches.replace_lines(first, last, "")
