"""The schedule of rows in registers: some rows a tile, a whole row of columns or a block of them. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from gpu_runner.contracts import Pass
from workers.authors.compiler.axes import Chunk
from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR, Space, place_of, run_sizes
from workers.authors.compiler.host import HostScope, Scalars, row_index, segment_columns
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.rerolling import RerolledLoop
from workers.authors.compiler.schedules import looped
from workers.authors.compiler.schedules.base import HINTED, NEUTRAL, KernelWriter, Knobs, Schedule, started
from workers.authors.compiler.schedules.live import live_tiles
from workers.authors.compiler.schedules.looped import WIDEST_TILE, Looped
from workers.authors.compiler.schedules.reductions import argmax_lines, loses_nan, with_nan
from workers.authors.compiler.statements import INDENT, ScopeStatements, write_loop
from workers.authors.compiler.values import TileValue

_PLACES = {FULL: "offsets", ROW: "rows", COL: "cols"}
# A row wider than this does not stay in registers: 32 warps have 65536 of them, and every tensor of the row takes its share.
# Measured: H200, bfloat16: softmax backward at 32000 columns takes 487 us in registers and 590 us in blocks.
WIDEST_ALONE, WIDEST_TOGETHER, WIDEST_WITH_SUMS = 65536, 32768, 16384
MOST_STAGES = 3
WARPS = (4, 8, 16, 32)
ELEMENTS_A_THREAD = range(8, 129)  # fewer leave threads idle, more do not fit into registers
# Elements: of the tiles that the rules choose where rows are short, and the most that is tried.
TILE_ELEMENTS, PERSISTENT_ELEMENTS, LARGEST_TILE = 4096, 8192, 16384
# Measured: H200, bfloat16, GELU with a bias and its gradient, 8192 x 3072: backward 41 us with tiles of 2048 elements, 4 warps and
# 528 programs, 52 us with 264, 85 us with 132; forward the same with all. Of a GRU cell, whose gradient loads eight tensors: 66 us
# with tiles of 4096, 8 warps and 132 programs, 115 to 126 us with smaller ones and any number of programs. Two rows of half a tile
# load vectors once for both. Measured: H200, bfloat16, 16384 x 8192: sigmoid(x * g + b) * r backward 354 us, and 404 with one row;
# dyt forward 145 and 151; a bias and GELU backward 208 and 213; 4096 x 11008: dyt forward 53 and 60.
BLOCK_ELEMENTS, MANY_BLOCK_ELEMENTS, NARROWEST_BLOCK = 2048, 4096, 128
MANY_TENSORS = 5
# A multiprocessor serves so many programs of either. Chosen here: what depended on the stages was a decision of the launcher.
BLOCK_PROGRAMS, MANY_BLOCK_PROGRAMS = 4, 1
FEW_ROWS = 64
# Tiles that are alive at once, beyond which a row takes twice the warps. Measured: H200, bfloat16, 16384 x 8192: poly norm forward,
# seven, 191 us with 4 warps and 177 with 8; backward, nine, 412 us with 8 warps, of which one program fits a multiprocessor, and
# 282 with 16. Layer norm forward, six, 143 us with 4 warps and 182 with 8; softmax and RMS norm, three to five, the same with both.
MOST_ALIVE = 6
A_PROGRAM_A_TILE = 64  # of each multiprocessor, which is about as many as there are tiles

TILE_SETTINGS = f'''def _tile_settings(n_cols, n_tensors):
    """Short rows share a program; few warps reduce a row fastest, as long as the row's tensors stay in their registers."""
    BLOCK_SIZE, most_warps = calculate_settings(n_cols)
    BLOCK_ROWS = triton.cdiv({TILE_ELEMENTS}, BLOCK_SIZE)
    num_warps = max(4, min(most_warps, n_tensors * BLOCK_SIZE // 2048))
    return BLOCK_ROWS, BLOCK_SIZE, num_warps'''

STREAMING_SETTINGS = '''def _streaming_settings(n_cols):
    """A program keeps the vectors of all columns and takes many tiles of whole rows, of 16384 elements each."""
    BLOCK_SIZE, _ = calculate_settings(n_cols)
    return triton.cdiv(16384, BLOCK_SIZE), BLOCK_SIZE, max(16, min(32, BLOCK_SIZE // 1024))'''

PERSISTENT_SETTINGS = f'''def _persistent_settings(n_cols):
    """A program takes many tiles of whole rows: {PERSISTENT_ELEMENTS} elements a turn keep enough bytes on their way."""
    BLOCK_SIZE, _ = calculate_settings(n_cols)
    return triton.cdiv({PERSISTENT_ELEMENTS}, BLOCK_SIZE), BLOCK_SIZE, 8'''

BLOCK_SETTINGS = f'''def _block_settings(n_cols, elements={BLOCK_ELEMENTS}):
    """A tile is a block of columns of two rows, or of more where rows are short; at most an eighth lies beyond the row."""
    # From n_cols to an eighth more there is a multiple of the lower of these powers of two, and of none between them.
    powers = elements // 2 | 1 << ((n_cols - 1) ^ (n_cols + n_cols // 8)).bit_length() - 1
    BLOCK_SIZE = max(powers & -powers, min({NARROWEST_BLOCK}, triton.next_power_of_2(n_cols)))
    return elements // BLOCK_SIZE, BLOCK_SIZE, elements // 512'''

NUM_PROGRAMS = '''def _num_programs(device, n_tiles):
    """One program a multiprocessor, each with its own partial sums."""
    if device.type == "cuda":
        return min(n_tiles, torch.cuda.get_device_properties(device).multi_processor_count)
    return min(n_tiles, 4)'''

NUM_BLOCK_PROGRAMS = '''def _num_block_programs(device, n_tiles, n_blocks, programs):
    """Programs that share the rows of a block of columns, on all blocks so many a multiprocessor."""
    if device.type == "cuda":
        n_programs = programs * torch.cuda.get_device_properties(device).multi_processor_count
        return min(n_tiles, triton.cdiv(n_programs, n_blocks))
    return min(n_tiles, 4)'''

NUM_PARTIALS = '''def _num_partials(device, n_rows, tile_rows, n_blocks, programs=1):
    """Programs that share the rows of a block of columns, on all blocks so many a multiprocessor: fewer where a program had fewer
    than four rows, since what each leaves is added up after them."""
    n_programs = 4
    if device.type == "cuda":
        n_programs = programs * torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, min(n_rows // max(4, tile_rows), triton.cdiv(n_programs, n_blocks)))'''

NUM_STAGES = '''def _num_stages(device, tile_bytes):
    """The next rows are on their way while a row is computed, as far as shared memory holds them."""
    if device.type != "cuda" or torch.version.hip is not None:
        return 1
    capacity = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return max(1, min(3, capacity // tile_bytes))'''

PROGRAMS_AND_STAGES = '''def _programs_and_stages(device, n_tiles, tile_bytes, programs, most_stages):
    """Some programs a multiprocessor, each over many tiles with the next ones on their way; at most a program a tile."""
    if device.type != "cuda" or torch.version.hip is not None:
        return min(n_tiles, 4), 1
    properties = torch.cuda.get_device_properties(device)
    n_programs = programs * properties.multi_processor_count
    capacity = properties.shared_memory_per_block_optin // programs
    turns = triton.cdiv(n_tiles, n_programs)
    return min(n_tiles, n_programs), max(1, min(most_stages, turns, capacity // tile_bytes))'''


@dataclass(frozen=True)
class Tile(Schedule):
    """A program takes tiles of rows: whole ones where rows are reduced, else a block of columns.

    ``wide`` takes rows that registers do not hold.
    """

    SOURCES: ClassVar = {
        "_tile_settings(": TILE_SETTINGS,
        "_streaming_settings(": STREAMING_SETTINGS,
        "_persistent_settings(": PERSISTENT_SETTINGS,
        "_block_settings(": BLOCK_SETTINGS,
        "_num_programs(": NUM_PROGRAMS,
        "_num_block_programs(": NUM_BLOCK_PROGRAMS,
        "_num_partials(": NUM_PARTIALS,
        "_num_stages(": NUM_STAGES,
        "_programs_and_stages(": PROGRAMS_AND_STAGES,
        **looped.SOURCES,
    }

    wide: Looped | None = None

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        """Every task falls into rows and columns."""
        return True

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """The kernel; where a scan needs whole rows, a call with rows that no tile holds raises."""
        kernel = TileKernel(program, names, scalars, task).write()
        full = sum(value.op == "load" and value.space == FULL for value in task.values)
        widest = WIDEST_WITH_SUMS if task.is_persistent else WIDEST_TOGETHER if full > 1 else WIDEST_ALONE
        wide = Looped.of(program, names, scalars, task, widest) if task.reduces_cols else None
        return cls(program, task, kernel, host, wide=wide)

    def within(self, columns: list[int], tuned: list[int]) -> Self:
        """The schedule without the kernel for wide rows where no row is, and none would be with another bound."""
        if self.wide is None or columns[-1] > self.wide.widest or self.wide.other_bounds(tuned):
            return self
        return replace(self, wide=None, most=self.wide.widest)

    @property
    def kernels(self) -> tuple[KernelSource, ...]:
        """The kernel for tiles, and the one for wide rows."""
        return (self.kernel, *([self.wide.kernel] if self.wide else []))

    @property
    def sketches(self) -> list[tuple[str, str]]:
        """What a program of each kernel does, for people."""
        return [*super().sketches, *([self.wide.sketch] if self.wide else [])]

    @property
    def _streams(self) -> bool:
        """Whether programs that take many rows each pay for rows that are stored: they load several vectors but once.

        Measured: H200, bfloat16, 16384 x 8192: layer norm 142.8 us, with two vectors; rms norm, with one, is slower that way.
        """
        task = self.task
        return self.form.tunable and task.reduces_cols and not task.sums_rows and self.count_loads(COL) > 1

    @property
    def _in_turn(self) -> bool:
        """Whether programs take several tiles each. Which it is is no setting: a verdict sees one value of that."""
        return self.task.is_persistent or self._streams

    @property
    def settings(self) -> dict[str, str]:
        """The tile, its warps, and the programs of a multiprocessor where they take tiles in turn."""
        names = [*self._tile, "num_warps"]
        programs = "1" if self.task.reduces_cols else "4"
        in_turn = {"PROGRAMS": programs, "NUM_STAGES": str(MOST_STAGES)} if self._in_turn else {}
        wide = self.wide.settings if self.wide else {}
        return {**{name: name for name in names}, **in_turn, **wide, **self.streamed_settings}

    @property
    def _tile(self) -> list[str]:
        return ["BLOCK_ROWS", *([] if self.task.reduces_cols else ["BLOCK_SIZE"])]

    @property
    def _tiles(self) -> str:
        """How many tiles rows make, as source; a vector is one row."""
        return "triton.cdiv(n_rows, BLOCK_ROWS)" if self.program.domain.row_axes else "n_rows"

    def setting_lines(self) -> list[str]:
        """Lines that choose the tile by the number of columns, then programs and stages."""
        lines = [f"BLOCK_ROWS, BLOCK_SIZE, num_warps = {self._rule()}"]
        if self.form.tunable:
            lines += self.tuned_lines("n_cols", *self._tile, "num_warps")
        if self.form.tunable and self._in_turn:
            lines += [
                f"n_tiles = {self._tiles}",
                f"tile_bytes = {self._tile_bytes()}",
                f"{'_' if self._gives_sums else 'n_programs'}, NUM_STAGES = _programs_and_stages("
                f'{self.source}.device, n_tiles, tile_bytes, tuned["PROGRAMS"], tuned["NUM_STAGES"])',
            ]
        elif self.task.is_persistent:
            lines += [
                f"tile_bytes = {self._tile_bytes()}",
                f"NUM_STAGES = _num_stages({self.source}.device, tile_bytes)",
            ]
            if self.task.reduces_cols and self._has_few_rows:
                lines.append(f"n_programs = _num_partials({self.source}.device, n_rows, BLOCK_ROWS, 1)")
            elif self.task.reduces_cols:
                lines.append(f"n_programs = _num_programs({self.source}.device, {self._tiles})")
        elif self.task.sums_rows or self.form.tunable:
            lines += ["NUM_STAGES = 1", f"n_programs = {self._tiles}"]
        if not self.task.reduces_cols and (self.form.tunable or self.task.sums_rows):
            lines.append("n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)")
            if self.task.is_persistent and not self.form.tunable and not self._gives_sums:
                function, rows = "_num_block_programs", self._tiles
                if self._has_few_rows:
                    function, rows = "_num_partials", "n_rows, BLOCK_ROWS"
                lines.append(f"n_programs = {function}({self.source}.device, {rows}, n_blocks, {self._programs})")
        if self._gives_sums:
            programs = ', tuned["PROGRAMS"]' if self.form.tunable else ""
            lines.append(f"n_programs = _num_partials({self.source}.device, n_rows, BLOCK_ROWS, n_blocks{programs})")
        return lines

    @property
    def _has_few_rows(self) -> bool:
        """Whether vectors are large beside tensors in all workloads: torch, which adds up partial sums, is to add up few."""
        counts = [self.program.elements(self.program.domain.row_axes, one) for one in self.program.problem.workloads]
        return bool(counts) and all(count is not None and count < FEW_ROWS for count in counts)

    @property
    def _gives_sums(self) -> bool:
        """Whether forward gives sums over rows as vectors; those of backward are gradients of vectors, as small as they are."""
        is_forward = self.form.tuned_pass is Pass.forward and not self.task.reduces_cols
        return is_forward and any(store.summed and store.space == COL for store in self.task.pieces)

    @property
    def _elements(self) -> int:
        """The elements of a tile of blocks of columns."""
        return _block_elements(self.task, self.count_loads(FULL))

    @property
    def _programs(self) -> int:
        """The programs of a multiprocessor that share the rows of blocks of columns."""
        return BLOCK_PROGRAMS if self._elements == BLOCK_ELEMENTS else MANY_BLOCK_PROGRAMS

    def _rule(self) -> str:
        if not self.task.reduces_cols:
            elements = self._elements
            return "_block_settings(n_cols)" if elements == BLOCK_ELEMENTS else f"_block_settings(n_cols, {elements})"
        width = "n_cols"
        if self.wide is not None:
            width = f"min(n_cols, {WIDEST_TILE if self.form.tunable else self.wide.widest})"
        if self._streams:
            return f"_streaming_settings({width})"
        if self.task.is_persistent:
            return f"_persistent_settings({width})"
        tensors = 1 << max(0, self.count_loads(FULL) - 1).bit_length()
        return f"_tile_settings({width}, {2 * tensors if live_tiles(self.kernel.source) > MOST_ALIVE else tensors})"

    def _tile_bytes(self) -> str:
        """Bytes that a turn loads, as source: a tile of each tensor, and numbers of each row of at most eight bytes."""
        tensors, numbers = self.count_loads(FULL), self.count_loads(ROW)
        tile = f"{f'{tensors} * ' if tensors > 1 else ''}BLOCK_SIZE * {self.source}.element_size()"
        return f"BLOCK_ROWS * ({tile} + {8 * numbers})" if numbers else f"BLOCK_ROWS * {tile}"

    def launch_lines(self) -> list[str]:
        """Lines that start the kernel that fits the row."""
        constants = {
            "BLOCK_ROWS": "BLOCK_ROWS",
            "BLOCK_SIZE": "BLOCK_SIZE",
            "NUM_STAGES": "NUM_STAGES",
            "PERSISTENT": "n_programs < n_tiles",
            "EVEN": "n_cols % BLOCK_SIZE == 0 and n_rows % BLOCK_ROWS == 0",
            "STREAMED": HINTED,
        }
        lines = started(self.kernel, self._grid(), constants)
        if self.wide is None:
            return lines
        widest = 'tuned["WIDEST"]' if self.form.tunable else self.wide.widest
        narrow, wide = ([INDENT + line for line in one] for one in (lines, self.wide.launch_lines(self)))
        return [f"if n_cols <= {widest}:", *narrow, "else:", *wide]

    def _grid(self) -> str:
        if self.task.sums_rows or self.form.tunable:
            return "(n_programs,)" if self.task.reduces_cols else "(n_programs, n_blocks)"
        return f"({self._tiles},)" if self.task.reduces_cols else f"({self._tiles}, triton.cdiv(n_cols, BLOCK_SIZE))"

    def knobs(self, cols: list[int]) -> Knobs:
        """What only wide rows have is left out where no workload is wide, and the other way round."""
        narrow = [n for n in cols if self.wide is None or n <= self.wide.widest]
        tiles = [1 << (n - 1).bit_length() for n in narrow]
        choices = self.wide.knobs(cols) if self.wide else []
        if tiles:
            choices.append(("num_warps", _warps(tiles)))
        if self._in_turn and (tiles or self.task.is_persistent):
            most = () if self.task.is_persistent else (A_PROGRAM_A_TILE,)
            choices.append(("PROGRAMS", (1, 2, 4, *most)))
        if tiles and self._in_turn:
            choices.append(("NUM_STAGES", (1, 2, 3, 4)))
        if tiles:
            narrowest = min(tiles) if self.task.reduces_cols else min(1024, *tiles)
            choices.append(("BLOCK_ROWS", _counts(16, LARGEST_TILE // narrowest)))
            if not self.task.reduces_cols:
                choices.append(("BLOCK_SIZE", tuple(n for n in (1024, 2048, 4096, 8192) if n <= max(tiles))))
        return [*choices, *self.streamed_knobs]


def _block_elements(task: KernelTask, n_tensors: int) -> int:
    """The elements of a tile of blocks of columns, by how many whole tensors a kernel loads."""
    return MANY_BLOCK_ELEMENTS if task.is_persistent and n_tensors >= MANY_TENSORS else BLOCK_ELEMENTS


def _block(n_cols: int, elements: int) -> int:
    """The columns of a tile by the launcher's ``_block_settings``."""
    power = 1 << ((n_cols - 1) ^ (n_cols + n_cols // 8)).bit_length() - 1
    return min(elements // 2, max(power, min(NARROWEST_BLOCK, 1 << (n_cols - 1).bit_length())))


def _counts(most: int, fitting: int) -> tuple[int, ...]:
    counts = tuple(1 << power for power in range(most.bit_length()) if 1 << power <= min(most, fitting))
    return counts if len(counts) > 1 else ()


def _warps(tiles: list[int]) -> tuple[int, ...]:
    elements = {max(tile, TILE_ELEMENTS) for tile in tiles}
    return tuple(n for n in WARPS if any(count // (32 * n) in ELEMENTS_A_THREAD for count in elements))


class TileKernel(KernelWriter):
    """One pass over tiles of rows; with sums over rows, few programs take many tiles each and keep the sums in registers."""

    def write(self) -> KernelSource:
        """The kernel as source."""
        head, columns, body = self.scope(), self.scope(), self.scope(2 if self._loops else 1)
        self._columns(head)
        for load in self.loads:
            if not load.space.rows:
                self._load(columns, load)
        columns.env.update({value: "cols" for value in self.task.values if value.op == "column"})
        self._hoist(columns)
        body.env.update(columns.env)
        late = self._staged and not self.task.sums_rows and bool(columns.lines)
        # As ``Tile._in_turn``: else each program has one tile.
        streams = self.task.reduces_cols and sum(load.space == COL for load in self.loads) > 1
        asked = late and (self.task.is_persistent or streams)
        head.lines += self._only_if("PERSISTENT", columns) if asked else [] if late else columns.lines
        self._rows(body)
        body.env.update(dict.fromkeys(self.row_numbers, "rows"))
        for load in self.loads:
            if load.space.rows:
                self._load(body, load)
        if late:
            # Columns that wait in registers for the program's only tile would leave room for fewer programs.
            lines = self._only_if("not PERSISTENT", columns) if asked else columns.lines
            body.lines += [INDENT + line for line in lines]
        for value in self.picks:
            self._pick(body, value)
        body.line("")
        self._results(body)
        hints = self.hint_constants(head.lines + body.lines)
        lines = self.scalar_lines() + head.lines
        lines += self._accumulators() + (self._loop() if self._loops else []) + body.lines + self._partials()
        sizes = (*self.extra_sizes(), "n_rows", "n_cols")
        more = {"PERSISTENT": asked, "EVEN": self.task.form.tunable, "STREAMED": bool(hints)}
        constants = ["BLOCK_ROWS", "BLOCK_SIZE", *(["NUM_STAGES"] if self._staged else [])]
        return self.finish(lines, sizes, (*constants, *(name for name, wanted in more.items() if wanted)))

    @staticmethod
    def _only_if(condition: str, scope: ScopeStatements) -> list[str]:
        return [f"{INDENT}if {condition}:", *(INDENT + line for line in scope.lines)]

    @property
    def _loops(self) -> bool:
        """The number of tiles of a program is a setting where settings are tuned."""
        return self.task.sums_rows or self.form.tunable or self.form.strides_the_grid

    @property
    def _staged(self) -> bool:
        """Whether the loop over tiles is pipelined by a setting."""
        return self._loops and not self.form.strides_the_grid

    def extra_sizes(self) -> tuple[str, ...]:
        """The sizes that tensors with fewer rows need."""
        partial = (size for load in (*self.loads, *self.picks) for size in row_index(self.program, self.names, load)[1])
        parts = [part for load in self.loads if (part := segment_columns(self.program, self.names, load)) is not None]
        spans = (size for _, _, sizes in parts for size in sizes)
        return tuple(dict.fromkeys([*partial, *run_sizes(self.program.domain), *spans]))

    @property
    def _blocks(self) -> bool:
        return not self.task.reduces_cols

    @property
    def _fits(self) -> tuple[bool, bool]:
        """Whether no tile has a row beyond the last one, and none a column, by the file alone: its columns are a number, and the
        launcher's rule gives a tile one row, or blocks that make up a row. A mask would then have one outcome."""
        domain = self.program.domain
        sizes = [size for axis in domain.col_axes if isinstance(size := domain.sizes[axis], int)]
        n_cols = math.prod(sizes) if sizes and len(sizes) == len(domain.col_axes) else 0
        if not n_cols or self.form.tunable or self.form.strides_the_grid:
            return False, False
        elements = PERSISTENT_ELEMENTS if self.task.is_persistent else TILE_ELEMENTS
        block = 1 << (n_cols - 1).bit_length()
        if self._blocks:
            elements = _block_elements(self.task, sum(load.space == FULL for load in self.loads))
            block = _block(n_cols, elements)
        return elements // block <= 1, n_cols % block == 0

    def _mask(self, space: Space) -> str:
        """The mask of what varies over a space; none where all of every tile exists."""
        rows, cols = (wanted and not fits for wanted, fits in zip((space.rows, space.cols), self._fits, strict=True))
        return "mask" if rows and cols else "row_mask" if rows else "col_mask" if cols else ""

    def _columns(self, head: ScopeStatements) -> None:
        if self._loops:
            head.line("program = tl.program_id(0)")
        start = "tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)"
        head.line(f"cols = ({start})[None, :]" if self._blocks else "cols = tl.arange(0, BLOCK_SIZE)[None, :]")
        if self._mask(COL):
            head.line(f"col_mask = {self._unless_even('cols < n_cols')}")

    def _unless_even(self, mask: str) -> str:
        """Masks are dropped where rows and columns are multiples of the tile, which the launch states."""
        return f"({mask}) | EVEN" if self.task.form.tunable else mask

    def _rows(self, body: ScopeStatements) -> None:
        tile = "tile" if self._loops else "tl.program_id(0)"
        if self.task.form.last_rows_first:
            body.line("tile = n_tiles - 1 - turn")
        body.line(f"rows = ({tile} * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
        if self._mask(ROW):
            body.line(f"row_mask = {self._unless_even('rows < n_rows')}")
        if self._mask(FULL) == "mask":
            body.line("mask = row_mask & col_mask")
        widths = self._widths()
        domain = self.program.domain
        if domain.is_strided:
            body.line(f"row_offsets = {place_of(domain, 'rows', rows=True)}")
            body.line(f"offsets = row_offsets + {place_of(domain, 'cols', rows=False)}")
        elif None in widths or len(widths) == 0:
            body.line("offsets = rows.to(tl.int64) * n_cols + cols")
        for chunk in widths - {None}:
            body.line(f"packed_offsets = rows.to(tl.int64) * {chunk} + cols")

    def _widths(self) -> set[str | None]:
        """The widths of the rows that are loaded and stored, None for one of ``n_cols``."""
        whole = [load for load in self.loads if load.space == FULL and not self.partial_rows(load)]
        chunks = [self.chunk(v) for v in whole if segment_columns(self.program, self.names, v) is None]
        chunks += [piece.chunk for piece in self.task.pieces if piece.space == FULL]
        return {chunk.width if chunk else None for chunk in chunks}

    @staticmethod
    def _place(space: Space, chunk: Chunk | None) -> str:
        place = _PLACES[space]
        return f"packed_offsets{chunk.shift}" if chunk and space == FULL else f"{place}{chunk.shift if chunk else ''}"

    def _load(self, scope: ScopeStatements, load: TileValue) -> None:
        name, chunk = self.tensor(load), self.chunk(load)
        base = self.names.tensors[self.program.domain.base(str(load.datum))]
        scope.env[load] = name
        if load.space == SCALAR:
            text = f"tl.load({base}_ptr{chunk.shift if chunk else ''})"
        else:
            place, mask = self._place(load.space, chunk), self._mask(load.space)
            part = segment_columns(self.program, self.names, load)
            if part is not None:
                index, (column, width, _) = row_index(self.program, self.names, load)[0], part
                place = f"({index}).to(tl.int64) * {width} + {column}" if load.space == FULL else column
            elif self.partial_rows(load):
                index = row_index(self.program, self.names, load)[0]
                place = index
                if load.space == FULL:
                    width = chunk.width if chunk else "n_cols"
                    if chunk is None or f"{base}_offsets" not in "".join(scope.lines):
                        scope.line(f"{base}_offsets = ({index}).to(tl.int64) * {width} + cols")
                    place = f"{base}_offsets{chunk.shift if chunk else ''}"
            masked = f", mask={mask}, other={self.fill(load)}" if mask else ""
            text = f"tl.load({base}_ptr + {place}{masked}{self.hint(load)})"
        scope.line(f"{name} = {self.converted(text, load)}")

    def _pick(self, body: ScopeStatements, value: TileValue) -> None:
        rows = row_index(self.program, self.names, value)[0]
        if value.space.cols:
            self._moved(body, value)
            return
        rows = f"{rows if rows == 'rows' else f'({rows})'}.to(tl.int64) * n_cols"
        tensor, place, further = self.pick_place(body, value, rows, self._mask(ROW))
        name = self.names.of(value)
        body.line(f"{name}_offsets = {place}")
        text = f"tl.load({tensor}_ptr + {name}_offsets{further})"
        body.line(f"{name} = {self.converted(text, value)}")
        body.env[value] = name

    def _moved(self, body: ScopeStatements, value: TileValue) -> None:
        """Load the elements of each row at other columns."""
        name, tensor = self.names.of(value), self.names.tensors[str(value.datum)]
        rows, whole = row_index(self.program, self.names, value)[0], self.program.domain.space_of(str(value.datum)).rows
        body.line(f"{name}_cols = {body.fitted(value.args[0])}")
        mask = self.moved_mask(name, value.args[0], self._mask(FULL))
        if mask:
            body.line(f"{name}_mask = {mask}")
        rows = rows if rows == "rows" else f"({rows})"
        place = f"{rows}.to(tl.int64) * n_cols + {name}_cols" if whole else f"{name}_cols"
        body.line(f"{name}_offsets = {place}")
        masked = f", mask={name}_mask, other={self.fill(value)}" if mask else ""
        text = f"tl.load({tensor}_ptr + {name}_offsets{masked})"
        body.line(f"{name} = {self.converted(text, value)}")
        body.env[value] = name

    def _hoist(self, head: ScopeStatements) -> None:
        """What no row changes is computed once, before the rows."""
        for value in self.task.values:
            if value.args and not value.space.rows and any(arg.space.cols or arg.op == "load" for arg in value.args):
                users = [user for user in self.task.values if value in user.args]
                if any(user.space.rows for user in users):
                    head.assign(value)

    def _results(self, body: ScopeStatements) -> None:
        loops = {value: loop for loop in self.loops if self.is_even(loop) for value in loop.values}
        for value in self.task.values:
            if value in loops:
                self._repeat(body, loops[value])
            elif value.op == "over_cols" and value not in body.env:
                self._reduce(body, value)
            elif value.op == "scan" and value not in body.env:
                self._scan(body, value)
        stored: list[tuple[Store, str]] = []
        for store in self.task.pieces:
            if store.summed:
                text = self._masked(body, store.value, "sum", True)
                text = f"tl.sum({text}, axis=1, keep_dims=True)" if self._sums_by_row(store) else text
                body.line(f"{store.name} += {text}")
            else:
                known = body.env.get(store.value)
                stored.append((store, known or body.assign(store.value, store.name)))
        for store, text in stored:
            body.line(self._stored(store, text))

    def _stored(self, store: Store, text: str) -> str:
        place, mask = self._place(store.space, store.chunk), self._mask(store.space)
        return f"tl.store({store.buffer}_ptr + {place}, {text}{mask and f', mask={mask}'})"

    def _repeat(self, body: ScopeStatements, loop: RerolledLoop) -> None:
        if not any(value in body.env for value in loop.ends if value is not None):
            write_loop(body, self.scope(body.depth + 1), loop, self._turns(loop), self._reduce)

    def _turns(self, loop: RerolledLoop) -> str:
        """A loop of tiles that are on their way must hold no other loop: Triton pipelines the innermost one alone."""
        if not self._staged:
            return f"for _ in range({loop.count}):"
        return f"for _ in tl.range({loop.count}, loop_unroll_factor={loop.count} if NUM_STAGES > 1 else 1):"

    def _reduce(self, body: ScopeStatements, value: TileValue) -> None:
        kind = str(value.datum)
        inner = self._masked(body, value.args[0], kind, False)
        name = self.names.of(value)
        for line in self._reduction(name, kind, inner, loses_nan(value, self.task.values)):
            body.line(line)
        body.env[value] = name

    def _reduction(self, name: str, kind: str, inner: str, loses_nan: bool) -> list[str]:
        if kind == "argmax":
            return [f"{name}_of = {inner}", *argmax_lines(name, f"{name}_of")]
        if kind == "prod":
            return [f"{name} = tl.reduce({inner}, 1, _multiplied, keep_dims=True)"]
        if not loses_nan:
            return [f"{name} = tl.{kind}({inner}, axis=1, keep_dims=True)"]
        named = [] if inner.isidentifier() else [f"{name}_of = {inner}"]
        inner = f"{name}_of" if named else inner
        line = f"{name} = tl.{kind}({inner}, axis=1, keep_dims=True)"
        return [*named, line, with_nan(name, inner, ", axis=1, keep_dims=True")]

    def _scan(self, body: ScopeStatements, value: TileValue) -> None:
        kind, _, reverse = str(value.datum).partition(" ")
        name = self.names.of(value)
        inner = self._masked(body, value.args[0], kind, False)
        body.line(f"{name} = tl.cum{kind}({inner}, axis=1{', reverse=True' if reverse else ''})")
        body.env[value] = name

    def _masked(self, body: ScopeStatements, value: TileValue, kind: str, over_rows: bool) -> str:
        text = body.reduced(value)
        mask = self._mask(FULL if value.space.cols else ROW)
        if not mask or self.neutral_outside(value, kind, over_rows):
            return text
        return f"{self.language.module}.where({mask}, {text}, {NEUTRAL[kind]})"

    def _sums_by_row(self, store: Store) -> bool:
        """Whether a sum over all elements is kept as a number for each row, beside reductions of the row: a whole tile would take
        registers of every thread (poly norm backward, 8192 x 16384: 508 us, and 338 so)."""
        return self.task.reduces_cols and store.space == SCALAR and store.value.space.cols

    def _accumulators(self) -> list[str]:
        lines = []
        for store in self.task.pieces:
            if store.summed:
                is_tile = store.value.space.cols and not self._sums_by_row(store)
                shape = "(BLOCK_ROWS, BLOCK_SIZE)" if is_tile else "(BLOCK_ROWS, 1)"
                module = self.language.module
                lines.append(f"    {store.name} = {module}.zeros({shape}, dtype={module}.float32)")
        return lines

    def _loop(self) -> list[str]:
        tiles = "tl.cdiv(n_rows, BLOCK_ROWS)"
        if not self.form.last_rows_first:
            stages = ", num_stages=NUM_STAGES" if self._staged else ""
            return ["", f"    for tile in tl.range(program, {tiles}, tl.num_programs(0){stages}):"]
        return [
            "",
            "    # The last rows first: forward left them in the L2 cache.",
            f"    n_tiles = {tiles}",
            "    for turn in tl.range(program, n_tiles, tl.num_programs(0), num_stages=NUM_STAGES):",
        ]

    def _partials(self) -> list[str]:
        lines = [""] if self.task.sums_rows else []
        for store in self.task.pieces:
            if store.summed and store.space == COL:
                total, place = f"tl.sum({store.name}, axis=0, keep_dims=True)", "program * n_cols + cols"
                if store.chunk:
                    lines.append(f"    {store.name} = {total}")
                    total, place = store.name, f"program * {store.chunk.width} + cols{store.chunk.shift}"
                mask = self._mask(COL)
                lines.append(f"    tl.store({store.buffer}_ptr + {place}, {total}{mask and f', mask={mask}'})")
            elif store.summed:
                place = "program * tl.num_programs(1) + tl.program_id(1)" if self._blocks else "program"
                if store.chunk:
                    place = f"{f'({place})' if self._blocks else place} * {store.chunk.width}{store.chunk.shift}"
                lines.append(f"    tl.store({store.buffer}_ptr + {place}, tl.sum({store.name}))")
        return lines
