"""Which settings of a design are worth tuning, and the values to try, by the form of each pass and the problem's sizes. Pure."""

from __future__ import annotations

from gpu_runner.contracts import Knob
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.design import Design
from workers.authors.compiler.families import stages_of
from workers.authors.compiler.launches import WIDEST_TILE, Pass, tuned_defaults
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import evaluate, numbers_of

WARPS = (4, 8, 16, 32)
ELEMENTS_A_THREAD = range(8, 129)  # fewer leave threads idle, more do not fit into registers
SMALLEST_TILE, LARGEST_TILE = 4096, 16384  # elements; the rules choose tiles of 4096 or 8192 where rows are short
LOOP_BLOCKS = (4096, 8192, 16384, 32768)
SEGMENT_KNOBS = (
    ("num_warps", (4, 8, 16, 32)),
    ("BLOCK_SIZE", (1024, 2048, 4096, 8192)),
    ("BLOCK_SEGMENTS", (1, 2, 4, 8)),
    ("NUM_STAGES", (1, 2, 3)),
)
A_PROGRAM_A_TILE = 64  # of each multiprocessor, which is about as many as there are tiles; no knob has the value 0
USUAL_COLS = 4096  # where a problem has no workloads


def knobs_of(design: Design) -> tuple[Knob, ...]:
    """Give the knobs of both passes, those that matter most first; at most 30 values together for a pass."""
    cols = columns_of(design)
    return tuple(
        Knob(stage.form.tuned_pass, setting, values)
        for stage in stages_of(design)
        for setting, values in _settings(stage, cols)
        if values
    )


def _settings(stage: Pass, cols: list[int]) -> list[tuple[str, tuple[int, ...]]]:
    if stage.is_segmented:
        return list(SEGMENT_KNOBS)
    return _flat(stage) if stage.is_flat else _rows(stage, cols)


def columns_of(design: Design) -> list[int]:
    """Give the columns that the workloads have, sizes rising."""
    domain, found = design.program.domain, set()
    for workload in design.program.problem.workloads:
        product = 1
        try:
            for axis in domain.col_axes:
                size = domain.sizes[axis]
                product *= (
                    int(evaluate(size, numbers_of(design.program.problem, workload)))
                    if isinstance(size, Expr)
                    else size
                )
        except CannotCompileError:
            continue
        found.add(product)
    return sorted(found) or [USUAL_COLS]


def _flat(stage: Pass) -> list[tuple[str, tuple[int, ...]]]:
    return [("BLOCK_SIZE", (1024, 2048, 4096, 8192)), ("num_warps", (4, 8, 16)), *_hints(stage)]


def _hints(stage: Pass) -> list[tuple[str, tuple[int, ...]]]:
    return [("EVICT_FIRST", (1,))] if "EVICT_FIRST" in tuned_defaults(stage) else []


def _rows(stage: Pass, cols: list[int]) -> list[tuple[str, tuple[int, ...]]]:
    """Knobs of programs over rows; what only wide rows have is left out where no workload is wide, and the other way round."""
    looped = [n for n in cols if stage.wide is not None and n > stage.widest]
    tiles = [1 << (n - 1).bit_length() for n in cols if n not in looped]
    found: list[tuple[str, tuple[int, ...]]] = [("WIDEST", other_widest(stage, cols))]
    if looped:
        found += [("LOOP_WARPS", WARPS), ("LOOP_BLOCK", LOOP_BLOCKS), ("LOOP_STAGES", (1, 3))]
    if tiles:
        found.append(("num_warps", _warps(tiles)))
    if tiles or stage.task.is_persistent:
        found.append(("PROGRAMS", _programs(stage)))
    if tiles:
        narrowest = min(tiles) if stage.task.reduces_cols else min(1024, *tiles)
        found += [("NUM_STAGES", (1, 2, 3, 4)), ("BLOCK_ROWS", _counts(16, LARGEST_TILE // narrowest))]
        if not stage.task.reduces_cols:
            found.append(("BLOCK_SIZE", tuple(n for n in (1024, 2048, 4096, 8192) if n <= max(tiles))))
    return [*found, *_hints(stage)]


def _programs(stage: Pass) -> tuple[int, ...]:
    if stage.task.is_persistent:
        return (1, 2, 4)
    return (1, 2, 4, A_PROGRAM_A_TILE) if stage.streams else (1, 2, 4, 8)


def other_widest(stage: Pass, cols: list[int]) -> tuple[int, ...]:
    """Give other bounds between the two kernels of a pass: rows near the bound may be better off on its other side."""
    if stage.wide is None:
        return ()
    fewer = [stage.widest // 2] if any(stage.widest // 2 < n <= stage.widest for n in cols) else []
    more = [WIDEST_TILE] if any(stage.widest < n <= WIDEST_TILE for n in cols) else []
    return (*fewer, *more)


def _counts(most: int, fitting: int) -> tuple[int, ...]:
    counts = tuple(1 << power for power in range(most.bit_length()) if 1 << power <= min(most, fitting))
    return counts if len(counts) > 1 else ()


def _warps(tiles: list[int]) -> tuple[int, ...]:
    elements = {max(tile, SMALLEST_TILE) for tile in tiles}
    return tuple(n for n in WARPS if any(count // (32 * n) in ELEMENTS_A_THREAD for count in elements))
