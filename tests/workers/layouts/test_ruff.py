"""What a repository's ruff configuration says is read as ruff reads it."""

from __future__ import annotations

import pytest

from workers.layouts.ruff import DEFAULT_LINE_LENGTH, has_ruff, line_length, single_line_imports
from workers.tree import Tree


def tree(**files: str) -> Tree:
    return Tree({path.replace("__", "/").replace("_toml", ".toml"): text.encode() for path, text in files.items()})


@pytest.mark.parametrize(
    ("files", "length", "single"),
    [
        ({"pyproject_toml": "[tool.ruff]\nline-length = 100  # as the team agreed\n"}, 100, False),
        ({"pyproject_toml": "[tool.black]\nline-length = 60\n\n[tool.ruff]\nline-length = 110\n"}, 110, False),
        (
            {"pyproject_toml": "[tool]\nruff = {line-length = 90, lint = {isort = {force-single-line = true}}}\n"},
            90,
            True,
        ),
        ({"pyproject_toml": 'tool."ruff"."line-length" = 77\n'}, 77, False),
        ({"pyproject_toml": "[tool.ruff.isort]\nforce-single-line = true\n"}, DEFAULT_LINE_LENGTH, True),
        ({"pyproject_toml": "[tool.isort]\nforce-single-line = true\n[tool.ruff]\n"}, DEFAULT_LINE_LENGTH, False),
        (
            {"pyproject_toml": "[tool.ruff]\nline-length = 100\n", "ruff_toml": "indent-width = 2\n"},
            DEFAULT_LINE_LENGTH,
            False,
        ),
        ({"ruff_toml": "line-length = 100\n", ".ruff_toml": "line-length = 120\n"}, 120, False),
        ({"ruff_toml": 'extend = "style/base.toml"\n', "style__base_toml": "line-length = 96\n"}, 96, False),
        (
            {
                "ruff_toml": 'extend = "./pyproject.toml"\n[lint.isort]\nforce-single-line = true\n',
                "pyproject_toml": "[tool.ruff]\nline-length = 101\n[tool.ruff.lint]\nselect = ['E']\n",
            },
            101,
            True,
        ),
        ({"ruff_toml": 'extend = "ruff.toml"\nline-length = 99\n'}, 99, False),
        (
            {
                "ruff_toml": f'extend = "base.toml"\n[{".".join(["a"] * 1500)}]\nb = 1\n',
                "base_toml": f"line-length = 98\n[{'.'.join(['a'] * 1500)}]\nc = 1\n",
            },
            98,
            False,
        ),
        ({"ruff_toml": "line-length = 12345\n"}, DEFAULT_LINE_LENGTH, False),
        ({"ruff_toml": 'line-length = "100"\n'}, DEFAULT_LINE_LENGTH, False),
    ],
)
def test_the_settings_are_those_that_ruff_takes(files: dict[str, str], length: int, single: bool) -> None:
    found = tree(**files)
    assert has_ruff(found)
    assert (line_length(found), single_line_imports(found)) == (length, single)


def test_without_a_table_there_is_no_style_check() -> None:
    assert not has_ruff(tree(pyproject_toml="[tool.black]\nline-length = 60\n# [tool.ruff]\n"))
    assert not has_ruff(tree(pyproject_toml='description = """\n[tool.ruff]\n"""\n'))
    assert not has_ruff(Tree({}))


@pytest.mark.parametrize("text", ["[tool.ruff\n", f"a = {'1' * 5000}\n[tool.ruff]\n", "a = " + "[" * 5000])
def test_what_cannot_be_read_is_left_to_ruff(text: str) -> None:
    found = tree(pyproject_toml=text)
    assert has_ruff(found)
    assert line_length(found) == DEFAULT_LINE_LENGTH
