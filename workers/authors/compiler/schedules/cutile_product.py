"""Products in cuTile: a tile of the result a program, ``ct.mma`` over tiles of what is summed over. Pure."""

from __future__ import annotations

from typing import ClassVar, Self

from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import KernelSource, KernelTask
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import Operand, Product, ValueProgram
from workers.authors.compiler.rounding import ROUNDED
from workers.authors.compiler.schedules.base import Knobs, Schedule
from workers.authors.compiler.schedules.cutile import VIEWS, CutileKernel, launched
from workers.authors.compiler.statements import ScopeStatements
from workers.authors.compiler.values import TileValue

# 256 bytes of rows and columns and 128 bytes deep: in half precision 128 registers of each thread of 4 warps, and a quarter of that
# in float32, whose products take no tensor core: 8192 fused multiplications in a row, 2.9 s to compile, and 0.4 s for a quarter.
TILE_BYTES = {"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 128}
TILE = tuple(TILE_BYTES)
INDICES = {FULL: "(row_tile, col_tile)", ROW: "(row_tile, 0)", COL: "(0, col_tile)", SCALAR: "(0, 0)"}
SHAPES = {FULL: "(BLOCK_M, BLOCK_N)", ROW: "(BLOCK_M, 1)", COL: "(1, BLOCK_N)", SCALAR: "(1, 1)"}


class CutileProduct(Schedule):
    """A program computes a tile of a product, and what follows from it element by element."""

    LAUNCH_SIZES: ClassVar = frozenset({"n_rows", "n_cols"})

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return program.product is not None and not program.domain.windows

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel.

        Raises:
            CannotCompileError: the product has batches, or takes or is followed by what has no tile in this language.
        """
        return cls(program, task, CutileProductKernel(program, names, scalars, task).write(), host)

    @property
    def _product(self) -> Product:
        assert self.program.product is not None
        return self.program.product

    @property
    def grid(self) -> tuple[str, str]:
        """A tile of the product a program."""
        return "2D", "a tile of the product a program"

    @property
    def settings(self) -> dict[str, str]:
        """The tile."""
        return {name: f"{size} // {self.source}.element_size()" for name, size in TILE_BYTES.items()}

    def size_lines(self) -> list[str]:
        """Lines that compute the sizes of the product."""
        axes = self._product.axes
        groups = {"n_rows": axes.rows, "n_cols": axes.cols, "n_inner": axes.inner}
        return [f"{name} = {self.host.product(own)}" for name, own in groups.items()]

    def setting_lines(self) -> list[str]:
        """Lines that choose the tile."""
        if self.form.tuned_tiles:
            return self.tuned_lines("n_rows * n_cols", *TILE)
        return [f"{name} = {size}" for name, size in self.settings.items()]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each tile."""
        grid = "(ct.cdiv(n_rows, BLOCK_M), ct.cdiv(n_cols, BLOCK_N))"
        return launched(self.kernel, "n_rows * n_cols", grid, [*TILE])

    def knobs(self, cols: list[int]) -> Knobs:
        """The tile, whatever the columns."""
        return [("BLOCK_M", (64, 128, 256)), ("BLOCK_N", (64, 128, 256)), ("BLOCK_K", (32, 64, 128))]


class CutileProductKernel(CutileKernel):
    """Loads tiles of both operands in turn, adds their products up in float32, and finishes the tile."""

    def __init__(self, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask) -> None:
        super().__init__(program, names, scalars, task)
        assert program.product is not None
        self.product = program.product
        self._views: dict[str, str] = {}

    @property
    def read(self) -> tuple[TileValue, ...]:
        """The operands' tensors, then those that meet the result."""
        return (*self.product.left.loads, *self.product.right.loads, *self.loads)

    def write(self) -> KernelSource:
        """The kernel as source."""
        self._check()
        turn, body = self.scope(2), self.scope()
        texts = [self._operand(turn, self.product.left, is_left=True)]
        texts.append(self._operand(turn, self.product.right, is_left=False))
        dot = next(value for value in self.task.values if value.op == "dot")
        total = body.env[dot] = self.names.of(dot)
        turn.line(f"{total} = ct.mma({', '.join(texts)}, {total})")
        self._finish(body)
        head = self.scope()
        head.line("row_tile = ct.bid(0)")
        head.line("col_tile = ct.bid(1)")
        head.line(f"{total} = ct.zeros((BLOCK_M, BLOCK_N), dtype=ct.float32)")
        head.line("for inner_tile in range(ct.cdiv(n_inner, BLOCK_K)):")
        lines = [*self.scalar_lines(), *head.lines, *turn.lines, "", *body.lines]
        return self.finish(lines, ("n_rows", "n_cols", "n_inner"), TILE)

    def view(self, name: str) -> str:
        """The shape in which a kernel takes a tensor."""
        if name in self._views:
            return self._views[name]
        stores = [store for store in self.task.pieces if store.buffer == name]
        return VIEWS[stores[0].space] if stores else VIEWS[next(v.space for v in self.loads if self.tensor(v) == name)]

    def _check(self) -> None:
        values, shapes = self.task.values, self.program.domain.shapes
        lacking = {ROUNDED: "roundings in the middle", "pick": "look-ups", "row": "numbers of rows", "column": "places"}
        found = [lacking[value.op] for value in values if value.op in lacking]
        if self.product.axes.batch:
            found.append("batches of products")
        if any(self.partial_rows(load) for load in self.loads if str(load.datum) in shapes):
            found.append("tensors that have some of the rows")
        for side in (self.product.left, self.product.right):
            if side.value.op != "load" or side.value.space != FULL:
                found.append("products of what is computed for each tile")
            elif side.value.integer or side.value.boolean:
                found.append("products of whole numbers")
            elif str(side.value.datum) in {str(load.datum) for load in self.loads}:
                found.append("a tensor that is multiplied and meets the product")
        if str(self.product.left.value.datum) == str(self.product.right.value.datum):
            found.append("a product of a tensor with itself")
        if found:
            raise CannotCompileError(f"the cuTile target has no schedule for {found[0]}", "matmul")

    def _operand(self, turn: ScopeStatements, operand: Operand, *, is_left: bool) -> str:
        """Load an operand's tile in every turn, as it lies in memory; returns its text with the axes that a product takes."""
        axes, load = self.product.axes, operand.value
        name = self.tensor(load)
        own, size, block, tile = (
            (axes.rows, "n_rows", "BLOCK_M", "row_tile") if is_left else (axes.cols, "n_cols", "BLOCK_N", "col_tile")
        )
        order = tuple(axis for dim in operand.domain.shapes[str(load.datum)] for axis in dim)
        parts = [(size, block, tile), ("n_inner", "BLOCK_K", "inner_tile")]
        if order not in {(*own, *axes.inner), (*axes.inner, *own)}:
            raise CannotCompileError(f"`matmul` takes `{name}`, whose dimensions do not lie side by side", "matmul")
        last = order[-len(axes.inner) :] == axes.inner
        parts = parts if last else parts[::-1]
        sizes, blocks, tiles = (", ".join(part) for part in zip(*parts, strict=True))
        self._views[name] = sizes
        turn.line(f"{name} = {self.loaded(load, f'({tiles})', f'({blocks})')}")
        types = [self.program.fixed_dtype(str(side.value.datum)) for side in (self.product.left, self.product.right)]
        text = name if types[0] == types[1] else f"ct.astype({name}, ct.float32)"
        return text if last is is_left else f"ct.permute({text}, (1, 0))"

    def _finish(self, body: ScopeStatements) -> None:
        """What follows from the product."""
        for load in self.loads:
            name = body.env[load] = self.tensor(load)
            body.line(f"{name} = {self.converted(self.loaded(load, INDICES[load.space], SHAPES[load.space]), load)}")
        stored = [(s, body.env.get(s.value) or body.assign(s.value, s.name)) for s in self.task.pieces]
        for store, text in stored:
            body.line(self.stored(store, text, INDICES[store.space], SHAPES[store.space]))
