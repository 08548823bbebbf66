"""Small pieces of Python source, broken over lines as ruff and black break them. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

INDENT = "    "
MAX_DOCSTRING = 100


def call(head: str, arguments: Iterable[str], tail: str = "", *, depth: int = 0, width: int = 120) -> str:
    """Give ``head(arguments)tail`` on one line where it fits, else one argument a line."""
    items = list(arguments)
    margin = INDENT * depth
    line = f"{margin}{head}({', '.join(items)}){tail}"
    if len(line) <= width or not items:
        return line
    inner = "".join(f"{margin}{INDENT}{item},\n" for item in items)
    return f"{margin}{head}(\n{inner}{margin}){tail}"


def listing(head: str, items: Iterable[str], tail: str = "", *, depth: int = 0) -> str:
    """Give a list literal with one item a line."""
    margin = INDENT * depth
    inner = "".join(f"{margin}{INDENT}{item},\n" for item in items)
    return f"{margin}{head}[\n{inner}{margin}]{tail}"


def indented(text: str, depth: int = 1) -> str:
    """Give text with every line that holds something moved right."""
    return "\n".join(INDENT * depth + line if line.strip() else "" for line in text.split("\n"))


def tuple_of(items: Iterable[str]) -> str:
    """Give a tuple expression, with the comma that one item alone needs."""
    parts = list(items)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def literal(value: object) -> str:
    """Give a plain value as source, strings in double quotes."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return re.sub(r"e([+-])0+(?=\d)", r"e\1", repr(value))  # 1e-6 as people write it, not 1e-06


def docstring(text: str) -> str:
    """Give one line of somebody's prose as a docstring; what could end or change a string literal is replaced."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    plain = plain.replace("\\", "/").replace('"', "'")
    return f'"""{plain if len(plain) <= MAX_DOCSTRING else plain[:MAX_DOCSTRING].rsplit(" ", 1)[0] + " ..."}"""'
