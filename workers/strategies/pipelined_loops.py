"""Loops over rows or blocks fetch the next turn while the current one is computed. Pure."""

from __future__ import annotations

import ast

from workers.strategies.captured import has_products, reduces_rows
from workers.strategies.evidence import Worth
from workers.strategies.patches import Patches, indent_of, rendered_call
from workers.strategies.pointers import accesses_of, derived
from workers.strategies.protocol import Situation
from workers.strategies.rewriting import Change, Rewriting, add_argument, add_parameter
from workers.strategies.rows_measured import row_bytes
from workers.strategies.syntax import KernelFile, Launch, called, constexprs_of, names_in
from workers.strategies.tunable import tensor_of

STAGES = "NUM_STAGES"
MOST_STAGES = 3
# What a program may hold in shared memory on every NVIDIA GPU since sm_80: 99 KiB (CUDA C++ Programming Guide, table 24).
SHARED_BYTES = 96 * 1024
# A row of more bytes is gone through in blocks: as one block it would spill (docs/strategies/knowledge.md).
WIDE_ROW_BYTES = 65536
GAIN = 1.25


def with_pipelines(file: KernelFile) -> Change | None:
    """Give a file whose loading loops are pipelined, with as many stages as shared memory holds on every supported GPU."""
    patches, places = Patches(file.source), []
    for name, kernel in file.kernels.items():
        loops = [n for n in ast.walk(kernel) if isinstance(n, ast.For) and _loads_plainly(n)]
        launches = [launch for launch in file.launches if launch.kernel == name]
        # An outer loop around another is left alone: Triton pipelines the innermost.
        loops = [loop for loop in loops if not any(isinstance(n, ast.For) and n is not loop for n in ast.walk(loop))]
        loops = [loop for loop in loops if not _reads_what_it_writes(kernel, loop)]
        if not loops or not launches or kernel.decorator_list[1:] or STAGES in constexprs_of(kernel):
            continue
        turns = [_stages(file, kernel, loops, launch) for launch in launches]
        if all(turns) and _can_take(file, kernel, launches):
            _rewrite(patches, file, kernel, loops, launches, [turn for turn in turns if turn])
            places.append(f"`{name}` ({len(loops)} loops)")
    return Change(patches.result(), tuple(places)) if places else None


def _loads_plainly(loop: ast.For) -> bool:
    plain = called(loop.iter) in ("range", "tl.range") and isinstance(loop.iter, ast.Call) and not loop.iter.keywords
    dotted = any(called(n) == "tl.dot" for n in ast.walk(loop))
    leaves = any(isinstance(n, ast.Return | ast.Break | ast.Continue) for n in ast.walk(loop))
    return plain and not dotted and not leaves and any(called(n) == "tl.load" for n in ast.walk(loop))


def _reads_what_it_writes(kernel: ast.FunctionDef, loop: ast.For) -> bool:
    """A load that is made a turn early must not be of what the turn before it stores."""
    inside = {id(n) for n in ast.walk(loop)}
    accesses = accesses_of(kernel)
    read = {a.parameter for a in accesses.loads if id(a.call) in inside}
    written = {a.parameter for a in (*accesses.stores, *accesses.atomics) if id(a.call) in inside}
    return None in read | written or bool(read & written)


def _stages(file: KernelFile, kernel: ast.FunctionDef, loops: list[ast.For], launch: Launch) -> str | None:
    """The stages of a launch, by the bytes that a turn fetches; None where they cannot be told."""
    block = next((name for name in constexprs_of(kernel) if name == "BLOCK_SIZE"), None)
    given = launch.argument(block) if block else None
    tensor = tensor_of(file, launch)
    others = [name for name in constexprs_of(kernel) if name.startswith("BLOCK") and name != block]
    if block is None or not isinstance(given, ast.Name) or tensor is None or others:
        return None
    offsets = derived(kernel, frozenset({block, "arange"}))
    loads = [a for a in accesses_of(kernel).loads if names_in(a.call.args[0]) & offsets]
    fetched = max(sum(1 for a in loads if any(n is a.call for n in ast.walk(loop))) for loop in loops)
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


def _foreseen(situation: Situation) -> Worth | None:
    graph, sizes = situation.graph, situation.problem.workloads
    wide = [size for size in sizes if row_bytes(situation.problem, size) > WIDE_ROW_BYTES]
    if not wide or graph is None or has_products(graph) or not reduces_rows(graph):
        return None
    told = f"{len(wide)} of {len(sizes)} sizes have rows of more than {WIDE_ROW_BYTES} bytes"
    return Worth(f"{told}, which a program goes through in blocks: such a loop loads ahead, with stages", GAIN)


PIPELINED_LOOPS = Rewriting(
    "pipelined_loops",
    "Pipelined loops",
    "pipelined_loops.md",
    with_pipelines,
    "A loop that waits for its own loads keeps too few bytes on their way; with stages the next turns are fetched meanwhile.",
    "Loops that load are pipelined, as deep as shared memory holds on every GPU since sm_80",
    "No kernel loads in a plain loop over rows or blocks whose bytes can be told.",
    GAIN,
    _foreseen,
)
