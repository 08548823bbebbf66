"""Tiles of a matrix product in groups, so that programs that run together share what they read. Pure."""

from __future__ import annotations

import ast

from gpu_runner.contracts.reading import walk
from workers.strategies.rewrites import Rewriting, RewrittenFile
from workers.strategies.source import (
    KernelFile,
    Patches,
    accesses_of,
    called,
    derived,
    indent_of,
    names_in,
    parameters_of,
)

# Rows of tiles in a group. Source: Triton's tutorial on matrix multiplication, and the products of the compiler author.
GROUP = 8
ASKING = ".program_id"
# What a kernel may call besides functions of its file and methods of its values: anything else may ask for its program ids.
BUILTINS = frozenset({"range", "min", "max", "abs", "float", "int", "len"})
MODULES = frozenset({"tl", "triton", "libdevice"})


def with_grouped_tiles(file: KernelFile) -> RewrittenFile | None:
    """A file whose products go over their tiles in groups of rows; each program computes one tile as before.

    The pair of program ids is permuted, which Triton, whose programs have no order, allows where each is used as a tile alone.
    """
    patches, places = Patches(file.source), []
    launched = {launch.kernel for launch in file.launches}
    for name, kernel in file.kernels.items():
        ids = _tile_of(kernel) if name in launched and not _asks_elsewhere(file, kernel) else None
        if ids is None or not _shares_operands(kernel, *ids):
            continue
        line = _line_behind(kernel, *ids)
        if line is None:
            continue
        fast, slow = ids  # as the GPU starts programs: those of axis 0 one after the other
        text = f"{slow}, {fast} = tl.swizzle2d({slow}, {fast}, tl.num_programs(1), tl.num_programs(0), {GROUP})"
        patches.insert_before(line, f"{indent_of(file.source, kernel.body[-1].lineno)}{text}\n")
        places.append(f"`{fast}` and `{slow}` in `{name}`")
    return RewrittenFile(patches.result(), tuple(places)) if places else None


def _tile_of(kernel: ast.FunctionDef) -> tuple[str, str] | None:
    """The names of the program ids of axes 0 and 1, each asked for once; None where anything depends on the order."""
    if accesses_of(kernel).atomics:
        return None  # a lock is waited for, and the order of sums is another
    calls = [node for node in walk(kernel) if called(node).endswith(ASKING)]
    asked = {_axis(node): node for node in calls}
    if len(asked) != len(calls) or None in asked or not {0, 1} <= set(asked):
        return None
    named = {id(value): target.id for target, value in _assigned(kernel)}
    ids = [named.get(id(asked[axis])) for axis in (0, 1)]
    return None if None in ids else (str(ids[0]), str(ids[1]))


def _axis(call: ast.AST) -> int | None:
    values = [*call.args, *(k.value for k in call.keywords)] if isinstance(call, ast.Call) else []
    value = values[0].value if len(values) == 1 and isinstance(values[0], ast.Constant) else None
    return value if isinstance(value, int) else None


def _assigned(kernel: ast.FunctionDef) -> list[tuple[ast.Name, ast.expr]]:
    """The names that the kernel's own statements bind, each with its call; a conversion of the id is looked through."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in kernel.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs += zip(target.elts, value.elts, strict=False) if both else [(target, value)]  # type: ignore[attr-defined]
    return [(target, _converted(value)) for target, value in pairs if isinstance(target, ast.Name)]


def _converted(value: ast.expr) -> ast.expr:
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to"
    return value.func.value if is_call else value  # type: ignore[attr-defined]


def _asks_elsewhere(file: KernelFile, kernel: ast.FunctionDef) -> bool:
    """Whether a function that the kernel calls, directly or not, asks for its program ids, or is none of this file."""
    reached, waiting = {kernel.name}, [kernel]
    while waiting:
        function = waiting.pop()
        own = {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        known = own | set(parameters_of(function)) | MODULES
        for target in [node.func for node in walk(function) if isinstance(node, ast.Call)]:
            name = target.id if isinstance(target, ast.Name) else ""
            if name in file.kernels and name not in reached:
                reached.add(name)
                waiting.append(file.kernels[name])
            elif name not in reached | BUILTINS and not _is_method(target, known):
                return True
        if function is not kernel and any(called(node).endswith(ASKING) for node in walk(function)):
            return True
    return False


def _is_method(target: ast.expr, known: set[str]) -> bool:
    """Whether what is called is an attribute of a known name, or of a result."""
    if not isinstance(target, ast.Attribute):
        return False
    owner: ast.expr = target
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return not isinstance(owner, ast.Name) or owner.id in known


def _shares_operands(kernel: ast.FunctionDef, fast: str, slow: str) -> bool:
    """Whether a loop over products reads one operand by the one id alone, and another operand by the other id alone."""
    loops = [n for n in walk(kernel) if isinstance(n, ast.For) and any(called(m) == "tl.dot" for m in walk(n))]
    inside = {id(n) for loop in loops for n in walk(loop)}
    of_fast, of_slow = (derived(kernel, frozenset({name})) for name in (fast, slow))
    addresses = [names_in(a.call.args[0]) for a in accesses_of(kernel).loads if id(a.call) in inside]
    by_fast = any(names & of_fast and not names & of_slow for names in addresses)
    return by_fast and any(names & of_slow and not names & of_fast for names in addresses)


def _line_behind(kernel: ast.FunctionDef, fast: str, slow: str) -> int | None:
    """The line behind both ids' statements; None where one is bound again, used before, or shares its line."""
    stores = [n.id for n in walk(kernel) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    ids = {fast, slow}
    if any(stores.count(name) != 1 for name in ids):
        return None
    bound = [node for node in kernel.body if isinstance(node, ast.Assign) and _binds(node) & ids]
    first, last = kernel.body.index(bound[0]), kernel.body.index(bound[-1])
    between = [node for node in kernel.body[first:last] if node not in bound]
    values = [node.value for node in bound if isinstance(node, ast.Assign)]
    following = kernel.body[last + 1].lineno if last + 1 < len(kernel.body) else 0
    used = any(names_in(node) & ids for node in (*between, *values))
    line = (bound[-1].end_lineno or bound[-1].lineno) + 1
    return None if used or following < line else line


def _binds(node: ast.Assign) -> set[str]:
    return {n.id for target in node.targets for n in walk(target) if isinstance(n, ast.Name)}


GROUPED_TILES = Rewriting(
    "grouped_tiles",
    "Tiles in groups for the L2 cache",
    "grouped-tiles.md",
    with_grouped_tiles,
    "Programs that run together read a whole row of tiles of one operand; in groups of rows they read fewer different tiles, "
    "which the L2 cache then holds.",
    f"Programs go over the tiles of a product in groups of {GROUP} rows",
    "No kernel goes over the tiles of a product by two program ids alone, in an order that can be changed.",
    1.0,
)
