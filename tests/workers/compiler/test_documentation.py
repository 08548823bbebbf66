"""Docstrings of emitted code stay inside the line length and end with a word."""

from __future__ import annotations

import ast

import pytest

from workers.authors.compiler.statements import sentence_docstring

TITLE = "RMSNorm with a weight of one plus what is learned, all of it in float32, and the result in the input's dtype"


def test_a_long_title_is_wrapped_between_words() -> None:
    lines = sentence_docstring(TITLE, 80)
    assert lines == [
        '    """RMSNorm with a weight of one plus what is learned, all of it in float32,',
        "    and the result in the input's dtype.",
        '    """',
    ]


def test_a_title_that_fits_without_its_closing_quotes_is_wrapped_too() -> None:
    for length in range(len(TITLE), len(TITLE) + 20):
        lines = sentence_docstring(TITLE, length)
        assert len(lines) in (1, 3) and max(map(len, lines)) <= length


def test_a_short_title_stays_on_its_line() -> None:
    assert sentence_docstring("ReGLU", 80) == ['    """ReGLU."""']


def test_a_title_without_end_is_ended_after_a_word() -> None:
    lines = sentence_docstring("word " * 500, 80)
    assert len(" ".join(lines)) < 500 and lines[-2].endswith("word ...")


@pytest.mark.parametrize(
    "title", ['"""\nimport os\n"""', "\\N{BULLET}\\", "a\x00b\u202ec", "x" * 900, TITLE, 'ends with "']
)
@pytest.mark.parametrize("length", [80, 120])
def test_any_title_is_one_string_inside_the_line_length(title: str, length: int) -> None:
    lines = sentence_docstring(title, length)
    body = ast.parse("\n".join(["class A:", *lines])).body[0]
    assert isinstance(body, ast.ClassDef) and len(body.body) == 1 and ast.get_docstring(body)
    assert all(len(line) <= length and line.isprintable() for line in lines)
