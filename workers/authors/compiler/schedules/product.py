"""The schedule of products: a tile of the result a program, ``tl.dot`` over blocks of what is summed over. Pure.

An operand may be the windows of a tensor, as those of a convolution are: then each element's place is computed where it is loaded,
and the taps are walked one after the other, each over blocks of channels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Self

from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR
from workers.authors.compiler.graph import CannotCompileError, evaluate, numbers_of
from workers.authors.compiler.host import HostScope, Scalars, row_index
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import Operand, Product, ValueProgram
from workers.authors.compiler.schedules.base import KernelWriter, Knobs, Lane, Schedule, outside, started
from workers.authors.compiler.schedules.places import ADDRESSED, INDEX_LINE, Places, SpacePart, addressed
from workers.authors.compiler.statements import INDENT, ScopeStatements, worth_naming
from workers.authors.compiler.values import TileValue, topological, use_counts

# Tiles from the largest on, as rows, columns and warps; all but the first halve the work of a program. A tile of 128 x 256 in
# float32 is 128 registers of each thread of 8 warps, which is what is left to it. Its rule is a first guess, and tuning decides.
# Of an operand that is computed, each block loaded has a buffer less than there are stages, and the operand has one: 212,992 bytes
# for 3 stages of 128 x 256 x 64 with two halves on the right, 294,912 for 4. Source: triton 3.6 for sm_90.
PRODUCT_SETTINGS = '''def _product_settings(device, n_rows, n_cols, dtype, n_batches=1, described=False, n_left=1, n_right=1):
    """The largest tile of which every multiprocessor has one, and stages for it.

    Operands are computed of ``n_left`` and ``n_right`` blocks each. Where blocks of the
    next tile are on their way while one is stored, shared memory holds that one too.
    """
    n_processors, capacity = 1, 98304
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        n_processors, capacity = properties.multi_processor_count, properties.shared_memory_per_block_optin
    whole = ((128, 128, 8), (64, 128, 4), (64, 64, 4), (32, 64, 4))
    half = ((128, 256, 8), *whole)
    BLOCK_M, BLOCK_N, num_warps = whole[-1]
    for rows, cols, warps in {torch.float32: whole, torch.bfloat16: half, torch.float16: half}[dtype]:
        if n_batches * triton.cdiv(n_rows, rows) * triton.cdiv(n_cols, cols) >= n_processors:
            BLOCK_M, BLOCK_N, num_warps = rows, cols, warps
            break
    BLOCK_M = min(BLOCK_M, max(16, triton.next_power_of_2(n_rows)))
    BLOCK_N = min(BLOCK_N, max(16, triton.next_power_of_2(n_cols)))
    element_size = dtype.itemsize
    BLOCK_K = 128 // element_size
    capacity -= described * BLOCK_M * BLOCK_N * element_size
    left_bytes, right_bytes = BLOCK_M * BLOCK_K * element_size, BLOCK_N * BLOCK_K * element_size
    capacity += (n_left - 1) * left_bytes + (n_right - 1) * right_bytes
    num_stages = max(2, min(4, capacity // (n_left * left_bytes + n_right * right_bytes)))
    return BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages'''

# Parts of a sum, of at least 512 elements on a GPU, are computed side by side and added up in order.
LEAST_PART = 512
SPLITS = f'''def _splits(device, n_tiles, n_turns, n_summed):
    """Among how many programs the sum of a tile is split, so that each multiprocessor has two, and the turns of each."""
    n_processors, least = 4, 32
    if device.type == "cuda":
        n_processors, least = torch.cuda.get_device_properties(device).multi_processor_count, {LEAST_PART}
    n_splits = max(1, min(triton.cdiv(2 * n_processors, max(1, n_tiles)), n_summed // least))
    turns = max(1, triton.cdiv(n_turns, n_splits))
    return max(1, triton.cdiv(n_turns, turns)), turns'''
LEAST_LAID = LEAST_DESCRIBED = 2048

# Tensor descriptors have the hardware load blocks (TMA), from rows that begin at multiples of 16 bytes. Other GPUs than Hopper and
# its successors have none; the interpreter has.
DESCRIBED = '''def _described(device, element_size, *places):
    """How many programs read operands by tensor descriptors: of halves, whose rows begin at multiples of 8 elements."""
    n_programs = 2 if device.type == "cpu" else 0
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        n_programs = 0 if torch.version.hip or properties.major < 9 else properties.multi_processor_count
    return 0 if element_size != 2 or any(place % 8 for place in places) else n_programs'''
DESCRIPTORS = '''def _descriptors(size, alignment, stream):
    """The memory of a kernel's tensor descriptors."""
    return torch.empty(size, dtype=torch.int8, device="cuda")'''
FEW_TILES, LONG_SUM = 128, 8192  # of 64 x 64 elements, which are fewer than there are multiprocessors

# A CPU has no TF32, and Triton's interpreter multiplies float32 as it is.
PRECISION = '''def _precision(device):
    """How products of float32 are computed: as torch has it set."""
    return "tf32" if device.type == "cuda" and torch.get_float32_matmul_precision() != "highest" else "ieee"'''

# float32 as three products of TF32, of what it holds and of the rest. Hopper multiplies it by warp groups where both operands lie
# along what is summed over. Measured: H200, 2026-11-29, 2048 x 4096 x 8192, to cuBLAS in float32: 0.69, with copies 0.72 to 0.85,
# as operands lie 1.4 to 1.6, and by the float32 units 1.1 to 2.3; the error is 0.2 of cuBLAS's.
EXACT_PRECISION = '''def _exact_precision(device):
    """How products of float32 are computed: as torch has it set, and exactly by three of TF32."""
    if device.type != "cuda":
        return "ieee"
    if torch.get_float32_matmul_precision() != "highest":
        return "tf32"
    return "tf32x3" if torch.version.hip is None and torch.cuda.get_device_properties(device).major >= 8 else "ieee"'''

LAID = '''def _laid(x, dim, precision):
    """A tensor with ``dim`` side by side in memory, as tensor cores take TF32."""
    if x.dtype != torch.float32 or precision == "ieee":
        return x
    return _aligned(x.movedim(dim, -1)).movedim(-1, dim)'''

ALIGNED = '''def _aligned(x):
    """A copy with rows that begin at multiples of 64 elements: lines of the cache, of which loads take many elements."""
    n_cols = 64 * max(1, triton.cdiv(x.shape[-1], 64))
    rows = torch.empty((*x.shape[:-1], n_cols), dtype=x.dtype, device=x.device)
    return rows[..., : x.shape[-1]].copy_(x)'''

WINDOW_PRECISION = '''def _window_precision(device):
    """How convolutions of float32 are computed: as torch has it set."""
    return "tf32" if device.type == "cuda" and torch.backends.cudnn.allow_tf32 else "ieee"'''

# Tensor cores ignore the last 13 bits of float32, which would make each operand 3.4e-4 too small in the mean.
NEAREST_TF32 = """@triton.jit
def _nearest_tf32(x, PRECISION: tl.constexpr):
    # Half of TF32's last place away from zero, then cut: infinities and NaN stay what they are.
    if PRECISION == "tf32" and x.dtype == tl.float32:
        power = (x.to(tl.int32, bitcast=True) & -0x800000).to(tl.float32, bitcast=True)
        nearest = x + power * 0.00048828125
        x = (nearest.to(tl.int32, bitcast=True) & -0x2000).to(tl.float32, bitcast=True)
    return x"""

ROUNDED_ONCE = '''@triton.jit
def _rounded_once_kernel(
    rounded_ptr,
    x_ptr,
    n_elements,
    BLOCK_SIZE: tl.constexpr,
):
    """
    rounded = nearest_tf32(x)
    """
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    tl.store(rounded_ptr + offsets, _nearest_tf32(x, "tf32"), mask=mask)


def _rounded_once(x, precision):
    """A contiguous tensor as tensor cores take it, before its elements are loaded one by one and many times."""
    if precision != "tf32" or x.dtype != torch.float32:
        return x
    rounded = torch.empty_like(x)
    n_elements = x.numel()
    with device_context(x.device):
        _rounded_once_kernel[(triton.cdiv(n_elements, 2048),)](
            rounded,
            x,
            n_elements,
            BLOCK_SIZE=2048,
            num_warps=8,
        )
    return rounded'''


def nearest(operand: str) -> str:
    """An operand of ``tl.dot``, rounded as tensor cores take it."""
    return f"_nearest_tf32({operand}, PRECISION)"


GROUP = 8  # rows of tiles that run together, so that they share what they read of the right operand in the L2 cache
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
_MASKS = {FULL: "mask", ROW: "row_mask", COL: "col_mask"}


@dataclass(frozen=True)
class ProductSchedule(Schedule):
    """A program computes a tile of a product, and what follows from it element by element."""

    SOURCES: ClassVar = {
        "_product_settings(": PRODUCT_SETTINGS,
        "=_precision(": PRECISION,
        "=_exact_precision(": EXACT_PRECISION,
        "=_window_precision(": WINDOW_PRECISION,
        "_laid(": LAID,
        "_aligned(": ALIGNED,
        "_nearest_tf32(": NEAREST_TF32,
        "_rounded_once(": ROUNDED_ONCE,
        "_splits(": SPLITS,
        "_described(": DESCRIBED,
        "set_allocator(_descriptors": DESCRIPTORS,
    }

    names: Mapping[str, str] = field(default_factory=dict)  # of tensors
    strides: tuple[tuple[str, str], ...] = ()  # parameters of the kernel, and their values in the launcher
    described: tuple[tuple[str, str], ...] = ()  # operands that may have descriptors, and how far apart their rows lie

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return program.product is not None

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        writer = ProductKernel(program, names, scalars, task)
        kernel = writer.write()
        strides, described = tuple(writer.strides.items()), tuple(writer.described.items())
        return cls(program, task, kernel, host, names=names.tensors, strides=strides, described=described)

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
        chosen, windows = (*TILE, "num_warps", "num_stages"), bool(self.program.domain.windows)
        shares, (outer, _), batch = shares_sum(self.task, self.program), walked(self.program), self._product.axes.batch
        summed = "n_outer * n_inner" if outer else "n_inner"
        counts = ["n_batches"] if batch and (windows or shares) else []
        counts += [f"max(1, {summed} // {LEAST_PART})"] if shares else []  # parts make up for tiles
        given = [
            f"{self.source}.device, n_rows, n_cols, {self.source}.dtype",
            *filter(None, [" * ".join(counts)]),
        ]
        lines = []
        if self.described:
            narrow = [self.names[name] for name in narrow_rows(self.program, self.task)]
            places = [f"{text}.storage_offset(), {stride}" for text, stride in self.described if text not in narrow]
            device = f"{self.source}.device, {self.source}.element_size()"
            lines.append(f"n_described = _described({', '.join([device, *places])})")
            given.append("described=n_described > 0")
        blocks = {"n_left": self._product.left.loads, "n_right": self._product.right.loads}
        counted = {name: sum(load.space == FULL for load in loads) for name, loads in blocks.items()}
        given += [f"{name}={count}" for name, count in counted.items() if count > 1]
        lines.append(f"{', '.join(chosen)} = _product_settings({', '.join(given)})")
        if windows:
            lines.append("BLOCK_K = min(BLOCK_K, max(16, triton.next_power_of_2(n_inner)))")
        lines += self.tuned_lines("n_rows * n_cols", "BLOCK_M", "BLOCK_N") if self.form.tunable else []
        if self.described:
            lines += [f"n_tiles = {self._tiles}", "n_programs = min(n_tiles, n_described or n_tiles)"]
        if shares:
            block = 'tuned["BLOCK_K"]' if self.form.tunable else "BLOCK_K"
            turns = f"{'n_outer * ' if outer else ''}triton.cdiv(n_inner, {block})"
            lines += [
                f"n_tiles = {self._tiles}",
                f"n_splits, split_turns = _splits({self.source}.device, n_tiles, {turns}, {summed})",
                f"split_stride = {'n_batches * ' if batch else ''}n_rows * n_cols",
            ]
        return lines

    def leaves_partials(self, store: Store) -> bool:
        """Whether programs take parts of the sum."""
        return shares_sum(self.task, self.program)

    def partials(self, store: Store) -> str:
        """The product of each part."""
        shape = self.host.shape(str(store.node))
        return f"(n_splits, {shape[1:]}" if shape.startswith("(") else f"(n_splits, *{shape})"

    def total_line(self, store: Store, node: str, dtype: str) -> str:
        """The line that adds the parts up, each as large as the result."""
        return f"{store.name} = _sum_partials({store.buffer}, {dtype})"

    def size_lines(self) -> list[str]:
        """Lines that compute the sizes of the product, and the strides of its operands."""
        axes = self._product.axes
        lines = [f"n_rows = {self.host.product(axes.rows)}", f"n_cols = {self.host.product(axes.cols)}"]
        outer, inner = walked(self.program)
        lines.append(f"n_inner = {self.host.product(inner)}")
        lines += [f"n_outer = {self.host.product(outer)}"] if outer else []
        lines += [f"n_batches = {self.host.product(axes.batch)}"] if axes.batch else []
        return [*lines, *self.stride_lines()]

    def _laid_lines(self) -> list[str]:
        """Lines that lay operands so that what a turn takes a block of lies side by side, and is loaded many at a time.

        The weight of a convolution is small; the tensor that windows are of is read once for each tap, and then from the cache.
        """
        lines, domain = [], self.program.domain
        operands = [*self._product.left.loads, *self._product.right.loads]
        loads = [self.names[str(v.datum)] for v in (*operands, *self.task.values) if v.op == "load"]
        outer, inner = walked(self.program)
        size = domain.sizes[inner[-1]]
        deep = LAYS_WINDOWS and bool(outer) and isinstance(size, int) and size >= LEAST_INNER
        for load in operands if domain.windows else ():
            shape, text = domain.shapes[str(load.datum)], self.names[str(load.datum)]
            places = [place - len(shape) for place, dim in enumerate(shape) if inner[-1] in dim]
            window = domain.windows.get(str(load.datum))
            if window is not None:
                rank = len(window.lead) + len(window.dims)
                places = [place - rank for place, dim in enumerate(window.lead) if inner[-1] in dim]
            if places and places[0] != -1 and (window is None or deep) and loads.count(text) == 1:
                lines.append(f"{text} = {text}.movedim({places[0]}, -1).contiguous().movedim(-1, {places[0]})")
        return lines

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each tile."""
        names = ("BLOCK_K", "GROUP_M", "num_warps", "num_stages")
        own = {name: f'tuned["{name}"]' if self.form.tunable else self.settings[name] for name in names}
        laid = laid_places(self.program, self.task)
        kind = "_window" if self.program.domain.windows else "" if laid is None else "_exact"
        precision = f"{kind}_precision({self.source}.device)"
        constants = {name: own.get(name, name) for name in (*TILE, "GROUP_M")}
        constants |= {"PRECISION": precision, "DESCRIBED": "n_described > 0"}
        grid = "(n_tiles, n_splits)" if shares_sum(self.task, self.program) else f"({self._tiles},)"
        if self.described:
            grid = "(n_programs,)"
        lines = started(self.kernel, grid, constants, own["num_warps"], own["num_stages"])
        rounded = [
            f"{text} = _rounded_once({text}, {precision})"
            for text in (self.names[str(load.datum)] for load in gathered(self.program, self.task))
        ]
        narrow = narrow_rows(self.program, self.task)
        turned = [f"{self.names[name]} = _aligned({self.names[name]})" for name in narrow]
        turned += [
            f"{text} = _laid({text}, {place}, {precision})"
            for text, place in ((self.names[name], place) for name, place in (laid or {}).items())
        ]
        more = []
        if laid or narrow:  # copies have at most 64 elements more a row
            batches = "n_batches * " if self._product.axes.batch else ""
            more = [f"64 * {batches}(n_rows + n_cols + n_inner)"]
        allocator = ["triton.set_allocator(_descriptors)"] if self.described else []
        return [*self._laid_lines(), *turned, *rounded, *allocator, *self._addressed(lines, *more)]

    def _addressed(self, lines: list[str], *more: str) -> list[str]:
        """The lines of a start with the strides of operands, and a number as large as the largest index."""
        tensors = dict.fromkeys(str(v.datum) for v in (*self._product.left.loads, *self._product.right.loads))
        numels = dict.fromkeys(f"{self.names[name]}.numel()" for name in tensors)
        total = f"{'n_batches * ' if self._product.axes.batch else ''}n_rows * n_cols"
        return _filled(lines, dict(self.strides) | {ADDRESSED: addressed([*numels, total, *more])})

    @property
    def _tiles(self) -> str:
        tiles = "triton.cdiv(n_rows, BLOCK_M) * triton.cdiv(n_cols, BLOCK_N)"
        return f"n_batches * {tiles}" if self._product.axes.batch else tiles

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
        if self.described:
            return (
                "1D",
                "a program a multiprocessor, each over many tiles of the product; without descriptors one a tile",
            )
        return "1D", "a tile of the product a program, those of a group of rows one after the other"


def _filled(lines: list[str], values: Mapping[str, str]) -> list[str]:
    """The lines of a start with arguments replaced."""
    return [line.replace(name, values[name]) if (name := line.strip(" ,")) in values else line for line in lines]


LAYS_WINDOWS = True  # whether tensors are laid anew before their windows are taken, where there is enough in a block
LEAST_INNER = 32  # of what is summed over in one block; a size that is not known is taken for larger


def walked(program: ValueProgram) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that are summed over: those of which a turn of the loop has one element each, and those that it takes a block of."""
    assert program.product is not None
    inner, sizes = program.product.axes.inner, program.domain.sizes
    if not program.domain.windows:
        return (), inner
    for start in range(len(inner) - 1, 0, -1):
        count = 1
        for size in (sizes[axis] for axis in inner[start:]):
            count *= size if isinstance(size, int) else LEAST_INNER
        if count >= LEAST_INNER:
            return inner[:start], inner[start:]
    return (), inner


def gathered(program: ValueProgram, task: KernelTask) -> tuple[TileValue, ...]:
    """Operands that are rounded before the kernel starts: windows of which a block has several taps, loaded one by one.

    Measured: H200, 2026-11-29, 3 to 64 channels, 7 x 7, stride 2: 0.30 ms with operands that the loop does not round, 0.92
    with such as it does. A tensor that also meets the result keeps its values.
    """
    assert program.product is not None
    sides = (program.product.left, program.product.right)
    loads = [str(v.datum) for v in (*sides[0].loads, *sides[1].loads, *task.values) if v.op == "load"]
    return tuple(
        side.value
        for side in sides
        if side.value.op == "load"
        and str(side.value.datum) in program.domain.windows
        and not walked(program)[0]
        and loads.count(str(side.value.datum)) == 1
    )


def laid_places(program: ValueProgram, task: KernelTask) -> Mapping[str, int] | None:
    """Operands that a copy lays along what is summed over, by the dimension; None where tensor cores do not multiply float32."""
    assert program.product is not None
    axes, sides = program.product.axes, (program.product.left, program.product.right)
    if program.domain.windows or any(side.value.op != "load" or side.value.space != FULL for side in sides):
        return None
    found = dict[str, int]()
    for name in (str(side.value.datum) for side in sides):
        shape = program.domain.shapes[name]
        places = [place - len(shape) for place, dim in enumerate(shape) if not set(axes.inner).isdisjoint(dim)]
        if places and places[-1] != -1:
            if len(places) > 1 or shape[places[0]] != axes.inner or name not in _copied(program, task):
                return None
            found[name] = places[0]
    return found


def narrow_rows(program: ValueProgram, task: KernelTask) -> list[str]:
    """Operands that a copy gives rows whose beginnings are aligned: in no workload they are as loads of many elements need them.

    Triton knows of multiples of 16 elements, a descriptor takes those of 16 bytes.
    """
    multiple = 8 if described_tensors(program, task) and "float32" not in _dtypes(program) else 16
    shapes = {name: program.domain.shapes[name] for name in _copied(program, task)}
    lasts = {name: _sizes_by_workload(program, shape[-1]) for name, shape in shapes.items() if shape}
    return [name for name, sizes in lasts.items() if all(count % multiple for (count,) in sizes)]


def described_tensors(program: ValueProgram, task: KernelTask) -> bool:
    """Whether both operands are matrices of which descriptors may be made, in halves, and large in all workloads."""
    assert program.product is not None
    axes, sides = program.product.axes, (program.product.left, program.product.right)
    sizes = _sizes_by_workload(program, axes.rows, axes.cols)
    if axes.batch or program.domain.windows or shares_sum(task, program) or _dtypes(program) == {"float32"}:
        return False
    if task.form.strides_the_grid:
        return False
    if not sizes or any(min(counts) < LEAST_DESCRIBED for counts in sizes):
        return False
    for side, own in zip(sides, (axes.rows, axes.cols), strict=True):
        load, name = side.value, str(side.value.datum)
        if load.op != "load" or load.space != FULL or load.integer or load.boolean or program.fixed_dtype(name):
            return False
        flat = tuple(axis for dim in program.domain.shapes[name] for axis in dim)
        if flat not in {(*own, *axes.inner), (*axes.inner, *own)}:
            return False
    return True


def _dtypes(program: ValueProgram) -> set[str]:
    """The dtypes of the workloads."""
    problem = program.problem
    return {dtype for w in problem.workloads for dtype in ([w.dtype] if w.dtype else problem.dtypes)}


def _copied(program: ValueProgram, task: KernelTask) -> tuple[str, ...]:
    """Operands that may be copied: loaded as they are, once, and of ``LEAST_LAID`` rows and columns in all workloads."""
    assert program.product is not None
    axes, sides = program.product.axes, (program.product.left, program.product.right)
    sizes = _sizes_by_workload(program, axes.rows, axes.cols)
    if program.domain.windows or not sizes or any(min(counts) < LEAST_LAID for counts in sizes):
        return ()
    if task.form.strides_the_grid:
        return ()
    loads = [str(v.datum) for v in (*sides[0].loads, *sides[1].loads, *task.values) if v.op == "load"]
    given = [str(side.value.datum) for side in sides if side.value.op == "load" and side.value.space == FULL]
    return tuple(name for name in given if loads.count(name) == 1)


class ProductKernel(KernelWriter):
    """Loads blocks of both operands in turn, adds their products up in float32, and finishes the tile in registers."""

    def __init__(self, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask) -> None:
        super().__init__(program, names, scalars, task)
        assert program.product is not None
        self.product: Product = program.product
        self.strides: dict[str, str] = {}
        self.described: dict[str, str] = {}
        self._describes = described_tensors(program, task)
        self._moved = {*narrow_rows(program, task), *(laid_places(program, task) or {})}
        self._depth = 2 if self._describes or self.form.strides_the_grid else 1
        self._counted, self._descriptors, self._described = self.scope(), self.scope(2), self.scope(4)
        self._used: set[str] = set()
        self._outer, self._inner_axes = walked(program)
        self._shares = shares_sum(task, program)
        self._places = Places(program.domain, self.names, scalars.host)
        depth = self._depth  # indices before the loop, and in it
        self._tiled, self._numbered, self._loop = self.scope(depth), self.scope(depth), self.scope(depth + 1)
        axes, parts = self.product.axes, dict[int, str]()
        before, loop = self._numbered, self._loop
        self._roles = [
            SpacePart("batch", axes.batch, "batch", before),
            SpacePart("outer", self._outer, "outer", loop, True),
        ]
        self._sides = [
            [
                SpacePart("row", axes.rows, "rows", before),
                SpacePart("inner", self._inner_axes, "inner", loop, True, "[None, :]", parts),
            ],
            [
                SpacePart("col", axes.cols, "cols", before),
                SpacePart("inner", self._inner_axes, "inner", loop, True, "[:, None]", parts),
            ],
        ]

    @property
    def read(self) -> tuple[TileValue, ...]:
        """The operands' tensors, then those that meet the result."""
        return (*self.product.left.loads, *self.product.right.loads, *self.loads)

    @property
    def computed(self) -> list[TileValue]:
        """Those of the operands, then those that follow from the product."""
        return [*topological([self.product.left.value, self.product.right.value]), *self.task.values]

    def write(self) -> KernelSource:
        """The kernel as source."""
        depth = self._depth
        head, turn, body = self.scope(depth), self.scope(depth + 1), self.scope(depth)
        blocks = self.scope(depth + 1 + self._describes)
        self._tile(self._tiled)
        texts = [self._operand(head, blocks, is_left=True), self._operand(head, blocks, is_left=False)]
        dot = next(value for value in self.task.values if value.op == "dot")
        total = self.names.of(dot)
        shape = "(BLOCK_N, BLOCK_M)" if self._crossed else "(BLOCK_M, BLOCK_N)"
        head.line(f"{total} = tl.zeros({shape}, dtype=tl.float32)")
        finish = self.scope(depth)
        if self._crossed:
            texts = [f"tl.trans({text})" for text in reversed(texts)]
            finish.line(f"{total} = tl.trans({total})")
        turn.line(f"{total} = {self._dot(texts, total)}")
        body.env[dot] = total
        self._finish(body)
        if self._describes and not _is_bare(self.task):
            self._halve(finish, total, body)
        else:
            finish.lines += body.lines
        self.strides |= self._places.sizes
        lines = [INDEX_LINE, *self.scalar_lines(), *self._tile_loop(), *self._tiled.lines, *self._numbered.lines]
        lines += [*head.lines, *self._turns(), *self._loop.lines, *blocks.lines, *turn.lines, "", *finish.lines]
        partial = (size for load in self.loads for size in row_index(self.program, self.names, load)[1])
        outer = ["n_outer"] if self._outer else []
        outer += ["split_turns", "split_stride"] if self._shares else []
        sizes = ("n_rows", "n_cols", "n_inner", *outer, *self.strides, *dict.fromkeys(partial), *self._grid_sizes)
        return self.finish(lines, (*sizes, ADDRESSED), self._constants)

    @property
    def _constants(self) -> tuple[str, ...]:
        return (*TILE, "GROUP_M", "PRECISION", *(["DESCRIBED"] if self._describes else []))

    @property
    def _grid_sizes(self) -> tuple[str, ...]:
        """What the kernel is told of its grid."""
        return ()

    def _dot(self, texts: list[str], total: str) -> str:
        before = [side.value in gathered(self.program, self.task) for side in (self.product.left, self.product.right)]
        before = before[::-1] if self._crossed else before
        both = ", ".join(text if done else nearest(text) for text, done in zip(texts, before, strict=True))
        return f"tl.dot({both}, {total}, input_precision=PRECISION)"

    def _halve(self, finish: ScopeStatements, total: str, body: ScopeStatements) -> None:
        """The two halves of a tile one after the other, each with what follows from it."""
        finish.line("# In halves: blocks of the next tile are on their way, and leave few registers.")
        parts = f"tl.permute(tl.reshape({total}, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1))"
        finish.line(f"{total}, half = tl.split({parts})")
        finish.line("cols = (col_tile * BLOCK_N + tl.arange(0, BLOCK_N // 2)).to(INDEX)[None, :]")
        finish.line("col_mask = cols < n_cols")
        finish.lines += body.lines
        finish.line(f"{total} = half")
        finish.line("cols += BLOCK_N // 2")
        finish.line("col_mask = cols < n_cols")
        finish.lines += body.lines

    def _tile_loop(self) -> list[str]:
        """The loop over tiles, and before it the descriptors that its loads go by."""
        if not self._describes:
            return []
        loop = self.scope()
        loop.line("if DESCRIBED:")
        loop.lines += self._descriptors.lines
        tiles = "tl.range(tl.program_id(0), n_row_tiles * n_col_tiles, tl.num_programs(0), flatten=DESCRIBED)"
        loop.line(f"for tile in {tiles}:")
        return [*self._counted.lines, *loop.lines]

    def _turns(self) -> list[str]:
        """The loop over blocks of what is summed over, up to the index of what is loaded."""
        loop, first = self.scope(self._depth), "start"
        if self._shares:
            loop.line("first = tl.program_id(1) * split_turns")
        if self._outer:
            loop.line("n_blocks = tl.cdiv(n_inner, BLOCK_K)")
            turns = "first, min(first + split_turns, n_outer * n_blocks)" if self._shares else "0, n_outer * n_blocks"
            loop.line(f"for turn in range({turns}):")
            loop.line("    outer = turn // n_blocks")
            first = "(turn % n_blocks) * BLOCK_K"
        else:
            own = "first * BLOCK_K, min((first + split_turns) * BLOCK_K, n_inner)" if self._shares else "0, n_inner"
            loop.line(f"for start in range({own}, BLOCK_K):")
        if self._describes:
            loop.lines += [f"{INDENT * 3}if DESCRIBED:", *self._described.lines, f"{INDENT * 3}else:"]
        loop.lines += [
            f"{INDENT * (self._depth + 1 + self._describes)}{line}"
            for line in (f"inner = ({first} + tl.arange(0, BLOCK_K)).to(INDEX)", "inner_mask = inner < n_inner")
        ]
        return loop.lines

    @property
    def _crossed(self) -> bool:
        """Whether the transposed product is computed: where operands lie along rows and along what is summed over.

        float32 is multiplied without tensor cores, which read a right operand along its columns: 2.1 times cuBLAS's time otherwise.
        """
        if laid_places(self.program, self.task) is not None:
            return False
        axes, sides = self.product.axes, (self.product.left, self.product.right)
        loads = [next((v for v in side.loads if v.space == FULL), None) for side in sides]
        if self.program.domain.windows or None in loads:
            return False
        shapes = [side.domain.shapes[str(v.datum)] for side, v in zip(sides, loads, strict=True) if v is not None]
        left, right = ([axis for dim in shape for axis in dim][-1:] for shape in shapes)
        return left == list(axes.rows[-1:]) and right == list(axes.inner[-1:])

    def _tile(self, head: ScopeStatements) -> None:
        counted = self._counted if self._describes else head
        counted.line("n_row_tiles = tl.cdiv(n_rows, BLOCK_M)")
        counted.line("n_col_tiles = tl.cdiv(n_cols, BLOCK_N)")
        if self.product.axes.batch:
            head.line("batch = (tl.program_id(0) // (n_row_tiles * n_col_tiles)).to(INDEX)")
            head.line("tile = tl.program_id(0) % (n_row_tiles * n_col_tiles)")
        elif not self._describes:
            head.line("tile = tl.program_id(0)")
        head.line("# Tiles of a group of rows run together, so that they find the right operand in the L2 cache.")
        place = "tile // n_col_tiles, tile % n_col_tiles, n_row_tiles, n_col_tiles, GROUP_M"
        head.line(f"row_tile, col_tile = tl.swizzle2d({place})")
        head.line("rows = (row_tile * BLOCK_M + tl.arange(0, BLOCK_M)).to(INDEX)[:, None]")
        head.line("cols = (col_tile * BLOCK_N + tl.arange(0, BLOCK_N)).to(INDEX)[None, :]")
        head.line("row_mask = rows < n_rows")
        head.line("col_mask = cols < n_cols")

    def _operand(self, head: ScopeStatements, turn: ScopeStatements, *, is_left: bool) -> str:
        """Load an operand's block in every turn, and what does not change before the loop; returns its text."""
        operand = self.product.left if is_left else self.product.right
        shared = worth_naming(use_counts([operand.value]))
        scope = ScopeStatements(self.names, self.scalars.written, shared, turn.depth)
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

    def _computed(self, scope: ScopeStatements, operand: Operand, is_left: bool) -> str:
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

    def _load_operand(
        self, head: ScopeStatements, turn: ScopeStatements, load: TileValue, operand: Operand, is_left: bool
    ) -> None:
        axes, tensor = self.product.axes, self.tensor(load)
        name = tensor if tensor not in self._used else self.names.free(tensor)
        self._used.add(tensor)
        outer, index, mask = ("row", "rows", "row_mask") if is_left else ("col", "cols", "col_mask")
        if self.program.domain.windows:
            place, masks, scope = self._placed(head, turn, load, name, is_left)
            self._load(scope, turn, load, operand, name, place, masks)
            return
        own = axes.rows if is_left else axes.cols
        strides = [
            self._stride(load, operand, axes.batch, "batch"),
            self._stride(load, operand, own, outer),
            self._stride(load, operand, axes.inner, "inner"),
        ]
        batch, fixed, inner = (
            stride and f"{at} * {stride}"
            for at, stride in zip(("batch", index, self._inner("inner", is_left)), strides, strict=True)
        )
        if self._describes:
            self._describe(load, name, strides[1:], is_left=is_left)
        place = " + ".join([f"{tensor}_ptr", *filter(None, [batch, fixed])])
        masks = [mask] if fixed else []
        scope = turn if inner else head
        if inner:
            masks.append(self._inner("inner_mask", is_left))
            pointer = self.names.free(f"{name}_{index}")
            head.line(f"{pointer} = {place}")
            place = f"{pointer} + {inner}"
        self._load(scope, turn, load, operand, name, place, masks)

    def _placed(
        self, head: ScopeStatements, turn: ScopeStatements, load: TileValue, name: str, is_left: bool
    ) -> tuple[str, list[str], ScopeStatements]:
        """Where a block of an operand lies, its masks, and the scope in which it is loaded."""
        own, inner = self._sides[not is_left]
        terms = self._places.terms(str(load.datum), self.tensor(load), [*self._roles, own, inner], self._loop)
        place = " + ".join([f"{self.tensor(load)}_ptr", *terms.before])
        masks = [f"{own.name}_mask"] if own in terms.roles else []
        masks += [f"inner_mask{inner.expand}"] if inner in terms.roles else []
        if not any(role.turn for role in terms.roles):
            return place, [*masks, *terms.masks], head
        pointer = self.names.free(f"{name}_{own.index}")
        head.line(f"{pointer} = {place}")
        return " + ".join([pointer, *terms.turn]), [*masks, *terms.masks], turn

    def _load(
        self,
        scope: ScopeStatements,
        turn: ScopeStatements,
        load: TileValue,
        operand: Operand,
        name: str,
        place: str,
        masks: list[str],
    ) -> None:
        other = f", mask={' & '.join(masks)}, other={self.fill(load)}" if masks else ""
        text = f"tl.load({place}{other})"
        scope.line(f"{name} = {text if load is operand.value else self.converted(text, load)}")
        turn.env[load] = name

    def _describe(self, load: TileValue, name: str, strides: list[str | None], *, is_left: bool) -> None:
        """A descriptor of an operand, and the load of a block by it."""
        axes, tensor = self.product.axes, self.tensor(load)
        count, tile, block = ("n_rows", "row_tile", "BLOCK_M") if is_left else ("n_cols", "col_tile", "BLOCK_N")
        counts, at, blocks = [count, "n_inner"], [f"{tile} * {block}", "start"], [block, "BLOCK_K"]
        first = next(axis for dim in self.program.domain.shapes[str(load.datum)] for axis in dim)
        across = first in axes.inner
        if across:
            counts, at, blocks = counts[::-1], at[::-1], blocks[::-1]
        stride = str(strides[across])
        self.described[tensor] = self.strides[stride]
        made = self.names.free(f"{name}_blocks")
        form = ", ".join(f"[{', '.join(part)}]" for part in (counts, [stride, "1"], blocks))
        self._descriptors.line(f"{made} = tl.make_tensor_descriptor({tensor}_ptr, {form})")
        text = f"{made}.load([{', '.join(at)}])"
        self._described.line(f"{name} = {text if across is not is_left else f'tl.trans({text})'}")

    def _stride(self, load: TileValue, operand: Operand, axes: tuple[int, ...], role: str) -> str | None:
        """The parameter by which an index finds a tensor's elements, None where the tensor does not vary over it."""
        shape = operand.domain.shapes[str(load.datum)]
        flat = [(axis, place) for place, dim in enumerate(shape) for axis in dim]
        own = [place for axis, place in flat if axis in axes]
        if not own:
            return None
        first = [axis in axes for axis, _ in flat].index(True)
        if tuple(axis for axis, _ in flat[first : first + len(own)]) != axes:
            raise CannotCompileError(
                f"`matmul` takes `{self.tensor(load)}`, whose {role} dimensions do not lie side by side", "matmul"
            )
        stride = f"{self.tensor(load)}_stride_{role}"
        value = f"{self.tensor(load)}.stride({own[-1] - len(shape)})"
        copied = str(load.datum) in self._moved
        if own[0] != own[-1] and not copied:  # the last of them may be of size one, whose stride may be anything
            value = (
                " * ".join(f"{self.tensor(load)}.shape[{place}]" for place in range(own[-1] + 1 - len(shape), 0)) or "1"
            )
        after = shape[own[-1]][shape[own[-1]].index(axes[-1]) + 1 :]
        if after:  # the dimension was merged of these and more
            value = f"{self.scalars.host.product(after)} * {value}"
        if self.strides.get(stride, value) != value:
            stride = self.names.free(stride)
        self.strides[stride] = value
        return stride

    def _finish(self, body: ScopeStatements) -> None:
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
        if self._shares:
            body.line("offsets += tl.program_id(1).to(tl.int64) * split_stride")
        for load in self.loads:
            self._load_epilogue(body, load)
        stored = [(s, body.env.get(s.value) or body.assign(s.value, s.name)) for s in self.task.stores]
        for store, text in stored:
            body.line(f"tl.store({store.buffer}_ptr + offsets, {text}, mask=mask)")

    def _load_epilogue(self, body: ScopeStatements, load: TileValue) -> None:
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


def shares_sum(task: KernelTask, program: ValueProgram) -> bool:
    """Whether programs share the sum of an element, of a bare product: over all places of windows, or long by a workload.

    A workload has to leave it too few tiles for all multiprocessors.
    """
    if program.product is None or not _is_bare(task) or task.form.strides_the_grid:
        return False
    axes, domain = program.product.axes, program.domain
    places = {axis for window in domain.windows.values() for dim in window.dims for axis in dim.place}
    if not places.isdisjoint(axes.inner):
        return True

    return any(
        batch * math.ceil(rows / 64) * math.ceil(cols / 64) < FEW_TILES and inner >= LONG_SUM
        for batch, rows, cols, inner in _sizes_by_workload(program, axes.batch, axes.rows, axes.cols, axes.inner)
    )


def _is_bare(task: KernelTask) -> bool:
    """Whether nothing follows from the product."""
    return [store.value.op for store in task.stores] == ["dot"]


def _sizes_by_workload(program: ValueProgram, *groups: tuple[int, ...]) -> list[tuple[int, ...]]:
    """How many elements groups of axes have, in each workload of which all sizes are known."""

    def count(own: tuple[int, ...], given: dict[str, int]) -> int:
        sizes = (program.domain.sizes[axis] for axis in own)
        return math.prod(int(evaluate(size, given)) if isinstance(size, Expr) else size for size in sizes)

    found = []
    for workload in program.problem.workloads:
        given = numbers_of(program.problem, workload)
        with suppress(CannotCompileError):
            found.append(tuple(count(own, given) for own in groups))
    return found


def product_formula(program: ValueProgram, names: TensorNames) -> dict[str, str]:
    """The formula of the program's product, by its node."""
    if program.product is None:
        return {}
    axes = program.product.axes
    sides = ((program.product.left, axes.inner), (program.product.right, axes.cols))
    return {axes.node: " @ ".join(_operand_formula(operand, last, names) for operand, last in sides)}


def _operand_formula(operand: Operand, last: tuple[int, ...], names: TensorNames) -> str:
    load = next((v for v in topological([operand.value]) if v.op == "load" and v.space == FULL), None)
    if load is not None and load.datum in operand.domain.windows:
        return f"windows({names.tensors[str(load.datum)]})"
    if load is None or operand.value is not load:
        return f"f({', '.join(dict.fromkeys(names.tensors[str(v.datum)] for v in operand.loads))})"
    shape = [dim for dim in operand.domain.shapes[str(load.datum)] if dim]
    text = names.tensors[str(load.datum)]
    return text if not shape or shape[-1] == last[-len(shape[-1]) :] else f"{text}.T"
