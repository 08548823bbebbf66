"""Makes the launch settings of a file tunable: each launch looks them up in ``TUNED`` and falls back to what stands there. Pure."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpu_runner.contracts import Knob, Pass
from workers.strategies.lookup import FUNCTION, imports_torch, insert_lookup, taken
from workers.strategies.patches import Patches, indent_of, rendered_call
from workers.strategies.syntax import KernelFile, parsed
from workers.strategies.tunable import PROGRAMS_NAME, Persistent, Tunable, in_dict, knobs_of, persistents, tunables

Wanted = frozenset[tuple[Pass, str]]


def swept(source: str, wanted: Wanted | None = None) -> tuple[str, tuple[Knob, ...]] | None:
    """Give a file whose settings are looked up, with the knobs to tune; None where there is nothing to tune.

    ``wanted`` limits it to some settings of some passes; None: all that may be changed.

    Raises:
        ValueError: the file cannot be parsed.
    """
    file = parsed(source)
    if taken(file) or not imports_torch(file):
        return None
    found = tunables(file)
    places = persistents(found)
    if wanted is not None:
        places = tuple(p for p in places if (p.launch.timed_pass, PROGRAMS_NAME) in wanted)
        limited = (replace(t, settings=tuple(s for s in t.settings if (t.timed_pass, s[0]) in wanted)) for t in found)
        found = tuple(t for t in limited if t.settings)
    patches = Patches(source)
    changed = tuple(t for t in found if _rewrite(patches, file, t))
    for place in places:
        _count(patches, file, place)
    if not changed and not places:
        return None
    insert_lookup(patches, file)
    return patches.result(), knobs_of(changed, places)


def _rewrite(patches: Patches, file: KernelFile, found: Tunable) -> bool:
    """Put the lookup in the place of a launch's settings; False where the call is written in a way that this cannot keep."""
    call = found.launch.call
    dropped = {name for name, _ in found.settings}
    through_dict = next((k for k in found.launch.starred if any(in_dict(found.launch, n) for n in dropped)), None)
    named = [k for k in call.keywords if k.arg in dropped]
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    lines = [a.lineno for a in arguments]
    if len(set(lines)) == len(lines) and lines and call.lineno not in lines:
        # A comment stays with the lookup, which stands in the line of the setting that it is about.
        commented = [k for k in named if not _alone_on_its_line(file, k)]
        place = through_dict or next(iter([*commented, *named]), None)
        others = [k for k in named if k is not place]
        if place is not None and all(_alone_on_its_line(file, k) for k in others):
            inner = indent_of(file.source, place.lineno)
            patches.replace(place, _lookup(file, found, through_dict, inner))
            for keyword in others:
                patches.replace_lines(keyword.lineno, keyword.end_lineno or keyword.lineno, "")
            return True
    segment = file.segment(call)
    if "#" in segment:
        return False
    kept = [file.segment(a) for a in call.args]
    kept += [_keyword(file, k) for k in call.keywords if k not in named and k is not through_dict]
    indent = indent_of(file.source, call.lineno)
    kept.append(_lookup(file, found, through_dict, indent + "    "))
    patches.replace(call, rendered_call(file.segment(call.func), kept, indent))
    return True


def _lookup(file: KernelFile, found: Tunable, through_dict: ast.keyword | None, indent: str) -> str:
    arguments = [found.device, f'"{found.timed_pass}"', found.size]
    for name, value in found.settings:
        if not (through_dict is not None and in_dict(found.launch, name)):
            arguments.append(f"{name}={'None' if value is None else file.segment(value)}")
    if through_dict is not None:
        arguments.append(f"**{file.segment(through_dict.value)}")
    return rendered_call(f"**{FUNCTION}", arguments, indent, width=119)


def _keyword(file: KernelFile, keyword: ast.keyword) -> str:
    value = file.segment(keyword.value)
    return f"**{value}" if keyword.arg is None else f"{keyword.arg}={value}"


def _alone_on_its_line(file: KernelFile, keyword: ast.keyword) -> bool:
    text = file.source.split("\n")[(keyword.end_lineno or keyword.lineno) - 1]
    return text.rstrip().endswith(",") and "#" not in text


def _count(patches: Patches, file: KernelFile, place: Persistent) -> None:
    """More programs than multiprocessors keep more bytes on their way; the buffers of partial sums grow with the number."""
    indent = indent_of(file.source, place.after.lineno)
    found = place.launch
    lookup = f'{FUNCTION}({found.device}, "{found.timed_pass}", {found.size}, {PROGRAMS_NAME}=1)'
    line = f'{indent}{place.name} *= {lookup}["{PROGRAMS_NAME}"]\n'
    patches.insert_before((place.after.end_lineno or place.after.lineno) + 1, line)
