"""The schedule of rows that fall into segments: its kernel and its launch. Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Self

from workers.authors.compiler.domain import COL, FULL, SCALAR
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope, Scalars, row_index
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import KernelWriter, Knobs, Lane, Schedule, started
from workers.authors.compiler.schedules.looped import LoopedKernel
from workers.authors.compiler.statements import ScopeStatements
from workers.authors.compiler.values import TileValue

SEGMENT_SETTINGS = '''def _segment_settings(n_segments, segment_size, most=4096):
    """A tile holds whole segments where they are short: of 4096 elements a thread loads eight of each tensor at once."""
    BLOCK_SIZE = min(triton.next_power_of_2(segment_size), most)
    BLOCK_SEGMENTS = min(triton.next_power_of_2(n_segments), 4096 // BLOCK_SIZE)
    return BLOCK_SEGMENTS, BLOCK_SIZE, max(4, min(16, BLOCK_SEGMENTS * BLOCK_SIZE // 256))'''
# Measured: H200, bfloat16, 64 x 512 x 4096 in 32 groups. Forward, a segment of 4096: 240 us with 8 elements a thread, 266 with 16;
# 210 where the last pass reads blocks from the end, since what was read last is still in the cache, and 200 where the cache is told
# what is read again. Backward, two segments of 2048, 8 elements a thread: 369, from the end 343, told 326; one of 4096: 365.
MOST_OF_SEVERAL = 2048  # columns of a tile where several tensors are loaded
AGAIN, ONCE = ', eviction_policy="evict_last"', ', eviction_policy="evict_first"'
CHOSEN = ("BLOCK_SEGMENTS", "BLOCK_SIZE", "num_warps")
STAGES = 1  # measured as above: forward 201 us, 289 and 245 with two and three; backward 344, 429 and 379
WHOLE_BLOCK = "BLOCK_SEGMENTS * BLOCK_SIZE"


class Segmented(Schedule):
    """A program takes a row that falls into segments, a tile of segments at a time."""

    SOURCES: ClassVar = {"_segment_settings(": SEGMENT_SETTINGS}

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        """Whether a tensor has a number for each segment of a row, and what is summed over rows are none of whole ones."""
        whole = any(store.summed and store.space == COL for store in task.stores)
        return task.sums_segments or (bool(program.domain.segment_axes) and not whole)

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel; all loads are read as the cache likes."""
        task = replace(task, form=replace(task.form, streamed=frozenset()))
        return cls(program, task, SegmentedKernel(program, names, scalars, task).write(), host)

    @property
    def settings(self) -> dict[str, str]:
        """The tile, its warps, and how many blocks are on their way."""
        return {**{name: name for name in CHOSEN}, "NUM_STAGES": str(STAGES)}

    def size_lines(self) -> list[str]:
        """Lines that compute how many segments a row has and how long one is."""
        host, domain = self.host, self.program.domain
        axes = domain.segment_axes
        lines = [f"n_segments = {host.product(axes)}", f"segment_size = {host.product(domain.col_axes[len(axes) :])}"]
        return [*lines, "n_cols = n_segments * segment_size", f"n_rows = {host.rows}", *self.stride_lines()]

    def setting_lines(self) -> list[str]:
        """Lines that choose the tile by the number of segments and their size."""
        loads = [value for value in self.kernel.values if value.op == "load" and value.space == FULL]
        several = sum(self.program.domain.segments_of(str(load.datum)) is None for load in loads) > 1
        most = f", {MOST_OF_SEVERAL}" if several else ""
        rule = f"{', '.join(CHOSEN)} = _segment_settings(n_segments, segment_size{most})"
        return [rule, *(self.tuned_lines("n_cols", *CHOSEN) if self.form.tunable else [])]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each row."""
        constants = {name: name for name in CHOSEN} | {"NUM_STAGES": 'tuned["NUM_STAGES"]'}
        return started(self.kernel, "(n_rows,)", constants)

    def knobs(self, cols: list[int]) -> Knobs:
        """The tile, its warps and stages, whatever the columns."""
        return [
            ("num_warps", (4, 8, 16, 32)),
            ("BLOCK_SIZE", (1024, 2048, 4096, 8192)),
            ("BLOCK_SEGMENTS", (1, 2, 4, 8)),
            ("NUM_STAGES", (1, 2, 3)),
        ]

    def partials(self, store: Store) -> str:
        """A number of each row, or of each of its segments."""
        return "(n_rows, n_segments)" if store.space.segments else "n_rows"

    def total_line(self, store: Store, node: str, dtype: str) -> str:
        """The line that adds up all rows, in the shape of the tensor where segments keep theirs apart."""
        if not store.space.segments:
            return super().total_line(store, node, dtype)
        dims = ", ".join(self.host.product(dim) for dim in self.program.domain.shapes[node])
        return f"{store.name} = {store.buffer}.view(-1, {dims}).sum(dim=0).to({dtype})"


class SegmentedKernel(LoopedKernel):
    """A program takes a row; tensors with a number for each segment are loaded once a tile, and sums over the elements of a
    segment are left a row at a time."""

    @property
    def block(self) -> str:
        """The shape of a tile."""
        return "(BLOCK_SEGMENTS, BLOCK_SIZE)"

    def share(self, total: str) -> str:
        """One over how many elements of a row a lane has met: one a block where a row is read as it lies, and others by lane where
        each segment ends within a block."""
        if self._is_whole:
            return f"1.0 / (start // ({WHOLE_BLOCK}) + 1)"
        return f"1.0 / tl.maximum({total}_count, 1.0)"

    @property
    def _mask(self) -> str:
        """The mask of a tile's segments; none where the problem fixes so many that every tile is full."""
        sizes = [self.program.domain.sizes[axis] for axis in self.program.domain.segment_axes]
        known = math.prod(size for size in sizes if isinstance(size, int))
        is_fixed = all(isinstance(size, int) for size in sizes) and not self.task.form.tunable
        return "" if is_fixed and known & (known - 1) == 0 else ", mask=segments < n_segments"

    @property
    def lanes(self) -> str:
        """The shape of what is kept of each segment of a tile."""
        return "(BLOCK_SEGMENTS, 1)"

    def __init__(self, program: ValueProgram, names: TensorNames, scalars: Scalars, task: object) -> None:
        KernelWriter.__init__(self, program, names, scalars, task)  # type: ignore[arg-type]
        self._is_whole = False  # whether the pass that is being written reads a row as it lies
        self._rereads = False  # whether it is the last of several
        self._by_segment = [v for v in self.loads if program.domain.segments_of(str(v.datum)) is not None]
        # What a segment's tensor holds past the elements of its segment is its number, not zero.
        self.others.update({str(load.datum): Lane.finite for load in self._by_segment})
        if any(store.chunk or (store.summed and store.space == COL) for store in task.pieces):  # type: ignore[attr-defined]
            raise CannotCompileError(
                "`sum` over rows is beside a sum over segments of rows, which takes two kernels", "sum"
            )
        if (
            self.picks
            or any(self.chunk(load) for load in self.loads)
            or any(v.op in {"column", "row"} for v in self.task.values)
        ):
            raise CannotCompileError("`slice` or `gather` is beside tensors with a number for each channel", "slice")

    def write(self) -> KernelSource:
        """The kernel as source."""
        head, body = self.scope(), self.scope()
        for load in self.loads:
            if load.space == SCALAR:
                self._load(head, load, "")
        body.env.update(head.env)
        body.line("row_offset = row * tl.cast(n_cols, tl.int64)")
        for load in self.loads:
            if load.space.rows and not load.space.cols:
                self._load(body, load, row_index(self.program, self.names, load, "row")[0])
        self._passes(body)
        self._store_rows(body)
        lines = ["    row = tl.program_id(0)", *self.scalar_lines(), *head.lines, *self._accumulators(), *body.lines]
        totals = [store for store in self.task.pieces if store.summed and store.space == SCALAR]
        lines += [f"    tl.store({store.buffer}_ptr + row, tl.sum({store.name}))" for store in totals]
        extra = tuple(dict.fromkeys(s for load in self.loads for s in row_index(self.program, self.names, load)[1]))
        sizes = (*extra, "n_segments", "segment_size", "n_cols")
        stages = ("NUM_STAGES",) if self.task.form.tunable else ()
        return self.finish(lines, sizes, ("BLOCK_SEGMENTS", "BLOCK_SIZE", *stages))

    @property
    def stored_hint(self) -> str:
        """The cache hint of what is stored, which is to leave room for what is read again."""
        return ONCE if self._rereads else ""

    def _pass(self, body: ScopeStatements, reductions: list[TileValue], *, last: bool) -> None:
        self._rereads = last and self._depth > 0 and not self.form.strides_the_grid
        super()._pass(body, reductions, last=last)

    def _load(self, scope: ScopeStatements, load: TileValue, place: str, hint: str = "") -> None:
        if load in self._read_again:
            hint = ONCE if self._rereads else AGAIN
        super()._load(scope, load, place, hint)

    @cached_property
    def _read_again(self) -> set[TileValue]:
        """The tensors that a pass before the last one reads, and the last one too."""
        if self.form.strides_the_grid:
            return set()
        reduced = [value.args[0] for value in self.task.values if value.op == "over_cols"]
        stored = [store.value for store in self.task.pieces if self._by_column(store)]
        first, last = (_read_by(roots) for roots in (reduced, stored))
        return {load for load in self.loads if load.space == FULL and load in first & last}

    def _loop(self, scope: ScopeStatements, name: str, blocks: str, length: str, size: str) -> ScopeStatements:
        """Begin a loop over blocks, and give the scope inside of it: in the last of several passes the last block comes first."""
        turn = "turn" if name == "start" else "segment_turn"
        scope.line(f"for {turn if self._rereads else name} in {blocks}:")
        inner = self.scope(scope.depth + 1)
        inner.env.update(scope.env)
        if self._rereads:
            inner.line(f"{name} = (tl.cdiv({length}, {size}) - 1) * {size} - {turn}")
        return inner

    def fill(self, load: TileValue) -> str:
        """What a load yields outside of the mask."""
        return "0.0" if load in self._by_segment and not load.integer else super().fill(load)

    def _opened(self, body: ScopeStatements, roots: list[TileValue], stores: list[Store]) -> ScopeStatements:
        needed = self._needed(body, roots)
        self._is_whole = needed.isdisjoint(self._by_segment) and not any(store.space.segments for store in stores)
        if self._is_whole:
            # No segment has a number of its own here, and lanes have met as many elements but in the last block. Measured: H200,
            # bfloat16, group norm of 64 x 512 x 4096: one share a block takes 238 us, one an element 276.
            inner = self._loop(body, "start", self.blocks("n_cols", WHOLE_BLOCK), "n_cols", f"({WHOLE_BLOCK})")
            lanes = "tl.arange(0, BLOCK_SEGMENTS)[:, None] * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)[None, :]"
            inner.line(f"cols = start + {lanes}")
            inner.line("mask = cols < n_cols")
            return inner
        outer = self._loop(body, "first", "range(0, n_segments, BLOCK_SEGMENTS)", "n_segments", "BLOCK_SEGMENTS")
        outer.line("segments = (first + tl.arange(0, BLOCK_SEGMENTS))[:, None]")
        for load in (v for v in self._by_segment if v in needed):
            index = row_index(self.program, self.names, load, "row")[0]
            place = f"({index}) * n_segments + segments" if load.space.rows else "segments"
            place = place.replace("(row) ", "row ")
            name = self.tensor(load)
            outer.line(f"{name}_offsets = {place}")
            other = f"{self._mask}, other={self.fill(load)}" if self._mask else ""
            text = f"tl.load({name}_ptr + {name}_offsets{other})"
            outer.line(f"{name} = {self.converted(text, load)}")
            outer.env[load] = name
        for store in (s for s in stores if s.space.segments):
            outer.line(f"{store.name} = tl.zeros({self.block}, dtype=tl.float32)")
        inner = self._loop(outer, "start", self.blocks("segment_size"), "segment_size", "BLOCK_SIZE")
        inner.line("elements = start + tl.arange(0, BLOCK_SIZE)[None, :]")
        within = "(segments < n_segments) & (elements < segment_size)" if self._mask else "elements < segment_size"
        inner.line(f"mask = {within}")
        inner.line("cols = segments * segment_size + elements")
        body.lines += outer.lines
        return inner

    def _closed(self, body: ScopeStatements, stores: list[Store]) -> None:
        outer = self.scope(body.depth + 1)
        for store in (s for s in stores if s.space.segments):
            total = f"tl.sum({store.name}, axis=1, keep_dims=True)"
            place = f"{store.buffer}_ptr + row * tl.cast(n_segments, tl.int64) + segments"
            outer.line(f"{store.name} = {total}")
            outer.line(f"tl.store({place}, {store.name}{self._mask})")
        body.lines += outer.lines

    def _needed(self, scope: ScopeStatements, roots: list[TileValue]) -> set[TileValue]:
        needed: set[TileValue] = set()
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if value not in needed and value not in scope.env:
                needed.add(value)
                waiting.extend(value.args)
        return needed

    def _store_blocks(self, inner: ScopeStatements, stores: list[Store]) -> None:
        super()._store_blocks(inner, [store for store in stores if not store.space.segments])
        for store in (s for s in stores if s.space.segments):
            inner.line(f"{store.name} += {self._masked(inner, store.value, 'sum')}")

    def _accumulators(self) -> list[str]:
        lines = []
        for store in self.task.pieces:
            if store.summed and store.space == SCALAR:
                shape = self.block if store.value.space == FULL else "(1,)"
                lines.append(f"    {store.name} = tl.zeros({shape}, dtype=tl.float32)")
        return lines


def _read_by(roots: list[TileValue]) -> set[TileValue]:
    """What is read to compute these values, of which reductions are known."""
    waiting, seen = list(roots), set[TileValue]()
    while waiting:
        value = waiting.pop()
        if value not in seen and value.op != "over_cols":
            seen.add(value)
            waiting.extend(value.args)
    return seen
