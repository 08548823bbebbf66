"""Settings that the host computes before a launch, looked up in ``TUNED`` where that can be. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts import Knob, Pass
from workers.strategies.lookup import FUNCTION, LOOKUP, imports_torch, insert_lookup, taken
from workers.strategies.patches import Patches
from workers.strategies.protocol import Table
from workers.strategies.syntax import KernelFile, Launch, called, parsed
from workers.strategies.tunable import BLOCKS, VALUES, size_of, tensor_of
from workers.tuned_table import settled


def can_look_up(file: KernelFile) -> bool:
    """Tell whether a file has this lookup, or room for it."""
    return has_lookup(file) or (not taken(file) and imports_torch(file))


def has_lookup(file: KernelFile) -> bool:
    """Tell whether a file has this very lookup already."""
    own = next(n for n in ast.parse(LOOKUP).body if isinstance(n, ast.FunctionDef))
    return any(ast.dump(f) == ast.dump(own) for f in file.functions.values() if f.name == FUNCTION)


def looked_up(file: KernelFile, launch: Launch, setting: str, name: str) -> str | None:
    """Give the lookup of a setting whose rule's value has a name already; None where it cannot be looked up."""
    tensor, size = tensor_of(file, launch), size_of(file, launch, file.kernels[launch.kernel])
    if launch.timed_pass is None or tensor is None or size is None:
        return None
    return f'{FUNCTION}({tensor}.device, "{launch.timed_pass}", {size}, {setting}={name})["{setting}"]'


def with_lookup(source: str) -> str:
    """Give a file that has the lookup, if anything is looked up in it."""
    file = parsed(source)
    if has_lookup(file) or not any(called(n) == FUNCTION for n in ast.walk(file.tree)):
        return source
    patches = Patches(source)
    insert_lookup(patches, file)
    return patches.result()


def knobs_in(source: str, settings: tuple[str, ...]) -> tuple[Knob, ...]:
    """Give the knobs of the passes in which one of ``settings`` is looked up: with what is looked up beside it.

    A table takes the place of all that a pass had, so that the other settings of such a pass are tuned anew.
    """
    found: list[tuple[str, str]] = []
    for node in ast.walk(parsed(source).tree):
        if isinstance(node, ast.Call) and called(node) == FUNCTION and len(node.args) == 3:
            place = node.args[1]
            found += [(str(place.value), k.arg) for k in node.keywords if isinstance(place, ast.Constant) and k.arg]
    passes = {timed_pass for timed_pass, name in found if name in settings}
    wanted = [(p, name) for p, name in dict.fromkeys(found) if p in passes]
    places = list(dict.fromkeys(p for p, _ in wanted))
    ranks = {name: number for number, name in enumerate(settings)}
    wanted.sort(key=lambda item: (places.index(item[0]), ranks.get(item[1], len(ranks))))
    return tuple(Knob(Pass(p), name, VALUES.get(name, BLOCKS)) for p, name in wanted)


def settled_settings(looking_up: str, plain: str, table: Table, settings: tuple[str, ...]) -> str:
    """Give the file with the table in it, or the one that looks nothing up where none of ``settings`` was found.

    Raises:
        ValueError: the table holds what is no name.
    """
    text = str(table)
    return settled(looking_up, table) if any(f"'{name}'" in text for name in settings) else plain
