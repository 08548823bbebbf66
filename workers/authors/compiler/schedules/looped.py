"""Rows wider than registers hold: passes over the row in blocks, one for each stage of reductions. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR, place_of, run_sizes, runs_of
from workers.authors.compiler.host import Scalars, row_index, segment_columns
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.rerolling import RerolledLoop
from workers.authors.compiler.schedules.base import HINTED, NEUTRAL, KernelWriter, Knobs, Schedule, started
from workers.authors.compiler.schedules.reductions import (
    Moments,
    block_lines,
    bring_together,
    largest_lines,
    levels_of,
    loses_nan,
    moments_of,
    online_maxima,
    opening_lines,
    place_lines,
    with_nan,
)
from workers.authors.compiler.statements import ScopeStatements, write_loop
from workers.authors.compiler.values import TileValue, topological

LOWEST = "-3.4028234e38"
LANE = 8  # neighbours that one thread holds: a vector of 128 bits, in bfloat16
BLOCK, NUM_WARPS, STAGES = 8192, 16, 3
# Where a row is read once in any case, several programs a multiprocessor, each with a block, keep more bytes on their way.
# Measured: H200, bfloat16, blocks of 4096 and 2048; two tensors of 4096 x 32768: KL divergence 141 and 134 us, TVD 137 and 134, JSD
# 327 and 306; one of 4096 x 128256: cross-entropy 283 and 290.
BLOCK_READ_ONCE, NUM_WARPS_READ_ONCE, WIDEST_READ_ONCE = 4096, 8, 4096
WIDEST_TILE = 65536  # what a single block may hold at most

LOOP_STAGES = '''def _loop_stages(device, block_bytes, most_stages):
    """The next blocks of a row are on their way while one is computed, as far as shared memory holds them."""
    if device.type != "cuda" or torch.version.hip is not None:
        return 1
    capacity = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return max(1, min(most_stages, capacity // block_bytes))'''
ROWS_TOGETHER = '''def _rows_together(device, n_rows):
    """Rows that lie side by side in memory and share a program: as many as leave each multiprocessor two programs."""
    n_programs = 2
    if device.type == "cuda":
        n_programs = 2 * torch.cuda.get_device_properties(device).multi_processor_count
    return max(16, min(64, triton.next_power_of_2(n_rows // n_programs + 1)))'''
SOURCES = {"_loop_stages(": LOOP_STAGES, "_rows_together(": ROWS_TOGETHER}
WIDEST_STRIDED = 128  # with so many columns a tile of 4096 elements has 32 rows, which lie side by side


@dataclass(frozen=True)
class Looped:
    """The other half of a tile schedule: it takes rows of more than ``widest`` columns, a row a program, in blocks.

    ``once``: the kernel reads a row once. ``together``: a program takes several rows, which lie side by side in memory.
    """

    kernel: KernelSource
    widest: int
    once: bool
    together: bool = False

    @classmethod
    def of(
        cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, widest: int
    ) -> Looped | None:
        """The kernel for rows too wide for a tile; None where a scan needs the whole row."""
        doc = (*task.docstring, "", "For rows that are wider than one block.")
        own = replace(task, name=f"{task.name}_wide", docstring=doc)
        runs = runs_of(program.domain)
        if runs and runs[-1].is_row and not (task.sums_rows or task.form.strides_the_grid):
            together = RowsTogetherKernel(program, names, scalars, own)
            if together.scans_block_by_block:
                return cls(together.write(), WIDEST_STRIDED, once=True, together=True)
        writer = LoopedKernel(program, names, scalars, own)
        if not writer.scans_block_by_block:
            return None
        return cls(writer.write(), WIDEST_READ_ONCE if writer.reads_once else widest, writer.reads_once)

    @property
    def _rule(self) -> tuple[int, int]:
        if not self.once:
            return BLOCK, NUM_WARPS
        tensors = sum(value.op == "load" and value.space == FULL for value in self.kernel.values)
        return BLOCK_READ_ONCE // (2 if tensors > 1 and not self.together else 1), NUM_WARPS_READ_ONCE

    @property
    def settings(self) -> dict[str, str]:
        """The bound to the tile, the block, its warps, and how many blocks are on their way."""
        if self.together:
            return {"WIDEST": str(self.widest)}
        block, warps = self._rule
        names = ("WIDEST", "LOOP_BLOCK", "LOOP_WARPS", "LOOP_STAGES")
        return dict(zip(names, map(str, (self.widest, block, warps, STAGES)), strict=True))

    def launch_lines(self, rows: Schedule) -> list[str]:
        """Lines that start a program for each row, or few programs where rows are summed."""
        grid = "(n_programs,)" if rows.task.sums_rows else "(n_rows,)"
        block, warps = self._rule
        if self.together:
            count = f"LOOP_ROWS = _rows_together({rows.source}.device, n_rows)"
            lines = started(
                self.kernel,
                "(triton.cdiv(n_rows, LOOP_ROWS),)",
                {
                    "BLOCK_ROWS": "LOOP_ROWS",
                    "BLOCK_SIZE": f"{block} // LOOP_ROWS",
                    "NUM_STAGES": "1",
                    "STREAMED": '""',
                },
                str(warps),
            )
            return [count, *lines]
        if not rows.form.tunable:
            return started(self.kernel, grid, {"BLOCK_SIZE": str(block)}, str(warps))
        constants = {
            "BLOCK_SIZE": 'tuned["LOOP_BLOCK"]',
            "NUM_STAGES": "LOOP_STAGES",
            "STREAMED": HINTED,
        }
        return [
            f"block_bytes = {self._block_bytes(rows)}",
            f'LOOP_STAGES = _loop_stages({rows.source}.device, block_bytes, tuned["LOOP_STAGES"])',
            *started(self.kernel, grid, constants, 'tuned["LOOP_WARPS"]'),
        ]

    @staticmethod
    def _block_bytes(rows: Schedule) -> str:
        """Bytes that a turn loads, as source: a block of each tensor, and vectors of at most four bytes a column."""
        tensors = rows.count_loads(FULL)
        element = f"{f'{tensors} * ' if tensors > 1 else ''}{rows.source}.element_size()"
        vectors = rows.count_loads(COL) + sum(store.summed and store.space == COL for store in rows.task.pieces)
        return f'tuned["LOOP_BLOCK"] * ({element} + {4 * vectors})' if vectors else f'tuned["LOOP_BLOCK"] * {element}'

    def other_bounds(self, cols: list[int]) -> tuple[int, ...]:
        """Other values of ``widest``: rows near the bound may be better off on its other side."""
        if self.together:
            return ()
        fewer = [self.widest // 2] if any(self.widest // 2 < n <= self.widest for n in cols) else []
        more = [WIDEST_TILE] if any(self.widest < n <= WIDEST_TILE for n in cols) else []
        return (*fewer, *more)

    def knobs(self, cols: list[int]) -> Knobs:
        """The bound, and what only rows beyond it have."""
        bound: Knobs = [("WIDEST", self.other_bounds(cols))]
        if self.together or not any(n > self.widest for n in cols):
            return bound
        return [
            *bound,
            ("LOOP_WARPS", (4, 8, 16, 32)),
            ("LOOP_BLOCK", (2048, 4096, 8192, 16384, 32768)),
            ("LOOP_STAGES", (1, 3)),
        ]

    @property
    def sketch(self) -> tuple[str, str]:
        """The kernel's name, and what a program does, for people."""
        each = "some rows side by side" if self.together else "a row"
        return self.kernel.name, f"{each} a program, in blocks, for more than {self.widest} columns"


class LoopedKernel(KernelWriter):
    """A program takes a row at a time, in blocks; sums over rows are kept in the program's own line of a buffer,
    which its first row starts."""

    @property
    def block(self) -> str:
        """The shape of a block; maxima that grow do so for a few neighbours at a time where threads would have to meet."""
        if not self._online:
            return "(BLOCK_SIZE,)"
        return "(1, BLOCK_SIZE)" if self.form.strides_the_grid else f"(BLOCK_SIZE // {LANE}, {LANE})"

    across = ""  # the last arguments of a reduction of what a block leaves
    along = 0  # the dimension of a block along which columns lie

    def share(self, total: str) -> str:
        """One over how many elements of a row a lane has met: one a block, but for lanes that the last block does not fill."""
        return "1.0 / (start // BLOCK_SIZE + 1)"

    @property
    def stored_hint(self) -> str:
        """The cache hint of what is stored, as a further argument."""
        return ""

    @property
    def lanes(self) -> str:
        """The shape of what is kept of each few neighbours."""
        return "(1, 1)" if self.form.strides_the_grid else f"(BLOCK_SIZE // {LANE}, 1)"

    @property
    def reads_once(self) -> bool:
        """Whether one pass over the row suffices, so that keeping the row in registers gains nothing."""
        by_column = any(self._by_column(store) and not store.chunk for store in self.task.pieces)
        depths = {self._levels[value] for value in self.task.values if value.op == "over_cols"}
        return len(depths) == 1 and not by_column

    @property
    def scans_block_by_block(self) -> bool:
        """Whether what scans need of the blocks before can be carried along: from one end, in blocks of one dimension."""
        ends = {str(value.datum).endswith("reverse") for value in self.task.values if value.op == "scan"}
        # From the other end it is the first block that some lanes lack (``share``).
        return not ends or (len(ends) == 1 and not self._online and not (True in ends and self._moments))

    def write(self) -> KernelSource:
        """The kernel as source."""
        persistent = self.task.sums_rows or self.form.strides_the_grid
        head, body = self.scope(), self.scope(2 if persistent else 1)
        for load in self.loads:
            if load.space == SCALAR:
                self._load(head, load, "")
        body.env.update(head.env)
        body.env.update(dict.fromkeys(self.row_numbers, "row"))
        strided = self.program.domain.is_strided
        row_offset = place_of(self.program.domain, "row", rows=True) if strided else "row * tl.cast(n_cols, tl.int64)"
        body.line(f"row_offset = {row_offset}")
        widths = [chunk.width for load in self.loads if (chunk := self.chunk(load)) and load.space == FULL]
        widths += [piece.chunk.width for piece in self.task.pieces if piece.chunk and piece.space == FULL]
        for width in dict.fromkeys(widths):
            body.line(f"packed_offset = row * tl.cast({width[1:-1]}, tl.int64)")
        for load in self.loads:
            if load.space.rows and not load.space.cols:
                self._load(body, load, row_index(self.program, self.names, load, "row")[0])
        for value in (v for v in self.picks if not v.space.cols):
            rows = row_index(self.program, self.names, value, "row")[0]
            offset = "row_offset" if rows == "row" else f"({rows}) * tl.cast(n_cols, tl.int64)"
            text = "tl.load({}_ptr + {}{})".format(*self.pick_place(body, value, offset))
            body.env[value] = self.names.of(value)
            body.line(f"{body.env[value]} = {self.converted(text, value)}")
        self._passes(body)
        self._store_rows(body)
        start = ["    program = tl.program_id(0)"] if persistent else ["    row = tl.program_id(0)"]
        lines = [*start, *self.scalar_lines(), *head.lines]
        if persistent:
            lines += [*self._accumulators(), "    for row in range(program, n_rows, tl.num_programs(0)):"]
        lines += body.lines
        for store in self.task.pieces:
            if store.summed and store.space == SCALAR:
                place = f"program * {store.chunk.width}{store.chunk.shift}" if store.chunk else "program"
                lines.append(f"    tl.store({store.buffer}_ptr + {place}, tl.sum({store.name}))")
        read = (*self.loads, *self.picks)
        partial = (s for load in read for s in row_index(self.program, self.names, load)[1])
        parts = [part for load in self.loads if (part := segment_columns(self.program, self.names, load)) is not None]
        spans = (size for _, _, names in parts for size in names)
        extra = tuple(dict.fromkeys([*partial, *run_sizes(self.program.domain), *spans]))
        sizes = (*extra, "n_rows", "n_cols") if persistent else (*extra, "n_cols")
        stages = ["NUM_STAGES"] if self.task.form.tunable else []
        return self.finish(lines, sizes, ("BLOCK_SIZE", *stages, *self.hint_constants(body.lines)))

    @staticmethod
    def _by_column(store: Store) -> bool:
        """A number of the row may be what is stored in all of its columns."""
        return store.value.space.cols or store.space.cols or store.space.segments

    @cached_property
    def _online(self) -> dict[TileValue, TileValue]:
        return online_maxima(self.task.values)

    @cached_property
    def _moments(self) -> dict[TileValue, Moments]:
        return moments_of(self.task.values, (*self._online, *self._online.values()))

    @cached_property
    def _levels(self) -> dict[TileValue, int]:
        moments = {squares: pair.total for squares, pair in self._moments.items()}
        return levels_of(self.task.values, {**self._online, **moments})

    @property
    def _depth(self) -> int:
        return max(self._levels.values(), default=0)

    def _passes(self, body: ScopeStatements) -> None:
        """A pass for each stage of reductions; one in a loop for those of a loop that a trace unrolled."""
        rolled = {levels[0]: (levels, loop) for loop in self.loops if (levels := self._levels_of(loop))}
        depth = 0
        while depth <= self._depth:
            if depth + 1 in rolled:
                levels, loop = rolled[depth + 1]
                write_loop(body, self.scope(body.depth + 1), loop, f"for _ in range({loop.count}):", self._one_pass)
                depth += len(levels)
            else:
                self._pass(body, self._reductions(depth + 1), last=depth == self._depth)
                depth += 1

    def _reductions(self, level: int) -> list[TileValue]:
        return [v for v in self.task.values if v.op == "over_cols" and self._levels[v] == level]

    def _levels_of(self, loop: RerolledLoop) -> list[int]:
        """The stages that the turns of a loop are, one each, with no other reduction in them; none where it is not so."""
        levels = [self._levels[v] for v in sorted(loop.values, key=self._levels.__getitem__) if v.op == "over_cols"]
        apart = {*self._online, *self._online.values(), *self._moments}
        alone = all(len(self._reductions(level)) == 1 for level in levels)
        numbers = not any(value.space.cols for value in (*loop.before, *(one for one in loop.outside if one.args)))
        is_plain = alone and numbers and self.is_even(loop) and apart.isdisjoint(loop.values)
        return levels if is_plain and levels[:1] and levels == list(range(levels[0], levels[0] + loop.count)) else []

    def _one_pass(self, body: ScopeStatements, value: TileValue) -> None:
        self._pass(body, [value], last=False)

    def _pass(self, body: ScopeStatements, reductions: list[TileValue], *, last: bool) -> None:
        stores = [store for store in self.task.pieces if last and self._by_column(store)]
        moments = [pair for squares, pair in self._moments.items() if squares in reductions]
        about = [value for pair in moments for value in (pair.total, pair.squares)]
        roots = [value.args[0] for value in reductions if value not in self._moments] + [s.value for s in stores]
        if not roots:
            return
        running = [value for value in reductions if value in self._online.values()]
        self._name_rows(body, roots, running)
        for value in running:
            # The lowest number, not minus infinity: the difference of two of those is no number.
            body.line(f"{self.names.of(value)}_lane = tl.full({self.lanes}, {LOWEST}, dtype=tl.float32)")
        for value in (v for v in reductions if v in self._online):
            body.line(f"{self.names.of(value)}_lane = tl.zeros({self.lanes}, dtype=tl.float32)")
        for pair in moments:
            for line in opening_lines(self.names.of(pair.total), self.names.of(pair.squares), self.block):
                body.line(line)
        kept = (*running, *self._online, *about)
        self._start(body, [v for v in reductions if v not in kept])
        scans = self._scans(roots)
        self._start_scans(body, scans)
        inner = self._opened(body, roots, stores)
        self._load_blocks(inner, roots, last)
        for value in scans:
            self._scan(inner, value)
        for value in running:
            self._keep_up(inner, value)
        for pair in moments:
            total, squares = self.names.of(pair.total), self.names.of(pair.squares)
            for line in block_lines(total, squares, inner.reduced(pair.column), self.share(total)):
                inner.line(line)
        for value in (v for v in reductions if v not in (*running, *about)):
            self._accumulate(inner, value)
        self._store_blocks(inner, stores)
        body.lines += inner.lines
        self._closed(body, stores)
        self._finish_blocks(body, [v for v in reductions if v not in about], running)
        for pair in moments:
            bring_together(body, self.names, pair, self.across)

    def _start(self, body: ScopeStatements, reductions: list[TileValue]) -> None:
        for value in reductions:
            fill = f"tl.full({self.block}, {NEUTRAL[str(value.datum)]}, dtype=tl.float32)"
            fill = f"tl.zeros({self.block}, dtype=tl.float32)" if value.datum == "sum" else fill
            body.line(f"{self.names.of(value)}_block = {fill}")
            if value.datum == "argmax":
                body.line(f"{self.names.of(value)}_place = tl.zeros({self.block}, dtype=tl.int32)")

    def _start_scans(self, body: ScopeStatements, scans: list[TileValue]) -> None:
        for value in scans:
            neutral = NEUTRAL[str(value.datum).partition(" ")[0]]
            shape = self.lanes if self.along else "(1,)"
            body.line(f"{self.names.of(value)}_carry = tl.full({shape}, {neutral}, dtype=tl.float32)")

    def _finish_blocks(self, body: ScopeStatements, reductions: list[TileValue], running: list[TileValue]) -> None:
        for value in reductions:
            if value.datum == "argmax":
                for line in largest_lines(self.names.of(value), self.across):
                    body.line(line)
            body.line(f"{self.names.of(value)} = {self._whole(value, running)}")
            if loses_nan(value, self.task.values):
                body.line(with_nan(self.names.of(value), f"{self.names.of(value)}_block", self.across))
            body.env[value] = self.names.of(value)

    def _whole(self, value: TileValue, running: list[TileValue]) -> str:
        """The reduction of what the loop over the row left in each lane."""
        name = self.names.of(value)
        if value in running:
            return f"tl.max({name}_lane)"
        if value in self._online:
            top = self.names.of(self._online[value])
            is_alone = self.form.strides_the_grid  # one lane has seen the whole row
            return f"tl.sum({name}_lane)" if is_alone else f"tl.sum({name}_lane * tl.exp({top}_lane - {top}))"
        if value.datum == "prod":
            return f"tl.reduce({name}_block, {self.along or None}, _multiplied{self.across.replace(', axis=1', '')})"
        if value.datum == "argmax":
            return f"tl.min(tl.where({name}_largest, {name}_place, n_cols){self.across})"
        return f"tl.{value.datum}({name}_block{self.across})"

    def blocks(self, length: str, size: str = "BLOCK_SIZE") -> str:
        """The blocks of a run of elements; how many are on their way is a setting where settings are tuned."""
        if self.task.form.tunable:
            return f"tl.range(0, {length}, {size}, num_stages=NUM_STAGES)"
        return f"range(0, {length}, {size})"

    def _opened(self, body: ScopeStatements, roots: list[TileValue], stores: list[Store]) -> ScopeStatements:
        """Begin a loop over the row, and give the scope inside of it."""
        body.line(f"for start in {self.blocks('n_cols')}:")
        inner = self.scope(body.depth + 1)
        inner.env.update(body.env)
        if self._online:
            lanes = f"tl.arange(0, BLOCK_SIZE // {LANE})[:, None] * {LANE} + tl.arange(0, {LANE})[None, :]"
            inner.line(f"cols = start + {'tl.arange(0, BLOCK_SIZE)[None, :]' if self.form.strides_the_grid else lanes}")
        elif any(str(value.datum).endswith("reverse") for value in self._scans(roots)):
            inner.line("cols = (tl.cdiv(n_cols, BLOCK_SIZE) - 1) * BLOCK_SIZE - start + tl.arange(0, BLOCK_SIZE)")
        else:
            inner.line("cols = start + tl.arange(0, BLOCK_SIZE)")
        inner.line("mask = cols < n_cols")
        if self.program.domain.is_strided:
            inner.line(f"col_offsets = {place_of(self.program.domain, 'cols', rows=False)}")
        inner.env.update({value: "cols" for value in self.task.values if value.op == "column"})
        return inner

    def _closed(self, body: ScopeStatements, stores: list[Store]) -> None:
        """End the loop over the row."""

    def _scans(self, roots: list[TileValue]) -> list[TileValue]:
        """The scans that values need, in the order in which they can be computed."""
        return [value for value in topological(roots) if value.op == "scan"]

    def _scan(self, inner: ScopeStatements, value: TileValue) -> None:
        """Combine a block, and what the blocks before it came to."""
        kind, _, reverse = str(value.datum).partition(" ")
        name, sign = self.names.of(value), "+" if kind == "sum" else "*"
        inner.line(f"{name}_of = {self._masked(inner, value.args[0], kind)}")
        inner.line(
            f"{name} = tl.cum{kind}({name}_of, axis={self.along}{', reverse=True' if reverse else ''}) {sign} {name}_carry"
        )
        whole = f"tl.sum({name}_of, axis={self.along}, keep_dims=True)"
        whole = whole if kind == "sum" else f"tl.reduce({name}_of, {self.along}, _multiplied, keep_dims=True)"
        inner.line(f"{name}_carry {sign}= {whole}")
        inner.env[value] = name

    def _keep_up(self, inner: ScopeStatements, value: TileValue) -> None:
        """Update a maximum, and rescale the sums that were taken with the last one."""
        name = self.names.of(value)
        text = self._masked(inner, value.args[0], "max")
        inner.line(f"{name}_next = tl.maximum({name}_lane, tl.max({text}, axis=1, keep_dims=True))")
        for total in (v for v, top in self._online.items() if top is value):
            inner.line(f"{self.names.of(total)}_lane *= tl.exp({name}_lane - {name}_next)")
        inner.line(f"{name}_lane = {name}_next")
        inner.env[value] = f"{name}_lane"

    def _name_rows(self, body: ScopeStatements, roots: list[TileValue], running: list[TileValue]) -> None:
        """Numbers of the row are computed before the loop over its blocks."""
        waiting, seen = list(reversed(roots)), set()
        while waiting:
            value = waiting.pop()
            if value in seen or value in body.env or not value.args:
                continue
            seen.add(value)
            if value in running:
                continue
            if not value.space.cols:
                body.assign(value)
            else:
                waiting.extend(reversed(value.args))

    def _load(self, scope: ScopeStatements, load: TileValue, place: str, hint: str = "") -> None:
        name = self.tensor(load)
        scope.env[load] = name
        mask = f", mask=mask, other={self.fill(load)}{hint}" if load.space.cols else ""
        base = self.names.tensors[self.program.domain.base(str(load.datum))]
        chunk = self.chunk(load)
        address = f"{base}_ptr + {place}" if place else f"{base}_ptr{chunk.shift if chunk else ''}"
        scope.line(f"{name} = {self.converted(f'tl.load({address}{mask})', load)}")

    def _load_blocks(self, inner: ScopeStatements, roots: list[TileValue], last: bool) -> None:
        needed: set[TileValue] = set()
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if value not in needed and value not in inner.env:
                needed.add(value)
                waiting.extend(value.args)
        for value in (v for v in self.picks if v in needed and v.space.cols):
            index, name = row_index(self.program, self.names, value, "row")[0], self.names.of(value)
            whole = self.program.domain.space_of(str(value.datum)).rows
            start = "row_offset" if index == "row" else f"({index}) * tl.cast(n_cols, tl.int64)"
            inner.line(f"{name}_cols = {inner.fitted(value.args[0])}")
            inner.line(f"{name}_mask = {self.moved_mask(name, value.args[0], 'mask')}")
            place = f"{start} + {name}_cols" if whole else f"{name}_cols"
            tensor = self.names.tensors[str(value.datum)]
            text = f"tl.load({tensor}_ptr + {place}, mask={name}_mask, other={self.fill(value)})"
            inner.line(f"{name} = {self.converted(text, value)}")
            inner.env[value] = name
        for load in self.loads:
            if load in needed:
                chunk = self.chunk(load)
                shift, width = (chunk.shift, chunk.width[1:-1]) if chunk else ("", "n_cols")
                start = "packed_offset + " if chunk else "row_offset + "
                place = f"{start}{self._columns}{shift}" if load.space == FULL else f"cols{shift}"
                part = segment_columns(self.program, self.names, load)
                if part is not None:
                    index, (column, of, _) = row_index(self.program, self.names, load, "row")[0], part
                    place = f"({index}) * tl.cast({of[1:-1]}, tl.int64) + {column}" if load.space == FULL else column
                elif self.partial_rows(load):
                    index = row_index(self.program, self.names, load, "row")[0]
                    inner.line(f"{self.tensor(load)}_offsets = ({index}) * tl.cast({width}, tl.int64) + cols")
                    place = f"{self.tensor(load)}_offsets{shift}"
                self._load(inner, load, place, self.hint(load) if last else "")

    @property
    def _columns(self) -> str:
        return "col_offsets" if self.program.domain.is_strided else "cols"

    def _masked(self, inner: ScopeStatements, value: TileValue, kind: str) -> str:
        text = inner.reduced(value)
        return text if self.neutral_outside(value, kind, False) else f"tl.where(mask, {text}, {NEUTRAL[kind]})"

    def _accumulate(self, inner: ScopeStatements, value: TileValue) -> None:
        name, kind = f"{self.names.of(value)}_block", str(value.datum)
        text = self._masked(inner, value.args[0], kind)
        if value in self._online:
            inner.line(f"{self.names.of(value)}_lane += tl.sum({text}, axis=1, keep_dims=True)")
            return
        if kind == "argmax":
            for line in place_lines(self.names.of(value), text):
                inner.line(line)
        elif kind in {"sum", "prod"}:
            inner.line(f"{name} {'+' if kind == 'sum' else '*'}= {text}")
        else:
            inner.line(f"{name} = tl.{kind}imum({name}, {text}, propagate_nan=tl.PropagateNan.ALL)")

    def _store_blocks(self, inner: ScopeStatements, stores: list[Store]) -> None:
        for store in stores:
            if not store.summed:
                text = inner.env.get(store.value) or inner.assign(store.value, store.name)
                place = f"packed_offset + cols{store.chunk.shift}" if store.chunk else f"row_offset + {self._columns}"
                inner.line(f"tl.store({store.buffer}_ptr + {place}, {text}, mask=mask{self.stored_hint})")
            elif store.space == SCALAR:
                inner.line(f"{store.name} += {self._masked(inner, store.value, 'sum')}")
            else:
                width, shift = (store.chunk.width, store.chunk.shift) if store.chunk else ("n_cols", "")
                place = f"{store.buffer}_ptr + program * {width} + cols{shift}"
                inner.line(f"{store.name} = tl.load({place}, mask=mask & (row > program), other=0.0)")
                inner.line(f"{store.name} += {inner.fitted(store.value)}")
                inner.line(f"tl.store({place}, {store.name}, mask=mask)")

    def _store_rows(self, body: ScopeStatements) -> None:
        for store in self.task.pieces:
            if self._by_column(store):
                continue
            if store.summed:
                body.line(f"{store.name} += {body.fitted(store.value)}")
            else:
                text = body.env.get(store.value) or body.assign(store.value, store.name)
                body.line(f"tl.store({store.buffer}_ptr + row, {text})")

    def _accumulators(self) -> list[str]:
        lines = []
        for store in self.task.pieces:
            if store.summed and store.space != COL:
                shape = self.block if store.value.space.cols else "(1,)"
                lines.append(f"    {store.name} = tl.zeros({shape}, dtype=tl.float32)")
        return lines


class RowsTogetherKernel(LoopedKernel):
    """A program takes some rows that lie side by side in memory, whose columns do not, in blocks of columns."""

    across = ", axis=1, keep_dims=True"
    along = 1
    block = "(BLOCK_ROWS, BLOCK_SIZE)"
    lanes = "(BLOCK_ROWS, 1)"

    @property
    def scans_block_by_block(self) -> bool:
        """Whether blocks can be taken one after the other, from one end."""
        ends = {str(value.datum).endswith("reverse") for value in self.task.values if value.op == "scan"}
        return len(ends) < 2 and not (ends and (self._online or self._moments))

    def write(self) -> KernelSource:
        """The kernel as source."""
        head, body, domain = self.scope(), self.scope(), self.program.domain
        for load in self.loads:
            if load.space == SCALAR:
                self._load(head, load, "")
        body.env.update(head.env)
        body.line("rows = (tl.program_id(0).to(tl.int64) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
        body.line("row_mask = rows < n_rows")
        body.line(f"row_offset = {place_of(domain, 'rows', rows=True)}")
        for load in self.loads:
            if load.space == ROW:
                self._load(body, load, row_index(self.program, self.names, load)[0])
        self._passes(body)
        for store in self.task.pieces:
            if not self._by_column(store):
                text = body.env.get(store.value) or body.assign(store.value, store.name)
                body.line(f"tl.store({store.buffer}_ptr + rows, {text}, mask=row_mask)")
        lines = [*self.scalar_lines(), *head.lines, *body.lines]
        partial = (size for load in self.loads for size in row_index(self.program, self.names, load)[1])
        sizes = (*dict.fromkeys([*partial, *run_sizes(domain)]), "n_rows", "n_cols")
        stages = ["NUM_STAGES"] if self.task.form.tunable else []
        return self.finish(lines, sizes, ("BLOCK_ROWS", "BLOCK_SIZE", *stages, *self.hint_constants(body.lines)))

    def _opened(self, body: ScopeStatements, roots: list[TileValue], stores: list[Store]) -> ScopeStatements:
        body.line(f"for start in {self.blocks('n_cols')}:")
        inner = self.scope(body.depth + 1)
        inner.env.update(body.env)
        place = "start + tl.arange(0, BLOCK_SIZE)[None, :]"
        if any(str(value.datum).endswith("reverse") for value in self._scans(roots)):
            place = f"(tl.cdiv(n_cols, BLOCK_SIZE) - 1) * BLOCK_SIZE - {place}"
        inner.line(f"cols = {place}")
        inner.line("col_mask = cols < n_cols")
        inner.line("mask = row_mask & col_mask")
        inner.line(f"col_offsets = {place_of(self.program.domain, 'cols', rows=False)}")
        inner.env.update({value: "cols" for value in self.task.values if value.op == "column"})
        return inner

    def _whole(self, value: TileValue, running: list[TileValue]) -> str:
        if value in running or value in self._online:
            return f"{self.names.of(value)}_lane"  # a lane has seen the whole row
        return super()._whole(value, running)

    def _load(self, scope: ScopeStatements, load: TileValue, place: str, hint: str = "") -> None:
        name = scope.env[load] = self.tensor(load)
        mask = {FULL: "mask", ROW: "row_mask", COL: "col_mask"}.get(load.space)
        further = f", mask={mask}, other={self.fill(load)}{hint}" if mask else ""
        address = f"{name}_ptr + {place}" if place else f"{name}_ptr"
        scope.line(f"{name} = {self.converted(f'tl.load({address}{further})', load)}")
