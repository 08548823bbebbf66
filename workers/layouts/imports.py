"""Import statements: sorted blocks, and one more import in a file that has them sorted. Pure.

The order is that of ruff's isort rules with one name a line: sections (future, standard library, third party, first party), in
each `import x` before `from x import y`, modules without regard to case and with numbers by value, names as constants, classes,
the rest.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass

from gpu_runner.contracts.syntax import UNPARSABLE

SECTIONS = ("future", "standard", "third", "first")


@dataclass(frozen=True)
class Import:
    """One imported name; ``name`` None is a plain ``import module``."""

    module: str
    name: str | None = None
    alias: str | None = None

    @property
    def bound(self) -> str:
        """Give the name that it binds."""
        return self.alias or self.name or self.module.split(".")[0]

    def line(self, comment: str = "", width: int = 120) -> str:
        """Give the statement, in parentheses where it would be too long."""
        alias = f" as {self.alias}" if self.alias else ""
        if self.name is None:
            return f"import {self.module}{alias}{comment}"
        line = f"from {self.module} import {self.name}{alias}{comment}"
        if len(line) <= width or not comment:
            return line
        return f"from {self.module} import (\n    {self.name}{alias},{comment}\n)"


@dataclass(frozen=True)
class Statement:
    """An import statement of a file, with its first and last line, counted from 1."""

    imported: Import
    first: int
    last: int


def read_imports(source: str) -> tuple[Statement, ...]:
    """Give the imports at the top level of a module, one entry a name; none where the source does not parse."""
    try:
        body = ast.parse(source).body
    except UNPARSABLE:
        return ()
    found: list[Statement] = []
    for node in body:
        if isinstance(node, ast.Import):
            names = [Import(alias.name, None, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [Import(module, alias.name, alias.asname) for alias in node.names]
        else:
            continue
        found += [Statement(name, node.lineno, node.end_lineno or node.lineno) for name in names]
    return tuple(found)


def block(imports: tuple[Import, ...], first_party: frozenset[str], *, single_line: bool = True) -> str:
    """Give a sorted import block, sections apart by a blank line.

    With ``single_line`` there is one name an import, and a blank line between the two kinds of import.
    """
    parts: list[str] = []
    for section in SECTIONS:
        members = sorted({i for i in imports if _section(i, first_party) == section}, key=_order)
        plain = [i.line() for i in members if i.name is None]
        named = [i for i in members if i.name is not None]
        names = [i.line() for i in named] if single_line else _merged(named)
        gap = [""] if plain and names and single_line else []
        if members:
            parts.append("\n".join([*plain, *gap, *names]))
    return "\n\n".join(parts)


def with_import(source: str, new: Import, comment: str = "", width: int = 120) -> str:
    """Give the source with one import more, beside its sorted neighbours; nothing else of it changes.

    Raises:
        ValueError: there is no import of the same package to stand beside.
    """
    package = new.module.split(".")[0]
    near = [s for s in read_imports(source) if s.imported.name and s.imported.module.split(".")[0] == package]
    if any(s.imported == new for s in near):
        return source
    if not near:
        raise ValueError(f"there is no import from {package}")
    before = [s for s in near if _order(s.imported) < _order(new)]
    lines = source.splitlines(keepends=True)
    at = before[-1].last if before else near[0].first - 1
    newline = "\r\n" if lines[at - 1 if at else 0].endswith("\r\n") else "\n"
    lines.insert(at, new.line(comment, width).replace("\n", newline) + newline)
    return "".join(lines)


def _merged(imports: list[Import]) -> list[str]:
    modules = dict.fromkeys(i.module for i in imports)
    names = {m: [f"{i.name}{f' as {i.alias}' if i.alias else ''}" for i in imports if i.module == m] for m in modules}
    return [f"from {module} import {', '.join(members)}" for module, members in names.items()]


def _section(imported: Import, first_party: frozenset[str]) -> str:
    top = imported.module.split(".")[0]
    if top == "__future__":
        return "future"
    if top in first_party:
        return "first"
    # The standard library has a package named test; a repository's own folder of that name stands before it.
    return "standard" if top in sys.stdlib_module_names and top != "test" else "third"


def _order(imported: Import) -> tuple[object, ...]:
    name = imported.name or ""
    kind = 0 if len(name) > 1 and name.isupper() else 1 if name[:1].isupper() else 2
    return (imported.name is not None, _natural(imported.module), kind, _natural(name), imported.alias or "")


def _natural(text: str) -> tuple[tuple[int, int], ...]:
    parts = re.findall(r"[0-9]+|[^0-9]", text.lower())
    return tuple((ord("0"), int(part)) if part[0] in "0123456789" else (ord(part), 0) for part in parts)
