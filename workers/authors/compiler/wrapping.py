"""Lines of emitted code that are too long, broken as the formatter breaks them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from workers.authors.compiler.statements import INDENT

QUOTES = '"""'


def wrapped(source: str, line_length: int) -> str:
    """Break long lines at their last pair of parentheses; docstrings stay as they are."""
    lines: list[str] = []
    quoted = False
    for line in source.splitlines():
        quoted ^= line.count(QUOTES) % 2 == 1
        code = not quoted and QUOTES not in line and not line.lstrip().startswith("#")
        lines += _broken(line, line_length) if code and len(line) > line_length else [line]
    return "\n".join(lines) + "\n"


def _broken(line: str, line_length: int) -> list[str]:
    end = line[line.rfind(")") :]
    opening = _opening(line.removesuffix(end) + ")") if end in {")", "):"} else None
    if opening is None:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    inside = line[opening + 1 : len(line) - len(end)]
    if len(indent) + len(INDENT) + len(inside) <= line_length:
        return [line[: opening + 1], f"{indent}{INDENT}{inside}", indent + end]
    return [line[: opening + 1], *(f"{indent}{INDENT}{part}," for part in split_arguments(inside)), indent + end]


def _opening(line: str) -> int | None:
    """Give where the parenthesis that closes last was opened."""
    depth = 0
    for position in range(len(line) - 1, -1, -1):
        depth += (line[position] in ")]}") - (line[position] in "([{")
        if depth == 0:
            return position
    return None


def split_arguments(text: str) -> list[str]:
    """Split at the commas that are in no parentheses."""
    return [part for part in (piece.strip() for piece in _pieces(text)) if part]


def _pieces(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]
