"""Changes of a file at places that its syntax names, every other byte left as it is. Pure."""

from __future__ import annotations

import ast


class Patches:
    """Collects replacements and insertions of one source, and makes them all at once.

    Positions are those of the source as it was parsed; ``ast`` counts columns in bytes of UTF-8.
    """

    def __init__(self, source: str) -> None:
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._changes: list[tuple[int, int, str]] = []

    def replace(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg, text: str) -> None:
        """Put text in the place of a node."""
        start = self._at(node.lineno, node.col_offset)
        end = self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        self._changes.append((start, end, text))

    def replace_span(
        self, first: ast.expr | ast.keyword | ast.arg, last: ast.expr | ast.keyword | ast.arg, text: str
    ) -> None:
        """Put text in the place of everything from one node to another."""
        start = self._at(first.lineno, first.col_offset)
        end = self._at(last.end_lineno or last.lineno, last.end_col_offset or 0)
        self._changes.append((start, end, text))

    def append(self, node: ast.expr | ast.arg, text: str) -> None:
        """Put text right behind a node."""
        end = self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        self._changes.append((end, end, text))

    def insert_before(self, line: int, text: str) -> None:
        """Put whole lines before a line, counted from 1."""
        self._changes.append((self._starts[line - 1], self._starts[line - 1], text))

    def replace_lines(self, first: int, last: int, text: str) -> None:
        """Put whole lines in the place of those from first to last, counted from 1."""
        self._changes.append((self._starts[first - 1], self._starts[last], text))

    def result(self) -> str:
        """Give the changed source."""
        content = self._bytes
        ordered = sorted(enumerate(self._changes), key=lambda item: (item[1][0], item[0]), reverse=True)
        for _, (start, end, text) in ordered:
            content = content[:start] + text.encode() + content[end:]
        return content.decode()

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def rendered_call(head: str, arguments: list[str], indent: str, tail: str = "", width: int = 120) -> str:
    """Give ``head(arguments)tail`` on one line where it fits, otherwise as a formatter breaks it.

    ``indent`` is that of the statement; the text starts behind it.
    """
    joined = ", ".join(arguments)
    plain = not any("\n" in a or "#" in a for a in arguments)
    one_line = f"{head}({joined}){tail}"
    if plain and len(indent) + len(one_line) <= width:
        return one_line
    inner = indent + "    "
    # Where the call is a part of a longer line its own length says nothing; it is broken, and its arguments kept together.
    if plain and len(inner) + len(joined) <= (width or 120):
        return f"{head}(\n{inner}{joined}\n{indent}){tail}"
    body = "".join(f"{inner}{argument},\n" for argument in arguments)
    return f"{head}(\n{body}{indent}){tail}"


def indent_of(source: str, line: int) -> str:
    """Give the white space that a line starts with."""
    text = source.split("\n")[line - 1]
    return text[: len(text) - len(text.lstrip())]


def first_statement_line(function: ast.FunctionDef) -> int:
    """Give the line of a function's first statement behind its docstring."""
    body = function.body
    documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
    return (body[1] if documented else body[0]).lineno


def line_before_definition(node: ast.FunctionDef | ast.ClassDef, source: str) -> int:
    """Give the line at which a definition starts, its decorators and the comments right above it included."""
    lines = source.split("\n")
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    return first
