"""Schedules for Ascend NPUs: a program a vector core, grid-stride loops over tiles that the unified buffer holds. Pure."""

from __future__ import annotations

from typing import ClassVar, Self

from workers.authors.compiler.domain import FULL
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import KernelTask
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import Schedule, started
from workers.authors.compiler.schedules.flat import Flat
from workers.authors.compiler.schedules.live import TILE_SIZE, live_tiles
from workers.authors.compiler.schedules.product import TILE, ProductKernel, ProductSchedule
from workers.authors.compiler.schedules.tile import Tile
from workers.authors.compiler.statements import INDENT, ScopeStatements

CORES = "get_npu_core_count()"
BLOCK = '''def _block(size, multiplier):
    """Elements of a block of which the unified buffer holds so many copies in float32: a power of two."""
    ((block,),) = compute_default_tiling_strategy(
        safety_margin=0.8, dtype_size=4, memory_multiplier=multiplier, shapes=((size,),), tiling_dims=(0,)
    )
    return block'''
BLOCK_ROWS = f'''def _block_rows(n_rows, block_size, multiplier):
    """Rows of a tile of so many columns: as many as the unified buffer holds, and no more than leave every core some."""
    rows = triton.cdiv(n_rows, {CORES})
    ((block_rows, _),) = compute_default_tiling_strategy(
        safety_margin=0.8, dtype_size=4, memory_multiplier=multiplier, shapes=((rows, block_size),), tiling_dims=(0,)
    )
    return block_rows'''
ROW_TILES = '''def _row_tiles(n_rows, n_cols, tile_multiplier, block_multiplier):
    """Rows and columns of a tile of whole rows; no rows and a block of columns where the unified buffer holds no row."""
    block_size = triton.next_power_of_2(n_cols)
    if _block(n_cols, tile_multiplier) < block_size:
        return 0, _block(n_cols, block_multiplier)
    return _block_rows(n_rows, block_size, tile_multiplier), block_size'''


class AscendRefused(Schedule):
    """What has no schedule for this target yet: windows and segments of rows."""

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return bool(program.domain.windows) or task.sums_segments or bool(program.domain.segment_axes)

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Refuses.

        Raises:
            CannotCompileError: always.
        """
        if program.domain.windows:
            raise CannotCompileError("the Ascend target has no schedule for windows of a tensor", "windows")
        raise CannotCompileError("the Ascend target has no schedule for groups within a row", "reshape")


class AscendFlat(Flat):
    """Element-wise: a program takes blocks of elements in turn."""

    SOURCES: ClassVar = {"_block(": BLOCK}

    @property
    def grid(self) -> tuple[str, str]:
        """A core's program."""
        return "1D", "a program a vector core, each over many blocks of elements"

    def setting_lines(self) -> list[str]:
        """Lines that choose the block by the unified buffer, and a program for each core that has one."""
        return [
            f"BLOCK_SIZE = _block(n_elements, {live_tiles(self.kernel.source)})",
            f"n_programs = max(1, min({CORES}, triton.cdiv(n_elements, BLOCK_SIZE)))",
        ]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each core."""
        return started(self.kernel, "(n_programs,)", {"BLOCK_SIZE": "BLOCK_SIZE"}, None)


class AscendTile(Tile):
    """Rows: a program takes tiles of whole rows in turn, and blocks of one row where the unified buffer holds no row."""

    SOURCES: ClassVar = {"_row_tiles(": ROW_TILES, "_block_rows(": BLOCK_ROWS, "_block(": BLOCK}

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """The kernels for tiles and for wide rows.

        Raises:
            CannotCompileError: a scan needs whole rows, and the unified buffer may hold none.
        """
        schedule = super().of(program, names, scalars, task, host)
        if task.reduces_cols and schedule.wide is None:
            raise CannotCompileError("a scan needs a whole row, which the unified buffer may not hold", "cumsum")
        return schedule

    def within(self, columns: list[int], tuned: list[int]) -> Self:
        """Which kernel a row takes is known on the device alone."""
        return self

    @property
    def grid(self) -> tuple[str, str]:
        """What a core's program does."""
        if self.task.reduces_cols:
            return "1D", "a program a vector core, each over many tiles of whole rows"
        return "2D", "about a program a vector core, each over many tiles of its block of columns"

    @property
    def sketches(self) -> list[tuple[str, str]]:
        """What a program of each kernel does, for people."""
        wide = (self.wide.kernel.name, "a program a vector core, each over rows in blocks") if self.wide else None
        return [(self.kernel.name, self.grid[1]), *([wide] if wide else [])]

    def setting_lines(self) -> list[str]:
        """Lines that choose the tile by the unified buffer, and the programs by the cores."""
        tiles = live_tiles(self.kernel.source)
        if self.wide is not None:
            return [
                f"BLOCK_ROWS, BLOCK_SIZE = _row_tiles(n_rows, n_cols, {tiles}, {live_tiles(self.wide.kernel.source)})",
                f"n_programs = max(1, min({CORES}, triton.cdiv(n_rows, max(1, BLOCK_ROWS))))",
            ]
        return [
            f"BLOCK_SIZE = _block(n_cols, {tiles})",
            f"BLOCK_ROWS = _block_rows(n_rows, BLOCK_SIZE, {tiles})",
            "n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)",
            f"n_programs = max(1, min({CORES} // n_blocks, triton.cdiv(n_rows, BLOCK_ROWS)))",
        ]

    def launch_lines(self) -> list[str]:
        """Lines that start the kernel whose tiles the unified buffer holds."""
        constants = {"BLOCK_ROWS": "BLOCK_ROWS", "BLOCK_SIZE": "BLOCK_SIZE"}
        if self.wide is None:
            return started(self.kernel, "(n_programs, n_blocks)", constants, None)
        narrow = started(self.kernel, "(n_programs,)", constants, None)
        wide = started(self.wide.kernel, "(n_programs,)", {"BLOCK_SIZE": "BLOCK_SIZE"}, None)
        return ["if BLOCK_ROWS:", *(INDENT + line for line in narrow), "else:", *(INDENT + line for line in wide)]


PRODUCT_TILE = '''def _product_tile(n_rows, n_cols, n_inner, multiplier, element_size):
    """The tile of a product: 64 KiB of the cube's sums, of which the unified buffer holds so many copies."""
    BLOCK_N = min(128, triton.next_power_of_2(n_cols))
    ((BLOCK_M, _),) = compute_default_tiling_strategy(
        safety_margin=0.8,
        dtype_size=4,
        memory_multiplier=multiplier,
        shapes=((min(128, n_rows), BLOCK_N),),
        tiling_dims=(0,),
    )
    return BLOCK_M, BLOCK_N, min(256 // element_size, max(16, triton.next_power_of_2(n_inner)))'''


class AscendProduct(ProductSchedule):
    """Products: a program takes tiles of the result in turn, and blocks of 256 bytes of what is summed over."""

    SOURCES: ClassVar = {"_product_tile(": PRODUCT_TILE}

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel.

        Raises:
            CannotCompileError: an operand is computed.
        """
        assert program.product is not None
        for side in (program.product.left, program.product.right):
            if side.value.op != "load" or side.value.space != FULL:
                sentence = "the Ascend target has no schedule for products of what is computed for each block"
                raise CannotCompileError(sentence, "matmul")
        writer = AscendProductKernel(program, names, scalars, task)
        kernel = writer.write()
        return cls(program, task, kernel, host, names=names.tensors, strides=tuple(writer.strides.items()))

    @property
    def grid(self) -> tuple[str, str]:
        """A core's program."""
        return "1D", "a program a core, each over many tiles of the product"

    def setting_lines(self) -> list[str]:
        """Lines that choose the tile by the unified buffer, and the programs by the cores."""
        tiles = live_tiles(self.kernel.source.replace("(BLOCK_M, BLOCK_N)", f"({TILE_SIZE},)"))
        given = f"n_rows, n_cols, n_inner, {tiles}, {self.source}.element_size()"
        return [
            f"{', '.join(TILE)} = _product_tile({given})",
            f"n_tiles = {self._tiles}",
            f"n_programs = max(1, min({CORES}, n_tiles))",
        ]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each core."""
        return self._addressed(started(self.kernel, "(n_programs,)", {name: name for name in TILE}, None))


class AscendProductKernel(ProductKernel):
    @property
    def _constants(self) -> tuple[str, ...]:
        return TILE

    @property
    def _grid_sizes(self) -> tuple[str, ...]:
        return ("n_tiles",)

    @property
    def _crossed(self) -> bool:
        return False

    def _dot(self, texts: list[str], total: str) -> str:
        return f'tl.dot({", ".join(texts)}, {total}, input_precision="ieee")'

    def _tile_loop(self) -> list[str]:
        loop = self.scope()
        loop.line("n_col_tiles = tl.cdiv(n_cols, BLOCK_N)")
        if self.product.axes.batch:
            loop.line("n_batch_tiles = tl.cdiv(n_rows, BLOCK_M) * n_col_tiles")
        loop.line("for tile in tl.range(tl.program_id(0), n_tiles, tl.num_programs(0)):")
        return loop.lines

    def _tile(self, head: ScopeStatements) -> None:
        tile = "tile"
        if self.product.axes.batch:
            head.line("batch = (tile // n_batch_tiles).to(INDEX)")
            tile = "tile % n_batch_tiles"
        head.line(f"rows = ({tile} // n_col_tiles * BLOCK_M + tl.arange(0, BLOCK_M)).to(INDEX)[:, None]")
        head.line("cols = (tile % n_col_tiles * BLOCK_N + tl.arange(0, BLOCK_N)).to(INDEX)[None, :]")
        head.line("row_mask = rows < n_rows")
        head.line("col_mask = cols < n_cols")
