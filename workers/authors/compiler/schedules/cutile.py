"""Schedules for cuTile: arrays are cut into tiles that a program loads and stores by their number. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar, Self

from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR, Space
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope, Scalars, row_index
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.languages import CUTILE
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.rounding import ROUNDED
from workers.authors.compiler.schedules.base import KernelWriter, Knobs, Schedule
from workers.authors.compiler.schedules.flat import Flat, FlatKernel
from workers.authors.compiler.schedules.tile import (
    NUM_PROGRAMS,
    WIDEST_ALONE,
    WIDEST_TOGETHER,
    WIDEST_WITH_SUMS,
    Tile,
    TileKernel,
)
from workers.authors.compiler.statements import INDENT, ScopeStatements
from workers.authors.compiler.values import TileValue

TILE_SHAPE = '''def _tile_shape(n_cols, n_elements):
    """Rows and columns of a tile of about so many elements: powers of two, short rows share one."""
    BLOCK_SIZE = 1 << (n_cols - 1).bit_length()
    return -(-n_elements // BLOCK_SIZE), BLOCK_SIZE'''
# By docs/measurements/2026-11-29-cutile-h200.md: larger tiles of elements take up to twice the time in bfloat16, and whole rows
# by the compiler's own number of warps up to five times.
FLAT_ELEMENTS, ROW_WARPS = 1024, 8
ELEMENTS, ELEMENTS_WITH_SUMS, WIDEST_BLOCK = 4096, 8192, 4096
HINTED = '''@functools.cache
def _hinted(kernel, occupancy, num_worker_warps):
    """The kernel, to be compiled with these hints."""
    return kernel.replace_hints(occupancy=occupancy, num_worker_warps=num_worker_warps)'''
# Hints of a kernel that takes rows. 16 warps are refused (docs/measurements/2026-11-29-cutile-h200.md). How many programs are to
# share a multiprocessor bounds a thread's registers: where nothing is said, the compiler takes up to 168 for a tile that fits into
# half of them, and one program waits alone. More than 64 float32 a thread are spilled for a second program
# (docs/measurements/2026-11-30-cutile-gather-h200.md).
OCCUPANCY, RESIDENT, NUM_WORKER_WARPS = "OCCUPANCY", "RESIDENT", "NUM_WORKER_WARPS"
RESIDENT_ELEMENTS = 16384  # of all whole tiles that the programs of a multiprocessor hold at once
HINTS = {OCCUPANCY: (1, 2, 4, 8), NUM_WORKER_WARPS: (4, 8)}
INDICES = {FULL: "({row}, {col})", ROW: "({row}, 0)", COL: "(0, {col})", SCALAR: "(0, 0)"}
SHAPES = {FULL: "(BLOCK_ROWS, BLOCK_SIZE)", ROW: "(BLOCK_ROWS, 1)", COL: "(1, BLOCK_SIZE)", SCALAR: "(1, 1)"}
PLACES = {FULL: "(rows, cols)", ROW: "(rows, 0)", COL: "(0, cols)"}
VIEWS = {FULL: "n_rows, n_cols", ROW: "n_rows, 1", COL: "1, n_cols", SCALAR: "1, 1"}
DERIVED = re.compile(r" *(cols|rows|col_mask|row_mask|mask) = ")  # lines that are left out where nothing reads them


class CutileRefused(Schedule):
    """What has no schedule in this language yet."""

    TARGET: ClassVar = "cuTile"

    @classmethod
    def lacking(cls, task: KernelTask, program: ValueProgram) -> tuple[str, str] | None:
        """What a task takes that no schedule here has, and its operator."""
        return _lacking(task, program)

    @classmethod
    def fits(cls, task: KernelTask, program: ValueProgram) -> bool:
        return cls.lacking(task, program) is not None

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Refuses.

        Raises:
            CannotCompileError: always.
        """
        what, operator = cls.lacking(task, program) or ("this", "")
        raise CannotCompileError(f"the {cls.TARGET} target has no schedule for {what}", operator)


def _lacking(task: KernelTask, program: ValueProgram) -> tuple[str, str] | None:
    """What a task takes that no schedule here has, and its operator."""
    values, domain = task.values, program.domain
    loads = [value for value in values if value.op == "load"]
    if domain.windows:
        return "windows of a tensor", "windows"
    if program.multiplies:
        return "matrix products", "matmul"
    if task.sums_segments or domain.segment_axes:
        return "groups within a row", "reshape"
    if domain.is_strided:
        return "dimensions that are reduced in the middle", "reshape"
    if any(load.datum in domain.chunks for load in loads) or any(store.chunk for store in task.pieces):
        return "chunks of a row", "chunk"
    for value in values:
        if value.op in {"scan", ROUNDED} or (value.op == "over_cols" and value.datum in {"argmax", "prod"}):
            return {"scan": "scans", ROUNDED: "roundings in the middle"}.get(
                value.op, f"`{value.datum}` of a row"
            ), str(value.datum)
    return None


def without_unused(body: list[str], derived: re.Pattern[str]) -> list[str]:
    """The lines of a kernel without definitions, as the pattern has them, of what none of the others reads."""
    kept: list[str] = []
    for line in reversed(body):
        name = derived.match(line)
        if name is None or re.search(rf"\b{name[1]}\b", "\n".join(kept)):
            kept.insert(0, line)
    return kept


def is_input(load: TileValue, program: ValueProgram) -> bool:
    """Whether a load is of a tensor of the problem's graph, and of nothing that forward saved."""
    return str(load.datum) in program.domain.shapes


def launched(kernel: KernelSource, size: str, grid: str, settings: list[str], name: str = "") -> list[str]:
    """Lines that start a kernel; where there is a ``size``, unless it is 0. ``name`` is that of the kernel as it is compiled."""
    arguments = [*kernel.tensors, *(number.text for number in kernel.numbers), *kernel.sizes, *settings]
    call = ["torch.cuda.current_stream(),", f"{grid},", f"{name or kernel.name},", "("]
    lines = [*call, *(f"{INDENT}{argument}," for argument in arguments), "),"]
    launch = ["ct.launch(", *(INDENT + line for line in lines), ")"]
    return [f"if {size}:", *(INDENT + line for line in launch)] if size else launch


def gathered(tensor: str, places: str, outside: str, mask: str = "") -> str:
    """The elements of a tensor at places, and ``outside``, which is zero unless it is said, where it has none: by a mask that says
    where it has, or by its size.
    """
    padding = f", padding_value={outside}" if "float" in outside else ""
    masked = f", mask={mask}, check_bounds=False" if mask else ""
    return f"ct.gather({tensor}_array, {places}{masked}{padding})"


class CutileKernel(KernelWriter):
    """What kernels of this language have in common."""

    language = CUTILE

    def loaded(self, load: TileValue, index: str, shape: str) -> str:
        """The tile of a tensor, by its number; ``fill`` says what lies beyond its last row or column."""
        mode = "NEG_INF" if "inf" in self.fill(load) else "ZERO"
        return f"ct.load({self.tensor(load)}_array, {index}, {shape}, padding_mode=ct.PaddingMode.{mode})"

    def gathered(self, load: TileValue, places: str) -> str:
        """The same by the place of each element. ``ct.load`` without the tensor memory accelerator asks for 16 bytes, waits, and
        asks for the next; this asks for all before it waits.
        """
        return gathered(self.tensor(load), places, self.fill(load))

    def stored(self, store: Store, text: str, index: str, shape: str) -> str:
        """The statement that stores a tile in its tensor's dtype; what is beyond the last row or column is dropped."""
        array = f"{store.buffer}_array"
        whole = text if store.value.space == store.space else f"ct.broadcast_to({text}, {shape})"
        return f"ct.store({array}, {index}, ct.astype({whole}, {array}.dtype))"

    def scattered(self, store: Store, text: str, places: str, shape: str) -> str:
        """The same by the place of each element."""
        return self.stored(store, text, places, shape).replace("ct.store(", "ct.scatter(", 1)

    def finish(self, body: list[str], sizes: tuple[str, ...], constants: tuple[str, ...]) -> KernelSource:
        """The kernel without masks, places and sizes that it does not use. Where columns are moved, their number is a constant: an
        access of 16 bytes is one only where it is known to begin at a multiple.
        """
        kept = without_unused(body, DERIVED)
        used = set(re.findall(r"\w+", "\n".join(kept)))
        fixed = tuple(size for size in sizes if size == "n_cols" and any(pick.space.cols for pick in self.picks))
        taken = tuple(size for size in sizes if size in used and size not in fixed)
        source = super().finish(kept, taken, (*fixed, *constants))
        return replace(source, tensors=tuple(f"{name}.view({self.view(name)})" for name in source.tensors))

    def view(self, name: str) -> str:
        """The shape in which a kernel takes a tensor."""
        return "-1"


class CutileFlatKernel(CutileKernel, FlatKernel):
    def _loaded(self, load: TileValue) -> str:
        return self.loaded(load, "(0,)", "(1,)") if load.space == SCALAR else self.gathered(load, "offsets")

    def _stored(self, store: Store, text: str) -> str:
        return self.scattered(store, text, "offsets", "(BLOCK_SIZE,)")

    def _place(self) -> list[str]:
        place = "ct.astype(ct.bid(0), ct.int64) * BLOCK_SIZE + ct.arange(BLOCK_SIZE, dtype=ct.int32)"
        return [f"{INDENT}offsets = {place}"]


class CutileFlat(Flat):
    """Element-wise: a program takes one tile of elements."""

    LAUNCH_SIZES: ClassVar = frozenset({"n_elements"})

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        return cls(program, task, CutileFlatKernel(program, names, scalars, task).write(), host)

    @property
    def settings(self) -> dict[str, str]:
        """The elements of a tile."""
        return {"BLOCK_SIZE": str(FLAT_ELEMENTS)}

    def setting_lines(self) -> list[str]:
        """The lines that choose the tile."""
        if self.form.tuned_tiles:
            return self.tuned_lines("n_elements", "BLOCK_SIZE")
        return [f"BLOCK_SIZE = {FLAT_ELEMENTS}"]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each tile."""
        return launched(self.kernel, "", "(n_elements // BLOCK_SIZE + 1,)", ["BLOCK_SIZE"])

    def knobs(self, cols: list[int]) -> Knobs:
        """The elements of a tile, whatever the columns."""
        return [("BLOCK_SIZE", (512, 1024, 2048, 4096, 8192))]


class CutileTileKernel(CutileKernel, TileKernel):
    language = replace(CUTILE, kernel=f"@ct.kernel(num_worker_warps={ROW_WARPS})")
    _staged = False  # no setting of a loop
    _fits = False, False  # a tile of the language is masked where it ends

    @property
    def _loops(self) -> bool:
        return self.task.is_persistent

    def view(self, name: str) -> str:
        """Rows and columns, of which a tensor may have one."""
        for store in self.task.pieces:
            if store.buffer == name and store.summed:
                return f"n_programs, {'n_cols' if store.space == COL else 'n_blocks' if self._blocks else '1'}"
            if store.buffer == name:
                return VIEWS[store.space]
        load = next(load for load in (*self.loads, *self.picks) if self.names.tensors[str(load.datum)] == name)
        space = load.space if load.op == "load" else self.program.domain.space_of(str(load.datum))
        return VIEWS[space].replace("n_rows", "-1") if self.partial_rows(load) else VIEWS[space]

    def _index(self, space: Space, row: str = "tile") -> str:
        return INDICES[space].format(row=row, col="col_tile" if self._blocks else "0")

    def _columns(self, head: ScopeStatements) -> None:
        head.line("program = ct.bid(0)" if self._loops else "tile = ct.bid(0)")
        if self._blocks:
            head.line("col_tile = ct.bid(1)")
        place = "col_tile * BLOCK_SIZE + " if self._blocks else ""
        head.line(f"cols = ({place}ct.arange(BLOCK_SIZE, dtype=ct.int32))[None, :]")
        head.line("col_mask = cols < n_cols")

    def _rows(self, body: ScopeStatements) -> None:
        body.line("rows = (tile * BLOCK_ROWS + ct.arange(BLOCK_ROWS, dtype=ct.int32))[:, None]")
        body.line("row_mask = rows < n_rows")
        body.line("mask = row_mask & col_mask")

    def _load(self, scope: ScopeStatements, load: TileValue) -> None:
        name = scope.env[load] = self.tensor(load)
        text = self.loaded(load, self._index(load.space), SHAPES[load.space])
        if self.partial_rows(load):
            text = self.gathered(load, f"({self._row(load)}, {'cols' if load.space.cols else '0'})")
        elif self._by_place(load.space):
            text = self.gathered(load, PLACES[load.space])
        scope.line(f"{name} = {self.converted(text, load)}")

    def _pick(self, body: ScopeStatements, value: TileValue) -> None:
        name = self.names.of(value)
        if value.space.cols:
            body.line(f"{name}_cols = {body.fitted(value.args[0])}")
            places = f"({self._row(value)}, {name}_cols)"
            text = gathered(self.names.tensors[str(value.datum)], places, self.fill(value))
        else:
            tensor, index, mask, outside = self.picked(body, value, "row_mask")
            places = f"({row_index(self.program, self.names, value)[0] if self._has_rows(value) else '0'}, {index})"
            text = gathered(tensor, places, outside, mask)
        body.line(f"{name} = {self.converted(text, value)}")
        body.env[value] = name

    def _has_rows(self, load: TileValue) -> bool:
        return self.program.domain.space_of(str(load.datum)).rows

    def _row(self, load: TileValue) -> str:
        """The row of a tensor for each row of a tile: none beyond the last one, also where it has fewer."""
        if not self._has_rows(load):
            return "0"
        row = row_index(self.program, self.names, load)[0]
        return f"ct.where(row_mask, {row}, -1)" if row != "rows" else row

    def _stored(self, store: Store, text: str) -> str:
        if self._by_place(store.space):
            return self.scattered(store, text, PLACES[store.space], SHAPES[store.space])
        return self.stored(store, text, self._index(store.space), SHAPES[store.space])

    def _by_place(self, space: Space) -> bool:
        """Whether a tile goes straight to registers, as a program's only one does. The tensor memory accelerator, which pays where
        the next tile comes meanwhile, brings it through shared memory, by warps of its own and 168 registers a thread.
        """
        return space != SCALAR and not self._loops

    def _reduction(self, name: str, kind: str, inner: str, loses_nan: bool) -> list[str]:
        nan = ", propagate_nan=True" if loses_nan else ""
        return [f"{name} = ct.{kind}({inner}, axis=1, keepdims=True{nan})"]

    def _loop(self) -> list[str]:
        return ["", f"{INDENT}for tile in range(program, ct.cdiv(n_rows, BLOCK_ROWS), ct.num_blocks(0)):"]

    def _partials(self) -> list[str]:
        lines, row = [""] if self.task.sums_rows else [], "program" if self._loops else "tile"
        for store in self.task.pieces:
            if store.summed:
                total = f"ct.sum({store.name}, {'axis=0, ' if store.space == COL else ''}keepdims=True)"
                lines.append(f"{INDENT}ct.store({store.buffer}_array, {self._index(FULL, row)}, {total})")
        return lines


class CutileTile(Tile):
    """Rows: a program takes a tile of whole rows, or a block of columns of some; with sums over rows, many in turn."""

    LAUNCH_SIZES: ClassVar = frozenset({"n_rows", "n_cols"})
    SOURCES: ClassVar = {"_tile_shape(": TILE_SHAPE, "_num_programs(": NUM_PROGRAMS, "_hinted(": HINTED}

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """The kernel for tiles; rows that no tile holds are an error of the launcher."""
        kernel = CutileTileKernel(program, names, scalars, task).write()
        full = sum(value.op == "load" and value.space == FULL for value in task.values)
        widest = WIDEST_WITH_SUMS if task.is_persistent else WIDEST_TOGETHER if full > 1 else WIDEST_ALONE
        return cls(program, task, kernel, host, most=widest if task.reduces_cols else None)

    @property
    def settings(self) -> dict[str, str]:
        """The elements of a tile, how many programs share a multiprocessor, and the warps of a program."""
        elements = ELEMENTS_WITH_SUMS if self.task.is_persistent else ELEMENTS
        return {"ELEMENTS": str(elements), **dict([self._shared]), NUM_WORKER_WARPS: str(ROW_WARPS)}

    @property
    def _shared(self) -> tuple[str, str]:
        """The setting by which programs share a multiprocessor: how many, or where tiles have whole rows the elements they hold."""
        whole = sum(value.op == "load" and value.space == FULL for value in self.task.values)
        resident = RESIDENT_ELEMENTS // max(whole, 1)
        if self.task.is_persistent:
            return OCCUPANCY, "1"
        return (RESIDENT, str(resident)) if self.task.reduces_cols else (OCCUPANCY, str(-(-resident // ELEMENTS)))

    @property
    def _is_hinted(self) -> bool:
        return self.form.tuned_tiles or not self.task.is_persistent

    def _setting(self, name: str) -> str:
        return f'tuned["{name}"]' if self.form.tuned_tiles else self.settings[name]

    def setting_lines(self) -> list[str]:
        """Lines that choose the tile by the number of columns, and how many programs share a multiprocessor."""
        elements = self._setting("ELEMENTS")
        most = f"{WIDEST_BLOCK}, {elements}" if self.form.tuned_tiles else str(WIDEST_BLOCK)
        width = "n_cols" if self.task.reduces_cols else f"min(n_cols, {most})"
        lines = self.tuned_lines("n_cols") if self.form.tuned_tiles else []
        lines.append(f"BLOCK_ROWS, BLOCK_SIZE = _tile_shape({width}, {elements})")
        if self.most is not None:
            message = f'raise ValueError(f"{{n_cols}} columns are more than the {self.most} that a tile holds")'
            lines = [f"if n_cols > {self.most}:", INDENT + message, *lines]
        tiles = "n_rows // BLOCK_ROWS + 1"
        if self.task.is_persistent:
            lines.append(f"n_programs = _num_programs({self.source}.device, {tiles})")
        else:
            lines.append(f"n_programs = {tiles}")
        if self._shared[0] == RESIDENT:
            lines.append(f"occupancy = ct.cdiv({self._setting(RESIDENT)}, BLOCK_ROWS * BLOCK_SIZE)")
        return [*lines, *([] if self.task.reduces_cols else ["n_blocks = ct.cdiv(n_cols, BLOCK_SIZE)"])]

    def launch_lines(self) -> list[str]:
        """Lines that start the kernel."""
        grid = "(n_programs,)" if self.task.reduces_cols else "(n_programs, n_blocks)"
        shared = self._shared[0]
        occupancy = "occupancy" if shared == RESIDENT else self._setting(shared)
        hints = f"{occupancy}, {self._setting(NUM_WORKER_WARPS)}"
        name = f"_hinted({self.kernel.name}, {hints})" if self._is_hinted else ""
        return launched(self.kernel, "", grid, [*self.kernel.constants], name)

    def knobs(self, cols: list[int]) -> Knobs:
        """The elements of a tile: its rows, and of blocks of columns their width."""
        least = min(cols, default=0) if self.task.reduces_cols else 0
        elements = tuple(n for n in (1024, 2048, 4096, 8192, 16384) if n >= least)
        tile = max(ELEMENTS, 1 << (least - 1).bit_length())
        hints = {RESIDENT: tuple(tile * number for number in HINTS[OCCUPANCY]), **HINTS}
        return [("ELEMENTS", elements), *((name, hints[name]) for name in (self._shared[0], NUM_WORKER_WARPS))]
