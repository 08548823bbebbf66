"""The style check of a repository that has a ruff configuration. Pure."""

from __future__ import annotations

import re

from workers.contracts import FileChange
from workers.layouts.protocol import StyleCheck
from workers.tree import Tree

DEFAULT_LINE_LENGTH = 88
# Files that an exclusion of the target's configuration names stay excluded, though they are given by path.
SAFE = ("--force-exclude", "--no-cache")


def ruff_check(changes: tuple[FileChange, ...], tree: Tree) -> StyleCheck:
    """Give ruff's commands for the changed Python files; none where the repository does not configure ruff."""
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
    """Tell whether the repository configures ruff at its root."""
    table = re.search(r"^\[tool\.ruff[.\]]", tree.read("pyproject.toml") or "", re.MULTILINE)
    return table is not None or "ruff.toml" in tree.files or ".ruff.toml" in tree.files


def line_length(tree: Tree) -> int:
    """Give the line length that the repository configures, ruff's own default where it does not."""
    found = re.search(r"^line-length\s*=\s*(\d{2,3})\s*$", _configuration(tree), re.MULTILINE)
    return int(found.group(1)) if found else DEFAULT_LINE_LENGTH


def single_line_imports(tree: Tree) -> bool:
    """Tell whether the repository wants one name an import."""
    return re.search(r"^\s*force-single-line\s*=\s*true", _configuration(tree), re.MULTILINE) is not None


def _configuration(tree: Tree) -> str:
    return "\n".join(tree.read(path) or "" for path in (".ruff.toml", "ruff.toml", "pyproject.toml"))
