"""Python source as text: line breaks, import blocks, edits that leave every other byte, comments within a line length. Pure."""

from __future__ import annotations

import ast
import io
import json
import math
import os
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_runner.contracts.reading import UNPARSABLE

INDENT = "    "
MAX_DOCSTRING = 100


def call(head: str, arguments: Iterable[str], tail: str = "", *, depth: int = 0, width: int = 120) -> str:
    """``head(arguments)tail`` on one line where it fits, else one argument a line."""
    items = list(arguments)
    margin = INDENT * depth
    line = f"{margin}{head}({', '.join(items)}){tail}"
    if len(line) <= width or not items:
        return line
    inner = "".join(f"{margin}{INDENT}{item},\n" for item in items)
    return f"{margin}{head}(\n{inner}{margin}){tail}"


def listing(head: str, items: Iterable[str], tail: str = "", *, depth: int = 0) -> str:
    """A list literal with one item a line."""
    margin = INDENT * depth
    inner = "".join(f"{margin}{INDENT}{item},\n" for item in items)
    return f"{margin}{head}[\n{inner}{margin}]{tail}"


def indented(text: str, depth: int = 1) -> str:
    """Text with every non-empty line indented."""
    return "\n".join(INDENT * depth + line if line.strip() else "" for line in text.split("\n"))


def tuple_of(items: Iterable[str]) -> str:
    """A tuple expression, with the comma that one item alone needs."""
    parts = list(items)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def literal(value: object) -> str:
    """A plain value as source, strings in double quotes."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return re.sub(r"e([+-])0+(?=\d)", r"e\1", repr(value))  # 1e-6 as people write it, not 1e-06


def docstring(text: str) -> str:
    """One line of somebody's prose as a docstring; what could end or change a string literal is replaced."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    plain = plain.replace("\\", "/").replace('"', "'")
    return f'"""{plain if len(plain) <= MAX_DOCSTRING else plain[:MAX_DOCSTRING].rsplit(" ", 1)[0] + " ..."}"""'


SECTIONS = ("future", "standard", "third", "first")


@dataclass(frozen=True)
class Import:
    """One imported name; ``name`` None is a plain ``import module``."""

    module: str
    name: str | None = None
    alias: str | None = None

    @property
    def bound(self) -> str:
        """The name that it binds."""
        return self.alias or self.name or self.module.split(".")[0]

    def line(self, comment: str = "", width: int = 120) -> str:
        """The statement, in parentheses where it would be too long."""
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
    """The imports at the top level of a module, one entry a name; none where the source does not parse."""
    try:
        body = ast.parse(source).body
    except UNPARSABLE:
        return ()
    imports: list[Statement] = []
    for node in body:
        if isinstance(node, ast.Import):
            names = [Import(alias.name, None, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [Import(module, alias.name, alias.asname) for alias in node.names]
        else:
            continue
        imports += [Statement(name, node.lineno, node.end_lineno or node.lineno) for name in names]
    return tuple(imports)


def block(imports: tuple[Import, ...], first_party: frozenset[str], *, single_line: bool = True) -> str:
    """A sorted import block, sections apart by a blank line.

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
    """The source with one more import, next to its sorted neighbours; nothing else changes.

    Raises:
        ValueError: there is no import of the same package to insert next to.
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


def place_of(names: Sequence[str], new: str) -> int:
    """The index at which a name is inserted among names that are only partly in alphabetical order.

    It is a place between a smaller and a greater neighbour, at the neighbour with the longest common prefix; else behind the
    greatest smaller name.
    """
    keys, key = [name.lower() for name in names], new.lower()
    fitting = [i for i in range(1, len(keys)) if keys[i - 1] < key < keys[i]]
    if fitting:
        return max(fitting, key=lambda i: max(_common_prefix(keys[i - 1], key), _common_prefix(keys[i], key)))
    smaller = [i for i, other in enumerate(keys) if other < key]
    return max(smaller, key=lambda i: keys[i]) + 1 if smaller else 0


def with_listed_name(source: str, name: str) -> str:
    """The source with one more string in ``__all__``, one a line; unchanged where there is no such list."""
    items = _all_items(source)
    if not items or name in [value for value, _ in items]:
        return source
    lines = source.splitlines(keepends=True)
    at = place_of([value for value, _ in items], name)
    line = items[at][1] - 1 if at < len(items) else items[-1][1]
    model = lines[(line if at < len(items) else line - 1)]
    margin, newline = model[: len(model) - len(model.lstrip())], _newline(model)
    lines.insert(line, f'{margin}"{name}",{newline}')
    return "".join(lines)


def with_function(source: str, name: str, definition: str) -> str:
    """The source with a function more, two blank lines apart, among its neighbours by name."""
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    lines = source.splitlines(keepends=True)
    newline = _newline(lines[0]) if lines else "\n"
    text = definition.rstrip("\n").replace("\n", newline) + newline
    at = place_of([f.name for f in functions], name)
    if functions and at == 0:
        lines.insert(_start_of(functions[0], lines), text + newline * 2)
        return "".join(lines)
    line = (functions[at - 1].end_lineno or 0) if functions else len(lines)
    if line and not lines[line - 1].endswith("\n"):
        lines[line - 1] += newline
    lines.insert(line, newline * 2 + text)
    return "".join(lines)


def _all_items(source: str) -> list[tuple[str, int]]:
    for node in ast.parse(source).body:
        named = isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
        )
        if named and isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Tuple):
            items = [(e.value, e.lineno) for e in node.value.elts if isinstance(e, ast.Constant)]
            one_a_line = len({line for _, line in items}) == len(items) and node.lineno not in {
                line for _, line in items
            }
            return [(str(value), line) for value, line in items] if one_a_line else []
    return []


def _start_of(node: ast.FunctionDef, lines: list[str]) -> int:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
    while first > 0 and lines[first - 1].startswith("#"):
        first -= 1
    return first


def _common_prefix(one: str, other: str) -> int:
    return len(os.path.commonprefix([one, other]))


def _newline(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n"


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
    """Lines that consist of one docstring."""
    lines = source.split("\n")
    one_liners = {value.lineno for value in _docstrings(source) if value.lineno == value.end_lineno}
    return {number for number in one_liners if re.fullmatch(r'\s*"""[^"\\]*"""', lines[number - 1])}


def _inside_docstrings(source: str) -> set[int]:
    """The lines of docstrings that hold words alone, no quotes."""
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
