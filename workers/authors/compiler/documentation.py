"""Docstrings of emitted code: whole words inside the line length, whatever a title holds. Pure."""

from __future__ import annotations

import textwrap

from workers.authors.compiler.statements import INDENT

MOST_CHARACTERS = 400
QUOTE = '"""'


def docstring(lines: tuple[str, ...], depth: int = 1) -> list[str]:
    """Write a docstring of several lines."""
    indent = INDENT * depth
    return [indent + QUOTE, *(f"{indent}{line}" if line else "" for line in lines), indent + QUOTE]


def sentence_docstring(text: str, line_length: int, depth: int = 1) -> list[str]:
    """Write a docstring of one sentence, wrapped between words; a text without end is ended after a word."""
    indent = INDENT * depth
    sentence = _sentence(text)
    if len(indent) + len(sentence) + 2 * len(QUOTE) <= line_length:
        return [f"{indent}{QUOTE}{sentence}{QUOTE}"]
    first, *rest = textwrap.wrap(sentence, line_length - len(indent), initial_indent=" " * len(QUOTE))
    if not rest:  # a formatter would put the closing quotes behind a single line, where they do not fit
        first, *rest = textwrap.wrap(sentence, line_length - len(indent) - len(QUOTE), initial_indent=" " * len(QUOTE))
    return [indent + QUOTE + first.strip(), *(indent + line for line in rest), indent + QUOTE]


def _sentence(text: str) -> str:
    words = " ".join(
        "".join(c for c in text.replace('"', "'") if c != "\\" and (c.isprintable() or c.isspace())).split()
    )
    short = textwrap.shorten(words, MOST_CHARACTERS, placeholder=" ...")
    return short if short.endswith(".") else f"{short}."
