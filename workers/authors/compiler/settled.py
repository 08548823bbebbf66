"""Settings that were found by measuring, written into a source's ``TUNED``. Pure."""

from __future__ import annotations

import ast

from workers.strategies.protocol import Table

SUFFIX = "TUNED"
COMMENT = (
    "# Launch settings found by measuring: by architecture and pass, the first entry whose bound is not below the size."
)
Bounds = tuple[tuple[int, dict[str, int]], ...]
Entries = dict[str, dict[str, Bounds]]


def settled(source: str, table: Table, line_length: int = 120) -> str:
    """Give the source with a table in its ``TUNED``; other architectures keep their settings.

    Raises:
        ValueError: the source has no ``TUNED`` that is a literal, or the table holds what is no setting.
    """
    assignment = _assignment(source)
    target = assignment.targets[0]
    assert isinstance(target, ast.Name)
    try:
        entries: Entries = ast.literal_eval(assignment.value)
    except ValueError as error:
        raise ValueError(f"{target.id} is no literal") from error
    for architecture, passes in table:
        entries[architecture] = {
            timed: _guarded(tuple((bound, dict(settings)) for bound, settings in bounds)) for timed, bounds in passes
        }
    lines = source.splitlines()
    assert assignment.end_lineno is not None
    start = assignment.lineno - 1
    written = _written(target.id, entries, line_length)
    commented = start > 0 and lines[start - 1] == COMMENT
    return "\n".join([*lines[: start - commented], COMMENT, *written, *lines[assignment.end_lineno :]]) + "\n"


def _guarded(bounds: Bounds) -> Bounds:
    """Sizes below half of the smallest one that was measured are left to the rule, which knows more about them."""
    ordered = tuple(sorted(bounds, key=lambda entry: entry[0]))
    return ((ordered[0][0] // 2, {}), *ordered) if ordered and ordered[0][1] and ordered[0][0] > 1 else ordered


def _assignment(source: str) -> ast.Assign:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id.endswith(SUFFIX) and isinstance(node.value, ast.Dict):
                return node
    raise ValueError(f"the source has no {SUFFIX} to write settings into")


def _written(name: str, entries: Entries, line_length: int) -> list[str]:
    lines = [f"{name} = {{"]
    for architecture, passes in sorted(entries.items()):
        lines.append(f"    {_text(architecture)}: {{")
        for timed, bounds in passes.items():
            lines.append(f"        {_text(timed)}: (")
            for bound, settings in bounds:
                lines += _entry(bound, settings, line_length)
            lines.append("        ),")
        lines.append("    },")
    return [*lines, "}"] if entries else [f"{name} = {{}}"]


def _entry(bound: int, settings: dict[str, int], line_length: int) -> list[str]:
    items = [f"{_text(setting)}: {int(value)}" for setting, value in settings.items()]
    line = f"            ({int(bound)}, {{{', '.join(items)}}}),"
    if len(line) <= line_length:
        return [line]
    return [
        "            (",
        f"                {int(bound)},",
        "                {",
        *(f"                    {item}," for item in items),
        "                },",
        "            ),",
    ]


def _text(word: str) -> str:
    if not word.isidentifier():
        raise ValueError(f"{word!r} names no architecture, pass or setting")
    return f'"{word}"'
