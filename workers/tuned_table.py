"""Writes measured launch settings into a kernel's source: the table ``TUNED`` at its top level. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import TABLE

LINE_LENGTH = 120
Settings = tuple[tuple[str, int], ...]
# Architecture such as "sm_90", then pass, then (size up to, settings), sizes rising.
Table = tuple[tuple[str, tuple[tuple[str, tuple[tuple[int, Settings], ...]], ...]], ...]


def with_tuned(source: str, table: Table, name: str = TABLE) -> str:
    """A module with a table written into its ``TUNED``.

    A pass of the table replaces the source's, even with no entries; other passes and
    other architectures stay. With an empty table the source is unchanged, byte by byte.

    Raises:
        ValueError: the source has no such dict of plain values, or the table has an invalid name.
    """
    if not table:
        return source
    node = _definition(source, name)
    lines = source.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
    lines[first : last + 1] = [before + rendered(_merged(_read(node), table)).encode() + after]
    return b"".join(lines).decode()


def table_of(source: str, name: str = TABLE) -> Table:
    """The contents of a module's ``TUNED``.

    Raises:
        ValueError: the source has no such dict of plain values.
    """
    current = _read(_definition(source, name))
    return tuple((architecture, tuple(passes.items())) for architecture, passes in current.items())


def rendered(table: Table) -> str:
    """A table as a dict in Python, one entry a line."""
    if not table:
        return "{}"
    lines = ["{"]
    for architecture, passes in table:
        lines.append(f"    {_name(architecture)}: {{")
        for timed_pass, entries in passes:
            lines += _pass(timed_pass, entries)
        lines.append("    },")
    return "\n".join([*lines, "}"])


def _pass(timed_pass: str, entries: tuple[tuple[int, Settings], ...]) -> list[str]:
    lines = [line for size, settings in entries for line in _entry(size, settings)]
    alone = f"        {_name(timed_pass)}: ({lines[0].strip()}),"
    # A formatter leaves the tuple of a single entry on one line where it fits.
    if len(entries) == 1 and len(lines) == 1 and len(alone) <= LINE_LENGTH:
        return [alone]
    return [f"        {_name(timed_pass)}: (", *lines, "        ),"]


def _entry(size: int, settings: Settings) -> list[str]:
    items = [f"{_name(name)}: {int(value)}" for name, value in settings]
    line = f"            ({int(size)}, {{{', '.join(items)}}}),"
    if len(line) <= LINE_LENGTH:
        return [line]
    inner = [f"                    {item}," for item in items]
    return [
        "            (",
        f"                {int(size)},",
        "                {",
        *inner,
        "                },",
        "            ),",
    ]


def _name(word: str) -> str:
    # What comes from a measurement is data, and must stay that where it is written into a source.
    if not word.isidentifier():
        message = f"{word!r} names no architecture, pass or setting"
        raise ValueError(message)
    return f'"{word}"'


def _merged(current: dict[str, dict[str, tuple[tuple[int, Settings], ...]]], table: Table) -> Table:
    for architecture, passes in table:
        known = current.setdefault(architecture, {})
        for timed_pass, entries in passes:
            # An entry without settings says that the rule holds up to its size, so it stays where a larger one has some.
            known[str(timed_pass)] = tuple(entries) if any(settings for _, settings in entries) else ()
    kept = {a: tuple((p, e) for p, e in passes.items() if e) for a, passes in current.items()}
    return tuple((architecture, passes) for architecture, passes in kept.items() if passes)


def _definition(source: str, name: str) -> ast.expr:
    for node in ast.parse(source).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if isinstance(value, ast.Dict):
                return value
    message = f"the source has no dict `{name}` at its top level"
    raise ValueError(message)


def _read(node: ast.expr) -> dict[str, dict[str, tuple[tuple[int, Settings], ...]]]:
    value = ast.literal_eval(node)
    try:
        return {
            str(architecture): {
                str(timed_pass): tuple((int(size), tuple(settings.items())) for size, settings in entries)
                for timed_pass, entries in passes.items()
            }
            for architecture, passes in value.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        message = "the table holds something that is not settings by architecture, pass and size"
        raise ValueError(message) from error
