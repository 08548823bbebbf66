"""The schedule of products: a tile of the result a program, ``tl.dot`` over blocks of what is summed over. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from gpu_runner.contracts import Workload
from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR
from workers.authors.compiler.graph import CannotCompileError, evaluate, numbers_of
from workers.authors.compiler.host import HostScope, Scalars, row_index
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.names import Names
from workers.authors.compiler.program import Operand, Product, Program
from workers.authors.compiler.schedules.base import KernelWriter, Knobs, Lane, Schedule, outside, started
from workers.authors.compiler.statements import Statements, worth_naming
from workers.authors.compiler.values import Value, topological, use_counts

# Tiles from the largest on, as rows, columns and warps; all but the first halve the work of a program. A tile of 128 x 256 in
# float32 is 128 registers of each thread of 8 warps, which is what is left to it. Its rule is a first guess, and tuning decides.
PRODUCT_SETTINGS = '''def _product_settings(device, n_rows, n_cols, element_size):
    """The largest tile of which every multiprocessor has one, and as many stages as shared memory holds."""
    n_processors, capacity = 1, 98304
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        n_processors, capacity = properties.multi_processor_count, properties.shared_memory_per_block_optin
    tiles = ((128, 256, 8), (128, 128, 8), (64, 128, 4), (64, 64, 4), (32, 64, 4))
    BLOCK_M, BLOCK_N, num_warps = tiles[-1]
    for rows, cols, warps in tiles[1:] if element_size > 2 else tiles:
        if triton.cdiv(n_rows, rows) * triton.cdiv(n_cols, cols) >= n_processors:
            BLOCK_M, BLOCK_N, num_warps = rows, cols, warps
            break
    BLOCK_M = min(BLOCK_M, max(16, triton.next_power_of_2(n_rows)))
    BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(n_cols)))
    BLOCK_K = 128 // element_size
    num_stages = max(2, min(4, capacity // ((BLOCK_M + BLOCK_N) * BLOCK_K * element_size)))
    return BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages'''

# A program of a long product of few tiles takes a part of what is summed over, of at least 2048 elements.
PRODUCT_SPLITS = '''def _product_splits(device, n_tiles, n_inner):
    """In how many parts a sum is taken, so that each multiprocessor has two programs, and how long a part is."""
    n_processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
    n_splits = max(1, min(triton.cdiv(2 * n_processors, n_tiles), n_inner // 2048))
    length = max(128, triton.cdiv(triton.cdiv(n_inner, n_splits), 128) * 128)
    return max(1, triton.cdiv(n_inner, length)), length'''
FEW_TILES, LONG_SUM = 128, 8192  # of 64 x 64 elements, which are fewer than there are multiprocessors

PRECISION = '''def _precision():
    """How products of float32 are computed: as torch has it set."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"'''

GROUP = 8  # rows of tiles that run together, so that they share what they read of the right operand in the L2 cache
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
_MASKS = {FULL: "mask", ROW: "row_mask", COL: "col_mask"}


@dataclass(frozen=True)
class ProductSchedule(Schedule):
    """A program computes a tile of a product, and what follows from it element by element."""

    SOURCES: ClassVar = {
        "_product_settings(": PRODUCT_SETTINGS,
        "_product_splits(": PRODUCT_SPLITS,
        "_precision(": PRECISION,
    }

    strides: tuple[tuple[str, str], ...] = ()  # parameters of the kernel, and their values in the launcher

    @staticmethod
    def fits(task: KernelTask, program: Program) -> bool:
        return program.product is not None

    @classmethod
    def of(cls, program: Program, names: Names, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        writer = ProductKernel(program, names, scalars, task)
        kernel = writer.write()
        return cls(program, task, kernel, host, strides=tuple(writer.strides.items()))

    @property
    def _product(self) -> Product:
        assert self.program.product is not None
        return self.program.product

    @property
    def settings(self) -> dict[str, str]:
        """The tile, the rows of tiles in a group, warps and stages."""
        return {name: name for name in (*TILE, "num_warps", "num_stages")} | {"GROUP_M": str(GROUP)}

    def setting_lines(self) -> list[str]:
        """Lines that choose the settings by the size of the result."""
        chosen, splits = (*TILE, "num_warps", "num_stages"), is_split(self.task, self.program)
        cols = f"n_cols * {FEW_TILES}" if splits else "n_cols"  # parts make up for tiles, so that these may be large
        sizes = f"{self.source}.device, n_rows, {cols}, {self.source}.element_size()"
        lines = [f"{', '.join(chosen)} = _product_settings({sizes})"]
        lines += ["BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(n_cols)))"] if splits else []
        lines += self.tuned_lines("n_rows * n_cols", "BLOCK_M", "BLOCK_N") if self.form.tunable else []
        if splits:
            lines += [
                f"n_tiles = {self._tiles}",
                f"n_splits, split_length = _product_splits({self.source}.device, n_tiles, n_inner)",
                f"split_stride = {'n_batches * ' if self._product.axes.batch else ''}n_rows * n_cols",
            ]
        return lines

    @property
    def _tiles(self) -> str:
        tiles = "triton.cdiv(n_rows, BLOCK_M) * triton.cdiv(n_cols, BLOCK_N)"
        return f"n_batches * {tiles}" if self._product.axes.batch else tiles

    def leaves_partials(self, store: Store) -> bool:
        """Whether programs take parts of the sum."""
        return is_split(self.task, self.program)

    def partials(self, store: Store) -> str:
        """The product of each part."""
        return f"(n_splits, *{self.host.shape(str(store.node))})"

    def total_line(self, store: Store, node: str, dtype: str) -> str:
        """The line that adds the parts up."""
        return f"{store.name} = {store.buffer}.sum(dim=0).to({dtype})"

    def size_lines(self) -> list[str]:
        """Lines that compute the sizes of the product, and the strides of its operands."""
        axes = self._product.axes
        lines = [f"n_rows = {self.host.product(axes.rows)}", f"n_cols = {self.host.product(axes.cols)}"]
        lines.append(f"n_inner = {self.host.product(axes.inner)}")
        lines += [f"n_batches = {self.host.product(axes.batch)}"] if axes.batch else []
        return [*lines, *self.stride_lines()]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each tile."""
        names = ("BLOCK_K", "GROUP_M", "num_warps", "num_stages")
        own = {name: f'tuned["{name}"]' if self.form.tunable else self.settings[name] for name in names}
        constants = {name: own.get(name, name) for name in (*TILE, "GROUP_M")} | {"PRECISION": "_precision()"}
        grid = "(n_tiles, n_splits)" if is_split(self.task, self.program) else f"({self._tiles},)"
        lines = started(self.kernel, grid, constants, own["num_warps"], own["num_stages"])
        values = dict(self.strides)
        return [line.replace(name, values[name]) if (name := line.strip(" ,")) in values else line for line in lines]

    def knobs(self, cols: list[int]) -> Knobs:
        """The tile first, then what hides its loads."""
        return [
            ("BLOCK_M", (64, 128)),
            ("BLOCK_N", (64, 128, 256)),
            ("BLOCK_K", (32, 64)),
            ("num_warps", (4, 8)),
            ("num_stages", (3, 4)),
            ("GROUP_M", (4, 16)),
        ]

    @property
    def grid(self) -> tuple[str, str]:
        """One dimension, tiles in groups of rows."""
        return "1D", "a tile of the product a program, those of a group of rows one after the other"


class ProductKernel(KernelWriter):
    """Loads blocks of both operands in turn, adds their products up in float32, and finishes the tile in registers."""

    def __init__(self, program: Program, names: Names, scalars: Scalars, task: KernelTask) -> None:
        super().__init__(program, names, scalars, task)
        assert program.product is not None
        self.product: Product = program.product
        self.strides: dict[str, str] = {}
        self._used: set[str] = set()

    @property
    def read(self) -> tuple[Value, ...]:
        """The operands' tensors, then those that meet the result."""
        return (*self.product.left.loads, *self.product.right.loads, *self.loads)

    def write(self) -> KernelSource:
        """The kernel as source."""
        head, turn, body = self.scope(), self.scope(2), self.scope()
        self._tile(head)
        texts = [self._operand(head, turn, is_left=True), self._operand(head, turn, is_left=False)]
        dot = next(value for value in self.task.values if value.op == "dot")
        total = self.names.of(dot)
        head.line(f"{total} = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)")
        turn.line(f"{total} = tl.dot({texts[0]}, {texts[1]}, {total}, input_precision=PRECISION)")
        loop = self.scope()
        splits = is_split(self.task, self.program)
        if splits:
            head.line("first = tl.program_id(1) * split_length")
            head.line("last = min(n_inner, first + split_length)  # split_length is a multiple of BLOCK_K")
        loop.line(f"for start in range({'first, last' if splits else '0, n_inner'}, BLOCK_K):")
        loop.line("    inner = (start + tl.arange(0, BLOCK_K)).to(tl.int64)")
        loop.line("    inner_mask = inner < n_inner")
        body.env[dot] = total
        self._finish(body)
        lines = [*self.scalar_lines(), *head.lines, *loop.lines, *turn.lines, "", *body.lines]
        partial = (size for load in self.loads for size in row_index(self.program, self.names, load)[1])
        parts = ("split_length", "split_stride") if splits else ()
        sizes = ("n_rows", "n_cols", "n_inner", *parts, *self.strides, *dict.fromkeys(partial))
        return self.finish(lines, sizes, (*TILE, "GROUP_M", "PRECISION"))

    def _tile(self, head: Statements) -> None:
        program = "tl.program_id(0)"
        head.line("n_row_tiles = tl.cdiv(n_rows, BLOCK_M)")
        head.line("n_col_tiles = tl.cdiv(n_cols, BLOCK_N)")
        if self.product.axes.batch:
            head.line(f"batch = ({program} // (n_row_tiles * n_col_tiles)).to(tl.int64)")
            program = f"({program} % (n_row_tiles * n_col_tiles))"
        head.line("# Tiles of a group of rows run together, so that they find the right operand in the L2 cache.")
        head.line(f"group = {program} // (GROUP_M * n_col_tiles)")
        head.line("group_rows = min(n_row_tiles - group * GROUP_M, GROUP_M)")
        head.line(f"tile = {program} % (GROUP_M * n_col_tiles)")
        head.line("row_tile = group * GROUP_M + tile % group_rows")
        head.line("col_tile = tile // group_rows")
        head.line("rows = (row_tile * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]")
        head.line("cols = (col_tile * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)[None, :]")
        head.line("row_mask = rows < n_rows")
        head.line("col_mask = cols < n_cols")

    def _operand(self, head: Statements, turn: Statements, *, is_left: bool) -> str:
        """Load an operand's block in every turn, and what does not change before the loop; returns its text."""
        operand = self.product.left if is_left else self.product.right
        shared = worth_naming(use_counts([operand.value]))
        scope = Statements(self.names, self.scalars.written, shared, turn.depth)
        for load in operand.loads:
            self._load_operand(head, scope, load, operand, is_left)
        inner, (rows, cols) = self._inner("inner", is_left), ("rows", "cols")
        places = {"row": rows if is_left else inner, "column": inner if is_left else cols}
        scope.env.update({v: places[v.op] for v in topological([operand.value]) if v.op in places})
        text = scope.env.get(operand.value)
        whole = operand.value.space == FULL
        if text is None or not whole or self._type(operand) != self._type(self._other(is_left)):
            text = self._computed(scope, operand, is_left)
        turn.lines += scope.lines
        return text

    def _other(self, is_left: bool) -> Operand:
        return self.product.right if is_left else self.product.left

    def _type(self, operand: Operand) -> str | None:
        """The dtype in which an operand is multiplied where it is not the call's."""
        fixed = {self.program.fixed_dtype(str(v.datum)) for v in operand.loads if not (v.boolean or v.integer)}
        return None if None in fixed else "float32"

    def _computed(self, scope: Statements, operand: Operand, is_left: bool) -> str:
        """An operand that is computed from what is loaded; zero where there is nothing to add up."""
        text = scope.fitted(operand.value)
        if operand.value.space != FULL:  # the same along a dimension of the block, which the mask has both of
            outer = "row_mask" if is_left else "col_mask"
            text = f"tl.where({outer} & {self._inner('inner_mask', is_left)}, {text}, 0.0)"
        elif operand.value.args and outside(operand.value, self.others, whole_rows=not is_left) is not Lane.zero:
            text = f"tl.where({self._inner('inner_mask', is_left)}, {text}, 0.0)"
        types = {self._type(operand), self._type(self._other(is_left))}
        kind = "tl.float32"
        if types == {None}:
            named = next(
                v
                for v in operand.loads
                if not (v.boolean or v.integer) and self.program.fixed_dtype(str(v.datum)) is None
            )
            kind = f"{self.tensor(named)}_ptr.dtype.element_ty"
        name = self.names.free("left" if is_left else "right")
        text = text if text.isidentifier() else f"({text})"
        scope.line(f"{name} = {text}.to({kind})")
        return name

    @staticmethod
    def _inner(text: str, is_left: bool) -> str:
        return f"{text}[None, :]" if is_left else f"{text}[:, None]"

    def _load_operand(self, head: Statements, turn: Statements, load: Value, operand: Operand, is_left: bool) -> None:
        axes, tensor = self.product.axes, self.tensor(load)
        name = tensor if tensor not in self._used else self.names.free(tensor)
        self._used.add(tensor)
        outer, index, mask = ("row", "rows", "row_mask") if is_left else ("col", "cols", "col_mask")
        own = axes.rows if is_left else axes.cols
        fixed = [self._term(load, operand, axes.batch, "batch", "batch"), self._term(load, operand, own, outer, index)]
        place = " + ".join([f"{tensor}_ptr", *filter(None, fixed)])
        inner = self._term(load, operand, axes.inner, "inner", self._inner("inner", is_left))
        masks = [mask] if fixed[1] else []
        scope = turn if inner else head
        if inner:
            masks.append(self._inner("inner_mask", is_left))
            pointer = self.names.free(f"{name}_{index}")
            head.line(f"{pointer} = {place}")
            place = f"{pointer} + {inner}"
        other = f", mask={' & '.join(masks)}, other={self.fill(load)}" if masks else ""
        text = f"tl.load({place}{other})"
        scope.line(f"{name} = {text if load is operand.value else self.converted(text, load)}")
        turn.env[load] = name

    def _term(self, load: Value, operand: Operand, axes: tuple[int, ...], role: str, index: str) -> str | None:
        """What an index adds to a tensor's offset, None where the tensor does not vary over it."""
        shape = operand.domain.shapes[str(load.datum)]
        own = [place for place, dim in enumerate(shape) if set(dim) & set(axes)]
        if not own:
            return None
        found = tuple(axis for place in own for axis in shape[place])
        if found != axes or own != list(range(own[0], own[-1] + 1)):
            raise CannotCompileError(
                f"`matmul` takes `{self.tensor(load)}`, whose {role} dimensions do not lie side by side", "matmul"
            )
        stride = f"{self.tensor(load)}_stride_{role}"
        value = f"{self.tensor(load)}.stride({own[-1] - len(shape)})"
        if len(own) > 1:  # the last of them may be of size one, whose stride may be anything
            value = (
                " * ".join(f"{self.tensor(load)}.shape[{place}]" for place in range(own[-1] + 1 - len(shape), 0)) or "1"
            )
        if self.strides.get(stride, value) != value:
            stride = self.names.free(stride)
        self.strides[stride] = value
        return f"{index} * {stride}"

    def _finish(self, body: Statements) -> None:
        """What follows from the product, in registers."""
        numbered = self.row_numbers
        if self.product.axes.batch:
            for value in numbered:
                body.line(f"{self.names.of(value)} = rows")
            body.line("rows += batch * n_rows")
        places = {"row": "rows", "column": "cols"}
        body.env.update({value: places[value.op] for value in self.task.values if value.op in places})
        body.env.update({value: self.names.of(value) for value in numbered if self.product.axes.batch})
        body.line("mask = row_mask & col_mask")
        body.line("offsets = rows * n_cols + cols")
        if is_split(self.task, self.program):
            body.line("offsets += tl.program_id(1).to(tl.int64) * split_stride")
        for load in self.loads:
            self._load_epilogue(body, load)
        stored = [(s, body.env.get(s.value) or body.assign(s.value, s.name)) for s in self.task.stores]
        for store, text in stored:
            body.line(f"tl.store({store.buffer}_ptr + offsets, {text}, mask=mask)")

    def _load_epilogue(self, body: Statements, load: Value) -> None:
        tensor = self.tensor(load)
        name = tensor if tensor not in self._used else self.names.free(tensor)
        if load.space == SCALAR:
            text = f"tl.load({tensor}_ptr)"
        else:
            place = {FULL: "offsets", ROW: "rows", COL: "cols"}[load.space]
            if self.partial_rows(load):
                index = row_index(self.program, self.names, load)[0]
                place = f"({index}) * n_cols + cols" if load.space == FULL else index
            text = f"tl.load({tensor}_ptr + {place}, mask={_MASKS[load.space]}, other={self.fill(load)})"
        body.line(f"{name} = {self.converted(text, load)}")
        body.env[load] = name


def is_split(task: KernelTask, program: Program) -> bool:
    """Whether programs share the sum of an element: of a bare product that the largest workload leaves too few tiles of."""
    bare = [store.value.op for store in task.stores] == ["dot"]
    if program.product is None or not bare or not program.problem.workloads:
        return False
    axes, domain = program.product.axes, program.domain

    def few(workload: Workload) -> bool:
        given = numbers_of(program.problem, workload)

        def count(own: tuple[int, ...]) -> int:
            sizes = (domain.sizes[axis] for axis in own)
            return math.prod(int(evaluate(size, given)) if isinstance(size, Expr) else size for size in sizes)

        try:
            tiles = count(axes.batch) * math.ceil(count(axes.rows) / 64) * math.ceil(count(axes.cols) / 64)
            return tiles < FEW_TILES and count(axes.inner) >= LONG_SUM
        except CannotCompileError:
            return False

    return any(few(workload) for workload in program.problem.workloads)


def product_formula(program: Program, names: Names) -> dict[str, str]:
    """The formula of the program's product, by its node."""
    if program.product is None:
        return {}
    axes = program.product.axes
    sides = ((program.product.left, axes.inner), (program.product.right, axes.cols))
    return {axes.node: " @ ".join(_operand_formula(operand, last, names) for operand, last in sides)}


def _operand_formula(operand: Operand, last: tuple[int, ...], names: Names) -> str:
    load = next((v for v in topological([operand.value]) if v.op == "load" and v.space == FULL), None)
    if load is None or operand.value is not load:
        return f"f({', '.join(dict.fromkeys(names.tensors[str(v.datum)] for v in operand.loads))})"
    shape = [dim for dim in operand.domain.shapes[str(load.datum)] if dim]
    text = names.tensors[str(load.datum)]
    return text if not shape or shape[-1] == last[-len(shape[-1]) :] else f"{text}.T"
