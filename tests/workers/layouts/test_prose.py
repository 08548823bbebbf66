"""Comments and docstrings are wrapped at a library's line length, and nothing else is touched."""

from __future__ import annotations

import ast

import pytest

from workers.layouts.python_source import fitted

WIDE = '''\
def f(x):
    """Short rows share a program; few warps reduce a row fastest, as long as they stay in registers."""
    # Halves go to the even neighbour, as torch rounds, and nobody should be surprised by that at all.
    text = "a string that is as long as it wants to be, because breaking it would need to change the code"
    return x  # noqa: E501


def g(x):
    """
    y = first + second + third + fourth + fifth + sixth + seventh + eighth + ninth + tenth
    """
'''


def test_docstring_of_one_line_becomes_one_of_several() -> None:
    text = fitted(WIDE, 60)
    assert '    """Short rows share a program; few warps reduce a row\n' in text
    assert 'registers.\n    """\n' in text


def test_wrapped_comment_stays_a_comment() -> None:
    assert "    # Halves go to the even neighbour, as torch rounds, and\n    # nobody should" in fitted(WIDE, 60)


def test_formula_goes_on_further_to_the_right() -> None:
    assert "\n        sixth + seventh" in fitted(WIDE, 50) or "\n        fifth + sixth" in fitted(WIDE, 50)


def test_code_and_strings_stay_as_they_are() -> None:
    before, after = ast.parse(WIDE), ast.parse(fitted(WIDE, 60))
    for tree in (before, after):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.body = node.body[1:] or [ast.Pass()]
    assert ast.dump(before) == ast.dump(after)


@pytest.mark.parametrize("line", ["# noqa: E501 because " + "x " * 60, "# type: ignore " + "x " * 60, "# " + "x" * 100])
def test_directive_and_what_cannot_be_broken_stay(line: str) -> None:
    assert fitted(line + "\n", 88) == line + "\n"


def test_words_of_a_string_that_is_no_docstring_stay() -> None:
    source = 'def f():\n    x = """\n    ' + "word " * 40 + '\n    """\n    return x\n'
    assert fitted(source, 60) == source


def test_what_fits_is_given_back_as_it_is() -> None:
    assert fitted(WIDE, 200) is WIDE


def test_wrapping_twice_changes_nothing() -> None:
    assert fitted(fitted(WIDE, 60), 60) == fitted(WIDE, 60)
