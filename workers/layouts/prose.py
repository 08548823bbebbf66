"""Comments and docstrings of written files inside a library's line length, which its formatter leaves to the writer. Pure."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize

QUOTE = '"""'
DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|ruff:|pragma|isort:|pyright:|!)")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def fitted(source: str, width: int) -> str:
    """Wrap the comments and docstrings that are wider than ``width`` between words; code stays as it is."""
    lines = source.split("\n")
    if all(len(line) <= width for line in lines):
        return source
    whole, inside = _docstring_lines(source), _inside_docstrings(source)
    comments = _comment_lines(source)
    result: list[str] = []
    for number, line in enumerate(lines, start=1):
        if len(line) <= width:
            result.append(line)
        elif number in whole:
            result += _opened(line, width)
        elif number in inside:
            result += _continued(line, width)
        elif number in comments:
            result += _commented(line, width)
        else:
            result.append(line)
    return "\n".join(result)


def _docstrings(source: str) -> list[ast.Constant]:
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Documented)]
    first = [node.body[0] for node in nodes if node.body and ast.get_docstring(node, clean=False) is not None]
    return [s.value for s in first if isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)]


def _docstring_lines(source: str) -> set[int]:
    """Give the lines that hold a docstring from quotes to quotes and nothing else."""
    lines = source.split("\n")
    found = {value.lineno for value in _docstrings(source) if value.lineno == value.end_lineno}
    return {number for number in found if re.fullmatch(r'\s*"""[^"\\]*"""', lines[number - 1])}


def _inside_docstrings(source: str) -> set[int]:
    """Give the lines of docstrings that hold words alone, no quotes."""
    ends = [(value.lineno, value.end_lineno or value.lineno) for value in _docstrings(source)]
    return {number for first, last in ends for number in range(first + 1, last)}


def _comment_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.line.strip() == token.string and not DIRECTIVE.match(token.string)
    }


def _opened(line: str, width: int) -> list[str]:
    indent, text = _split(line)
    # A formatter may put the closing quotes behind the last word again, so that there is room for them.
    first, *rest = _wrapped(text.removesuffix(QUOTE), width - len(QUOTE), indent, indent)
    return [first, *rest, indent + QUOTE]


def _continued(line: str, width: int) -> list[str]:
    indent, text = _split(line)
    return _wrapped(text, width, indent, indent + "    ")


def _commented(line: str, width: int) -> list[str]:
    indent, text = _split(line)
    return _wrapped(text.removeprefix("#").lstrip(), width, indent + "# ", indent + "# ")


def _split(line: str) -> tuple[str, str]:
    text = line.lstrip()
    return line[: len(line) - len(text)], text


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
