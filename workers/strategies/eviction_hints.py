"""Loads that are used once tell the cache so, and what every program reads again is kept. Pure."""

from __future__ import annotations

import ast
from collections import Counter

from gpu_runner.contracts import Bound
from workers.strategies.captured import has_products, shared_by_rows
from workers.strategies.evidence import Worth, bound_of
from workers.strategies.patches import Patches
from workers.strategies.pointers import accesses_of, derived
from workers.strategies.protocol import Situation
from workers.strategies.rewriting import Change, Rewriting, add_argument
from workers.strategies.syntax import KernelFile, called, names_in

PROGRAM = frozenset({"program_id"})
RANGE = frozenset({"arange"})
GAIN = 1.05
HINTED = ("eviction_policy", "cache_modifier")


def with_hints(file: KernelFile) -> Change | None:
    """Give a file whose streamed loads are evicted first, and whose shared ones last; the values are the same."""
    patches, places = Patches(file.source), []
    for name, kernel in file.kernels.items():
        if _has_a_second_axis(kernel):
            continue
        loads = accesses_of(kernel).loads
        counts = Counter(access.parameter for access in loads)
        own, blocks = _of_program(kernel), derived(kernel, RANGE)
        for access in loads:
            address = names_in(access.call.args[0])
            hinted = any(k.arg in HINTED for k in access.call.keywords)
            if access.parameter is None or hinted or not address & blocks:
                continue
            # What is read a second time shall be found in the cache, so that it gets no hint.
            policy = None if counts[access.parameter] > 1 else "evict_first" if address & own else "evict_last"
            if policy and add_argument(patches, file, access.call, f'eviction_policy="{policy}"'):
                places.append(f"`{access.parameter}` in `{name}` {policy.replace('_', ' ')}")
    return Change(patches.result(), tuple(places)) if any("evict first" in place for place in places) else None


def _has_a_second_axis(kernel: ast.FunctionDef) -> bool:
    """With two axes of programs a vector may differ along one and be shared along the other."""
    calls = [n for n in ast.walk(kernel) if isinstance(n, ast.Call) and called(n) == "tl.program_id"]
    axes = [a for call in calls for a in (*call.args, *(k.value for k in call.keywords))]
    return any(not (isinstance(axis, ast.Constant) and axis.value == 0) for axis in axes)


def _of_program(kernel: ast.FunctionDef) -> frozenset[str]:
    """The names that differ from program to program: by its number, or by the row that a loop has come to."""
    found = set(derived(kernel, PROGRAM))
    loops = [n for n in ast.walk(kernel) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)]
    for loop in loops:
        if names_in(loop.iter) & found and isinstance(loop.target, ast.Name):
            found.add(loop.target.id)
    moved = [n for n in ast.walk(kernel) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
    for statement in moved:
        if names_in(statement.value) & found and isinstance(statement.target, ast.Name):
            found.add(statement.target.id)
    return derived(kernel, frozenset(found))


def _foreseen(situation: Situation) -> Worth | None:
    problem, graph = situation.problem, situation.graph
    shared = shared_by_rows(problem)
    if not shared or graph is None or has_products(graph) or bound_of(situation) is not Bound.memory:
        return None
    told = ", ".join(f"`{name}`" for name in shared)
    once = ", ".join(f"`{spec.name}`" for spec in problem.inputs if len(spec.dims) > 1)
    return Worth(
        f"Every row reads all of {told}, and {once} only once: loads of that can be marked as evicted first", GAIN
    )


EVICTION_HINTS = Rewriting(
    "eviction_hints",
    "Eviction hints on streamed loads",
    "eviction_hints.md",
    with_hints,
    "Rows that are read once push out of the cache what all programs share; told so, the cache keeps the shared part.",
    "Loads that are used once are marked to be evicted first, what every program reads again to be kept",
    "Every load is hinted already, or read more than once.",
    GAIN,
    _foreseen,
)
