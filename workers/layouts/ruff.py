"""The style check of a repository that has a ruff configuration. Pure."""

from __future__ import annotations

import posixpath
from typing import Any

from workers.contracts import FileChange
from workers.layouts.protocol import StyleCheck
from workers.toml import read_toml, table_in
from workers.tree import Tree

DEFAULT_LINE_LENGTH, MOST_LINE_LENGTH = 88, 320  # as ruff has them
PROJECT = "pyproject.toml"
MOST_EXTENDED = 8  # files, each of which extends the next
DEEPEST = 3  # levels of tables in which a setting lies that is read here: `lint.isort`
# Files that an exclusion of the target's configuration names stay excluded, though they are given by path.
SAFE = ("--force-exclude", "--no-cache")


def ruff_check(changes: tuple[FileChange, ...], tree: Tree) -> StyleCheck:
    """Ruff's commands for the changed Python files; none where the repository does not configure ruff."""
    files = tuple(
        c.path for c in changes if c.text is not None and c.path.endswith(".py") and not c.path.startswith(("-", "@"))
    )
    if not files or not has_ruff(tree):
        return StyleCheck((), ())
    return StyleCheck(
        check=(
            ("ruff", "check", "--output-format=concise", *SAFE, *files),
            ("ruff", "format", "--check", "--diff", *SAFE, *files),
        ),
        fix=(("ruff", "check", "--fix", *SAFE, *files), ("ruff", "format", *SAFE, *files)),
    )


def has_ruff(tree: Tree) -> bool:
    """Whether the repository configures ruff at its root; ruff itself reports a file that cannot be read."""
    return _configured(tree) is not None


def line_length(tree: Tree) -> int:
    """The line length that the repository configures, ruff's own default where it does not."""
    length = _settings(tree).get("line-length")
    return length if type(length) is int and 1 <= length <= MOST_LINE_LENGTH else DEFAULT_LINE_LENGTH


def single_line_imports(tree: Tree) -> bool:
    """Whether the repository wants one name an import."""
    settings = _settings(tree)
    tables = (table_in(settings, "isort"), table_in(settings, "lint", "isort"))  # an old and the present place
    return any(table.get("force-single-line") is True for table in tables)


def _configured(tree: Tree) -> str | None:
    """The file at the root that ruff reads: the first of these alone."""
    for path in (".ruff.toml", "ruff.toml"):
        if path in tree.files:
            return path
    document = read_toml(tree.read(PROJECT) or "")
    return PROJECT if document is None or "ruff" in table_in(document, "tool") else None


def _settings(tree: Tree) -> dict[str, Any]:
    """Ruff's settings, including a file that this one extends."""
    path, settings = _configured(tree), dict[str, Any]()
    for _ in range(MOST_EXTENDED):
        document = read_toml(tree.read(path) or "") if path is not None else None
        table = table_in(document, "tool", "ruff") if path is not None and path.endswith(PROJECT) else document or {}
        settings = _over(table, settings, DEEPEST)
        extended = table.get("extend")
        if path is None or not isinstance(extended, str):
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), extended))
    return settings


def _over(base: dict[str, Any], table: dict[str, Any], levels: int) -> dict[str, Any]:
    """A table over another one, whose tables stay where they say more, so many levels deep."""
    both = {
        key: _over(base[key], value, levels - 1)
        for key, value in table.items()
        if levels > 1 and isinstance(value, dict) and table_in(base, key)
    }
    return base | table | both
