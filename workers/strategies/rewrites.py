"""Rewrites of the kernels' own text: constant sizes, eviction hints, pipelined loops. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from gpu_runner.contracts import Bound
from gpu_runner.contracts.reading import walk
from workers.contracts import Notes, PlannedStrategy
from workers.strategies.evidence import (
    Worth,
    bound_of,
    has_products,
    no_forecast,
    reduces_rows,
    row_bytes,
    share_sentence,
    shared_by_rows,
)
from workers.strategies.protocol import DoesNotApply, Proposed, Situation, Stands
from workers.strategies.source import (
    KernelFile,
    Launch,
    Patches,
    accesses_of,
    add_argument,
    add_parameter,
    called,
    constexprs_of,
    derived,
    indent_of,
    names_in,
    parsed,
    rendered_call,
    size_parameter,
)
from workers.strategies.sweep import tensor_of


@dataclass(frozen=True)
class RewrittenFile:
    """A file as it shall be, and what was changed in it, one entry a place."""

    source: str
    places: tuple[str, ...]


NOT_MEASURED = "What it gains was not measured"
Rewrite = Callable[[KernelFile], RewrittenFile | None]


@dataclass(frozen=True)
class Rewriting:
    """One change of kernels; ``rewrite`` returns None where it may change nothing."""

    id: str
    title: str
    document: str
    rewrite: Rewrite
    hypothesis: str
    change: str  # what is done to each place
    nothing: str  # the sentence where there is nothing to change
    gain_high: float  # 1.0 until it was measured
    foreseen: Callable[[Situation], Worth | None] = no_forecast  # by the problem alone
    needs_kernel: bool = False

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """Worth a try where the source has such places, or where the problem alone implies them."""
        try:
            worth = self.foreseen(situation) if situation.stands is Stands.nothing else self._worth(situation)
        except ValueError:
            return None
        if worth is None:
            return None
        reason = share_sentence(situation)
        trigger = f"{worth.trigger}{'; ' + reason if reason else ''}."
        return PlannedStrategy(self.id, self.title, trigger, worth.gain_low, worth.gain_high, bound_of(situation))

    def _worth(self, situation: Situation) -> Worth | None:
        rewritten = _rewritten(self.rewrite, situation.source)
        return None if rewritten is None else Worth(f"{self.change}: {len(rewritten.places)} places", self.gain_high)

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """The file with every such place changed."""
        try:
            rewritten = _rewritten(self.rewrite, situation.source)
        except ValueError as error:
            return DoesNotApply(f"The source was not understood: {error}.")
        if rewritten is None:
            return DoesNotApply(self.nothing)
        gain = (
            f"Up to {self.gain_high:.2f} times as fast where memory bounds it" if self.gain_high > 1.0 else NOT_MEASURED
        )
        expected = f"{gain}; the same values."
        return Proposed(
            rewritten.source, Notes(self.hypothesis, f"{self.change}: {', '.join(rewritten.places)}.", expected)
        )


@lru_cache(maxsize=64)  # a file is planned with several times in a job, and proposed once
def _rewritten(rewrite: Rewrite, source: str) -> RewrittenFile | None:
    return rewrite(parsed(source))


def with_constant_sizes(file: KernelFile) -> RewrittenFile | None:
    """A file whose kernels take the length of a row as a constant; a kernel is then compiled once a length."""
    patches, places = Patches(file.source), []
    launched = {launch.kernel for launch in file.launches}
    for name, kernel in file.kernels.items():
        size = size_parameter(kernel)
        if name not in launched or size is None or size in constexprs_of(kernel) or not _stays_a_number(kernel, size):
            continue
        for argument in (*kernel.args.posonlyargs, *kernel.args.args):
            if argument.arg == size and argument.annotation is None and _fits(file, argument):
                patches.replace(argument, f"{size}: tl.constexpr")
                places.append(f"`{size}` of `{name}`")
    return RewrittenFile(patches.result(), tuple(places)) if places else None


def _stays_a_number(kernel: ast.FunctionDef, size: str) -> bool:
    """A constant has no ``.to()``, and cannot be assigned to."""
    for node in walk(kernel):
        if isinstance(node, ast.Name) and node.id == size and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == size:
            return False
    return True


def _fits(file: KernelFile, argument: ast.arg) -> bool:
    return len(file.source.split("\n")[argument.lineno - 1]) + len(": tl.constexpr") <= 120


CONSTANT_SIZES = Rewriting(
    "constant_sizes",
    "Row lengths as constants",
    "constant-sizes.md",
    with_constant_sizes,
    "With the length of a row known to the compiler, masks of whole blocks and divisions by it fall away.",
    "The length of a row is a compile-time constant",
    "Every launched kernel knows the length of its rows already, or computes with it as a tensor.",
    1.08,
)
PROGRAM = frozenset({"program_id"})
RANGE = frozenset({"arange"})
HINTS_GAIN = 1.05
HINTED = ("eviction_policy", "cache_modifier")


def with_hints(file: KernelFile) -> RewrittenFile | None:
    """A file whose streamed loads are evicted first, and whose shared ones last; the values are the same."""
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
    return RewrittenFile(patches.result(), tuple(places)) if any("evict first" in place for place in places) else None


def _has_a_second_axis(kernel: ast.FunctionDef) -> bool:
    """With two axes of programs a vector may differ along one and be shared along the other."""
    calls = [n for n in walk(kernel) if isinstance(n, ast.Call) and called(n) == "tl.program_id"]
    axes = [a for call in calls for a in (*call.args, *(k.value for k in call.keywords))]
    return any(not (isinstance(axis, ast.Constant) and axis.value == 0) for axis in axes)


def _of_program(kernel: ast.FunctionDef) -> frozenset[str]:
    """The names that differ from program to program: by its number, or by the row that a loop has come to."""
    names = set(derived(kernel, PROGRAM))
    loops = [n for n in walk(kernel) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)]
    for loop in loops:
        if names_in(loop.iter) & names and isinstance(loop.target, ast.Name):
            names.add(loop.target.id)
    moved = [n for n in walk(kernel) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)]
    for statement in moved:
        if names_in(statement.value) & names and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
    return derived(kernel, frozenset(names))


def _hints_foreseen(situation: Situation) -> Worth | None:
    problem, graph = situation.problem, situation.graph
    shared = shared_by_rows(problem)
    if not shared or graph is None or has_products(graph) or bound_of(situation) is not Bound.memory:
        return None
    names = ", ".join(f"`{name}`" for name in shared)
    once = ", ".join(f"`{spec.name}`" for spec in problem.inputs if len(spec.dims) > 1)
    return Worth(
        f"Every row reads all of {names}, and {once} only once: loads of that can be marked as evicted first",
        HINTS_GAIN,
    )


EVICTION_HINTS = Rewriting(
    "eviction_hints",
    "Eviction hints on streamed loads",
    "eviction-hints.md",
    with_hints,
    "Rows that are read once push out of the cache what all programs share; told so, the cache keeps the shared part.",
    "Loads that are used once are marked to be evicted first, what every program reads again to be kept",
    "Every load is hinted already, or read more than once.",
    HINTS_GAIN,
    _hints_foreseen,
)
STAGES = "NUM_STAGES"
MOST_STAGES = 3
# What a program may hold in shared memory on every NVIDIA GPU since sm_80: 99 KiB (CUDA C++ Programming Guide, table 24).
SHARED_BYTES = 96 * 1024
# A row of more bytes is gone through in blocks: as one block it would spill (docs/knowledge/optimizations).
WIDE_ROW_BYTES = 65536
PIPELINES_GAIN = 1.25


def with_pipelines(file: KernelFile) -> RewrittenFile | None:
    """A file whose loading loops are pipelined, with as many stages as shared memory holds on every supported GPU."""
    patches, places = Patches(file.source), []
    for name, kernel in file.kernels.items():
        loops = [n for n in walk(kernel) if isinstance(n, ast.For) and _loads_plainly(n)]
        launches = [launch for launch in file.launches if launch.kernel == name]
        # An outer loop around another is left alone: Triton pipelines the innermost.
        loops = [loop for loop in loops if not any(isinstance(n, ast.For) and n is not loop for n in walk(loop))]
        loops = [loop for loop in loops if not _reads_what_it_writes(kernel, loop)]
        if not loops or not launches or kernel.decorator_list[1:] or STAGES in constexprs_of(kernel):
            continue
        turns = [_stages(file, kernel, loops, launch) for launch in launches]
        if all(turns) and _can_take(file, kernel, launches):
            _rewrite(patches, file, kernel, loops, launches, [turn for turn in turns if turn])
            places.append(f"`{name}` ({len(loops)} loops)")
    return RewrittenFile(patches.result(), tuple(places)) if places else None


def _loads_plainly(loop: ast.For) -> bool:
    plain = called(loop.iter) in ("range", "tl.range") and isinstance(loop.iter, ast.Call) and not loop.iter.keywords
    dotted = any(called(n) == "tl.dot" for n in walk(loop))
    leaves = any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in walk(loop))
    return plain and not dotted and not leaves and any(called(n) == "tl.load" for n in walk(loop))


def _reads_what_it_writes(kernel: ast.FunctionDef, loop: ast.For) -> bool:
    """A load that is made a turn early must not be of what the turn before it stores."""
    inside = {id(n) for n in walk(loop)}
    accesses = accesses_of(kernel)
    read = {a.parameter for a in accesses.loads if id(a.call) in inside}
    stored = {a.parameter for a in (*accesses.stores, *accesses.atomics) if id(a.call) in inside}
    return None in read | stored or bool(read & stored)


def _stages(file: KernelFile, kernel: ast.FunctionDef, loops: list[ast.For], launch: Launch) -> str | None:
    """The stages of a launch, by the bytes that a turn fetches; None where unknown."""
    block = next((name for name in constexprs_of(kernel) if name == "BLOCK_SIZE"), None)
    given = launch.argument(block) if block else None
    tensor = tensor_of(file, launch)
    others = [name for name in constexprs_of(kernel) if name.startswith("BLOCK") and name != block]
    if block is None or not isinstance(given, ast.Name) or tensor is None or others:
        return None
    offsets = derived(kernel, frozenset({block, "arange"}))
    loads = [a for a in accesses_of(kernel).loads if names_in(a.call.args[0]) & offsets]
    fetched = max(sum(1 for a in loads if any(n is a.call for n in walk(loop))) for loop in loops)
    if fetched == 0:
        return None
    turn = (
        f"{fetched} * {given.id} * {tensor}.element_size()" if fetched > 1 else f"{given.id} * {tensor}.element_size()"
    )
    return f"max(1, min({MOST_STAGES}, {SHARED_BYTES} // ({turn})))"


def _can_take(file: KernelFile, kernel: ast.FunctionDef, launches: list[Launch]) -> bool:
    """The parameter goes to the end of the kernel's, behind a trailing comma or in one line, and is given by name."""
    if kernel.args.kwonlyargs or kernel.args.vararg or kernel.args.kwarg:
        return False
    trial = Patches(file.source)
    return all(add_argument(trial, file, launch.call, f"{STAGES}=1") for launch in launches if not launch.starred)


def _rewrite(
    patches: Patches,
    file: KernelFile,
    kernel: ast.FunctionDef,
    loops: list[ast.For],
    launches: list[Launch],
    stages: list[str],
) -> None:
    for loop in loops:
        assert isinstance(loop.iter, ast.Call), "only calls of range are rewritten"
        arguments = [*(file.segment(a) for a in loop.iter.args), f"num_stages={STAGES}"]
        patches.replace(loop.iter, rendered_call("tl.range", arguments, indent_of(file.source, loop.lineno)))
    add_parameter(patches, file, kernel, f"{STAGES}: tl.constexpr = 1")
    for launch, value in zip(launches, stages, strict=True):
        if launch.starred:
            place = launch.starred[0]
            separate = place.lineno != launch.call.lineno
            joint = f",\n{indent_of(file.source, place.lineno)}" if separate else ", "
            patches.replace(place, f"{STAGES}={value}{joint}**{file.segment(place.value)}")
        else:
            add_argument(patches, file, launch.call, f"{STAGES}={value}")


def _pipelines_foreseen(situation: Situation) -> Worth | None:
    graph, sizes = situation.graph, situation.problem.workloads
    wide = [size for size in sizes if row_bytes(situation.problem, size) > WIDE_ROW_BYTES]
    if not wide or graph is None or has_products(graph) or not reduces_rows(graph):
        return None
    reason = f"{len(wide)} of {len(sizes)} sizes have rows of more than {WIDE_ROW_BYTES} bytes"
    return Worth(
        f"{reason}, which a program goes through in blocks: such a loop loads ahead, with stages", PIPELINES_GAIN
    )


PIPELINED_LOOPS = Rewriting(
    "pipelined_loops",
    "Pipelined loops",
    "pipelined-loops.md",
    with_pipelines,
    "A loop that waits for its own loads keeps too few bytes on their way; with stages the next turns are fetched meanwhile.",
    "Loops that load are pipelined, as deep as shared memory holds on every GPU since sm_80",
    "No kernel loads in a plain loop over rows or blocks whose bytes can be told.",
    PIPELINES_GAIN,
    _pipelines_foreseen,
)
