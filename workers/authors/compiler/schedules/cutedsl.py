"""Schedules for CuTe DSL: a value is the elements that a thread has of a row, or of all elements where there are no rows. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.languages import CUTE
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import KernelWriter, Knobs, Schedule
from workers.authors.compiler.schedules.cutile import CutileRefused, is_input, without_unused
from workers.authors.compiler.schedules.flat import Flat, FlatKernel
from workers.authors.compiler.schedules.tile import (
    WIDEST_ALONE,
    WIDEST_TOGETHER,
    WIDEST_WITH_SUMS,
    Tile,
    TileKernel,
)
from workers.authors.compiler.statements import INDENT, ScopeStatements
from workers.authors.compiler.values import TileValue

SHAPE = "((VECTOR, 1), VECTORS)"
SHAPED = """    VECTOR, VECTORS, THREADS, _ = SHAPE"""
INSIDE = f'''@cute.jit
def _inside(first, n, SHAPE: cutlass.Constexpr):
    """Whether a thread has each of its vectors: elements that lie next to each other, and are there all or none."""
{SHAPED}
    inside = cute.make_rmem_tensor((1, VECTORS), cutlass.Boolean)
    for i in cutlass.range_constexpr(VECTORS):
        inside[0, i] = first + i * (THREADS * VECTOR) < n
    return inside'''
COLUMNS = f'''@cute.jit
def _columns(first, SHAPE: cutlass.Constexpr):
    """The column of each of a thread's elements."""
{SHAPED}
    columns = cute.make_rmem_tensor({SHAPE}, cutlass.Int32)
    for i in cutlass.range_constexpr(VECTOR * VECTORS):
        columns[i] = first + i // VECTOR * (THREADS * VECTOR) + i % VECTOR
    return columns.load()'''
VECTORS_OF = f'''@cute.jit
def _vectors(tensor, offset, SHAPE: cutlass.Constexpr):
    """A thread's vectors in memory from an offset on, and how one is copied: by one access."""
{SHAPED}
    dtype = tensor.element_type
    access = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=VECTOR * dtype.width)
    layout = cute.make_layout({SHAPE}, stride=((1, 0), THREADS * VECTOR))
    return cute.make_tensor(tensor.iterator + cute.assume(offset, divby=VECTOR), layout), access'''
LOAD = f'''@cute.jit
def _load(tensor, offset, inside, other, SHAPE: cutlass.Constexpr):
    """A thread's elements of a tensor from an offset on, and ``other`` where there is none."""
{SHAPED}
    place, access = _vectors(tensor, offset, SHAPE)
    values = cute.make_rmem_tensor({SHAPE}, tensor.element_type)
    values.fill(other)
    cute.copy(access, place, values, pred=inside)
    return values.load()'''
STORE = f'''@cute.jit
def _store(tensor, offset, inside, value, SHAPE: cutlass.Constexpr):
    """Store a thread's elements in a tensor's dtype from an offset on."""
{SHAPED}
    place, access = _vectors(tensor, offset, SHAPE)
    values = cute.make_rmem_tensor({SHAPE}, tensor.element_type)
    values.store(value.to(tensor.element_type))
    cute.copy(access, values, place, pred=inside)'''
LOAD_ONE = f'''@cute.jit
def _load_one(tensor, offset, SHAPE: cutlass.Constexpr):
    """One element of a tensor, beside each of a thread's elements."""
{SHAPED}
    return cute.full({SHAPE}, tensor[offset], tensor.element_type)'''
STORE_ONE = '''@cute.jit
def _store_one(tensor, offset, value):
    """Store what is the same in all elements of all threads, as one element."""
    tensor[offset] = value[0].to(tensor.element_type)'''
EVERYWHERE = f'''@cute.jit
def _everywhere(number, dtype: cutlass.Constexpr, SHAPE: cutlass.Constexpr):
    """A number beside each of a thread's elements."""
{SHAPED}
    return cute.full({SHAPE}, number, dtype)'''
SLOTS = '''@cute.jit
def _slots(SHAPE: cutlass.Constexpr):
    """Shared memory for a number of each warp."""
    n_warps = SHAPE[2] // 32
    return cute.make_tensor(cute.arch.alloc_smem(cutlass.Float32, n_warps), cute.make_layout(n_warps))'''
OF_WARPS = '''@cute.jit
def _of_warps(number, slots):
    """The number of each warp, in every thread."""
    cute.arch.sync_threads()  # nobody reads the last ones any more
    slots[cute.arch.warp_idx()] = number
    cute.arch.sync_threads()
    return slots.load()'''


def _reduction(name: str, initial: str, pair: str) -> str:
    kind = {"sum": "ADD", "max": "MAX", "min": "MIN"}[name]
    return f'''@cute.jit
def _pair_{name}(x, y):
    return {pair}


@cute.jit
def _row_{name}(value, slots, SHAPE: cutlass.Constexpr):
    """The {name} of a row, beside each of its elements."""
{SHAPED}
    own = value.reduce(cute.ReductionOp.{kind}, {initial}, 0)
    own = cute.arch.warp_reduction(own, _pair_{name})
    total = _of_warps(own, slots).reduce(cute.ReductionOp.{kind}, {initial}, 0)
    return cute.full({SHAPE}, total, cutlass.Float32)'''


WHERE = '''@cute.jit
def _where(condition, x, y):
    """One of two, by element; either may be a number."""
    ones = cute.full_like(condition, 1.0, cutlass.Float32)
    return cute.where(condition, ones * x, ones * y)'''
MAXIMUM = '''@cute.jit
def _maximum(x, y):
    """The larger of two, and NaN where one is."""
    return _where(x >= y, x, _where(y >= x, y, x + y))'''
MINIMUM = '''@cute.jit
def _minimum(x, y):
    """The smaller of two, and NaN where one is."""
    return _where(x <= y, x, _where(y <= x, y, x + y))'''
NOT = """@cute.jit
def _not(condition):
    return _where(condition, 0.0, 1.0) > 0.5"""
ELEMENT = '''def _element(dtype):
    """CuTe DSL's name of a dtype."""
    return {torch.float32: cutlass.Float32, torch.bfloat16: cutlass.BFloat16, torch.float16: cutlass.Float16}[dtype]'''
COMPILED = '''@functools.cache
def _compiled(launch, tensors, numbers, SHAPE):
    """The launcher compiled for contiguous tensors, by their elements and bytes of an access, and for numbers of some types."""
    return cute.compile(
        launch,
        *(
            cute.runtime.make_fake_compact_tensor(element, (cute.sym_int64(),), assumed_align=align)
            for element, align in tensors
        ),
        *(number(1) for number in numbers),
        SHAPE,
        cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )'''
WIDEST = '''def _widest(*tensors):
    """The elements of an access of 16 bytes."""
    return 16 // max(tensor.element_size() for tensor in tensors)'''
VECTOR = '''def _vector(most, n, *tensors):
    """The elements of an access: as many where rows and tensors begin at multiples of them, else one."""
    return most if all(count % most == 0 for count in (n, *(t.storage_offset() for t in tensors))) else 1'''
FLAT_SHAPE = '''def _flat_shape(vector, elements, threads):
    """The vectors of a thread that has so many elements, threads, and the elements of a block."""
    return vector, elements // vector, threads, elements * threads'''
ROW_SHAPE = '''def _row_shape(n_cols, vector, elements):
    """The vectors of a thread, threads for a row, of so many elements each or more, and the elements of the block."""
    width = max(32 * vector, 1 << max(n_cols - 1, 0).bit_length())
    threads = min(1024, max(32, width // elements))
    return vector, width // (threads * vector), threads, width'''
WIDEST_BLOCK = 4096  # columns
BLOCK_SHAPE = f'''def _block_shape(n_cols, vector, elements):
    """The vectors of a thread, threads for a block of columns, of so many elements each, and the elements of the block."""
    width = max(32 * vector, 1 << max(min(n_cols, {WIDEST_BLOCK}) - 1, 0).bit_length())
    threads = max(32, width // elements)
    return vector, width // (threads * vector), threads, width'''
NUM_BLOCKS = '''def _num_blocks(device, n_rows, programs):
    """So many blocks a multiprocessor, each with its own partial sums."""
    if device.type == "cuda":
        return min(n_rows, programs * torch.cuda.get_device_properties(device).multi_processor_count)
    return min(n_rows, 8)'''
BLOCK = "SHAPE[3]"  # the elements of a block
# Settings: the elements of a thread, at least those of an access; threads; blocks of a multiprocessor.
THREAD_ELEMENTS, THREADS, PROGRAMS = "THREAD_ELEMENTS", "THREADS", "PROGRAMS"
VALUES = {THREAD_ELEMENTS: (8, 16, 32, 64), THREADS: (64, 128, 256, 512, 1024), PROGRAMS: (1, 2, 4)}
MOST_THREADS = 1024  # of a block
# Functions that turn settings, their last arguments, into threads and blocks.
CHOOSING = {
    "_flat_shape": (FLAT_SHAPE, (THREAD_ELEMENTS, THREADS)),
    "_row_shape": (ROW_SHAPE, (THREAD_ELEMENTS,)),
    "_block_shape": (BLOCK_SHAPE, (THREAD_ELEMENTS,)),
    "_num_blocks": (NUM_BLOCKS, (PROGRAMS,)),
}

DERIVED = re.compile(r" *(cols|rows|col_mask|inside|slots|offset|first) = ")  # left out where nothing reads them
ELEMENTS = {"float32": "Float32", "bfloat16": "BFloat16", "float16": "Float16", "int64": "Int64", "int32": "Int32"}
SUMS_OF_AN_ACCESS = 4  # sums over rows are float32
FITTING = {FULL: "offset", COL: "first"}


class CuteRefused(CutileRefused):
    """What has no schedule in this language yet."""

    TARGET = "CuTe DSL"

    @classmethod
    def lacking(cls, task: KernelTask, program: ValueProgram) -> tuple[str, str] | None:
        """What cuTile's schedules lack, places of elements, and tensors of dtypes that no launcher is compiled for."""
        loaded = [str(value.datum) for value in task.values if value.op == "load" and is_input(value, program)]
        nodes = [*loaded, *(store.node for store in task.stores if store.node is not None)]
        other = [dtype for node in nodes if (dtype := program.fixed_dtype(node)) not in {None, *ELEMENTS}]
        if other:
            return f"tensors of `{other[0]}`", str(other[0])
        known, domain = super().lacking(task, program), program.domain
        if known is None and any(
            domain.rows_of(name) != domain.row_axes for name in loaded if domain.space_of(name).rows
        ):
            return "tensors that have some of the rows", "expand"
        picked = [str(value.datum) for value in task.values if value.op == "pick"]
        return ("look-ups", picked[0]) if known is None and picked else known


class CuteKernel(KernelWriter):
    """What kernels of this language have in common."""

    language = CUTE

    def loaded(self, load: TileValue, place: str) -> str:
        """A thread's elements of a tensor; ``fill`` says what a vector beyond the last column holds."""
        return f"_load({self.tensor(load)}_tensor, {place}, inside, {self.fill(load)}, SHAPE)"

    def stored(self, store: Store, text: str, place: str) -> str:
        """The statement that stores a thread's elements in the tensor's dtype."""
        return f"_store({store.buffer}_tensor, {place}, inside, {text}, SHAPE)"

    def finish(self, body: list[str], sizes: tuple[str, ...], constants: tuple[str, ...]) -> KernelSource:
        """The kernel, and the function by which host code launches it."""
        kept = without_unused(body, DERIVED)
        used = set(re.findall(r"\w+", "\n".join(kept)))
        source = super().finish(kept, tuple(size for size in sizes if size in used), ("SHAPE",))
        return replace(source, source=f"{source.source}\n\n\n{_launcher(source)}")


def _launcher(kernel: KernelSource) -> str:
    tensors = [f"{name}_tensor" for name in kernel.tensors]
    numbers = [number.name for number in kernel.numbers]
    own = [*(f"{tensor}: cute.Tensor" for tensor in tensors), *(f"{number}: cutlass.Float32" for number in numbers)]
    own += [f"{size}: {_kind(size)}" for size in (*kernel.sizes, "n_programs", "n_blocks")]
    own += ["SHAPE: cutlass.Constexpr", "stream"]
    passed = ", ".join([*tensors, *numbers, *kernel.sizes, "SHAPE"])
    lines = ["@cute.jit", f"def {_launch(kernel)}(", *(f"{INDENT}{parameter}," for parameter in own), "):"]
    lines.append(f"{INDENT}kernel = {kernel.name}({passed})")
    lines.append(f"{INDENT}kernel.launch(grid=(n_programs, n_blocks, 1), block=(SHAPE[2], 1, 1), stream=stream)")
    return "\n".join(lines)


def _launch(kernel: KernelSource) -> str:
    return kernel.name.replace("_kernel", "_launch")


def _kind(size: str) -> str:
    return "cutlass.Int64" if size == "n_elements" else "cutlass.Int32"


@dataclass(frozen=True)
class CuteSchedule(Schedule):
    """What launchers of this language have in common."""

    SOURCES: ClassVar = {
        "_inside(": INSIDE,
        "_columns(": COLUMNS,
        "_vectors(": VECTORS_OF,
        "_load(": LOAD,
        "_store(": STORE,
        "_load_one(": LOAD_ONE,
        "_store_one(": STORE_ONE,
        "_everywhere(": EVERYWHERE,
        "_slots(": SLOTS,
        "_of_warps(": OF_WARPS,
        "_row_sum(": _reduction("sum", "0.0", "x + y"),
        "_row_max(": _reduction("max", "-cutlass.Float32.inf", "cute.arch.fmax(x, y, nan=True)"),
        "_row_min(": _reduction("min", "cutlass.Float32.inf", "cute.arch.fmin(x, y, nan=True)"),
        "_where(": WHERE,
        "_maximum(": MAXIMUM,
        "_minimum(": MINIMUM,
        "_not(": NOT,
        "_element(": ELEMENT,
        "_compiled(": COMPILED,
        "_widest(": WIDEST,
        "_vector(": VECTOR,
        "_flat_shape(": FLAT_SHAPE,
        "_row_shape(": ROW_SHAPE,
        "_block_shape(": BLOCK_SHAPE,
        "_num_blocks(": NUM_BLOCKS,
    }

    def chosen(self, name: str) -> str:
        """A setting as source: looked up, or the rule's own."""
        return f'tuned["{name}"]' if self.form.tuned_tiles else self.settings[name]

    def looked_up(self, size: str) -> list[str]:
        """The line that looks the settings up by a size, where they are tuned."""
        return self.tuned_lines(size) if self.form.tuned_tiles else []

    def knobs(self, cols: list[int]) -> Knobs:
        """Settings that change no statement; a row's threads are as many as a block may have at most."""
        least = min(cols, default=0) / MOST_THREADS if self.task.reduces_cols else 0
        return [
            (name, tuple(n for n in VALUES[name] if name != THREAD_ELEMENTS or n >= least)) for name in self.settings
        ]

    def vector(self, size: str) -> str:
        """The call that chooses the elements of an access: every tensor of vectors has to allow it."""
        names = ", ".join(self.vectored)
        has_sums = any(store.summed and store.space == COL for store in self.task.pieces)
        return f"_vector({SUMS_OF_AN_ACCESS if has_sums else f'_widest({names})'}, {size}, {names})"

    def started(self, size: str, grid: tuple[str, str]) -> list[str]:
        """Lines that start the kernel, unless there is nothing to do."""
        kernel = self.kernel
        vectors = {*self.vectored, *(store.buffer for store in self.task.pieces if store.space in FITTING)}
        tensors = [self.stand(name, "SHAPE[0] * " if name in vectors else "") for name in kernel.tensors]
        numbers = ["cutlass.Float32"] * len(kernel.numbers)
        numbers += [_kind(name) for name in (*kernel.sizes, "n_programs", "n_blocks")]
        arguments = [*(f"{name}.view(-1)" for name in kernel.tensors), *(number.text for number in kernel.numbers)]
        lines = [
            "launch = _compiled(",
            f"{INDENT}{_launch(kernel)},",
            f"{INDENT}(",
            *(f"{INDENT * 2}{tensor}," for tensor in tensors),
            f"{INDENT}),",
            f"{INDENT}({', '.join(numbers)}),",
            f"{INDENT}SHAPE,",
            ")",
            f"launch({', '.join([*arguments, *kernel.sizes, *grid])})",
        ]
        return [f"if {size}:", *(INDENT + line for line in lines)]

    def stand(self, name: str, elements: str) -> str:
        """The element of a tensor and the bytes of an access to it, as source."""
        nodes = dict(self.host.tensors)
        dtype = self.program.fixed_dtype(nodes[name]) if name in nodes else None
        if name not in nodes:
            store = next((store for store in self.task.stores if store.buffer == name), None)
            own = store.node if store is not None and not store.summed else None
            integer = any(v.integer for v in self.kernel.values if v.op == "load" and v.datum not in nodes.values())
            dtype = self.program.fixed_dtype(own) if own is not None else "int64" if integer else "float32"
        element = f"_element({name}.dtype)" if dtype is None else f"cutlass.{ELEMENTS[dtype]}"
        return f"({element}, {elements}{name}.element_size())"

    @property
    def vectored(self) -> list[str]:
        """The tensors that the kernel loads in vectors."""
        names = {node: text for text, node in self.host.tensors}
        loads = [value for value in self.kernel.values if value.op == "load" and value.space in FITTING]
        return list(dict.fromkeys(names[self.program.domain.base(str(load.datum))] for load in loads))


class CuteFlatKernel(CuteKernel, FlatKernel):
    def _loaded(self, load: TileValue) -> str:
        if load.space == SCALAR:
            return f"_load_one({self.tensor(load)}_tensor, 0, SHAPE)"
        return self.loaded(load, "first")

    def _stored(self, store: Store, text: str) -> str:
        return self.stored(store, text, "first")

    def _place(self) -> list[str]:
        block = f"cutlass.Int64(cute.arch.block_idx()[0]) * {BLOCK}"
        return [
            f"{INDENT}first = {block} + cute.arch.thread_idx()[0] * SHAPE[0]",
            f"{INDENT}inside = _inside(first, n_elements, SHAPE)",
        ]


@dataclass(frozen=True)
class CuteFlat(CuteSchedule, Flat):
    """Element-wise: a block takes so many vectors of each of its threads."""

    LAUNCH_SIZES: ClassVar = frozenset({"n_elements"})

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        return cls(program, task, CuteFlatKernel(program, names, scalars, task).write(), host)

    @property
    def settings(self) -> dict[str, str]:
        """The elements of a thread, and threads."""
        return {THREAD_ELEMENTS: "8", THREADS: "256"}

    def setting_lines(self) -> list[str]:
        """Lines that choose the vectors."""
        chosen = f"{self.chosen(THREAD_ELEMENTS)}, {self.chosen(THREADS)}"
        return [
            *self.looked_up("n_elements"),
            f"SHAPE = _flat_shape({self.vector('n_elements')}, {chosen})",
            f"n_programs = -(-n_elements // {BLOCK})",
        ]

    def launch_lines(self) -> list[str]:
        """Lines that start a block for so many elements."""
        return self.started("n_elements", ("n_programs", "1"))


class CuteTileKernel(CuteKernel, TileKernel):
    _staged = False
    _fits = True, False  # a block has one row, and a row ends where it ends

    def _columns(self, head: ScopeStatements) -> None:
        head.line(f"{'program' if self._loops else 'row'} = cute.arch.block_idx()[0]")
        block = f"cute.arch.block_idx()[1] * {BLOCK} + " if self._blocks else ""
        head.line(f"first = {block}cute.arch.thread_idx()[0] * SHAPE[0]")
        head.line("inside = _inside(first, n_cols, SHAPE)")
        head.line("cols = _columns(first, SHAPE)")
        head.line("col_mask = cols < n_cols")
        head.line("slots = _slots(SHAPE)")

    def _rows(self, body: ScopeStatements) -> None:
        body.line("offset = cutlass.Int64(row) * n_cols + first")
        body.line("rows = _everywhere(row, cutlass.Int32, SHAPE)")

    def _load(self, scope: ScopeStatements, load: TileValue) -> None:
        name = scope.env[load] = self.tensor(load)
        if load.space in FITTING:
            text = self.loaded(load, FITTING[load.space])
        else:
            text = f"_load_one({name}_tensor, {'row' if load.space == ROW else '0'}, SHAPE)"
        scope.line(f"{name} = {self.converted(text, load)}")

    def _stored(self, store: Store, text: str) -> str:
        if store.space in FITTING:
            return self.stored(store, text, FITTING[store.space])
        return f"_store_one({store.buffer}_tensor, {'row' if store.space == ROW else '0'}, {text})"

    def _reduction(self, name: str, kind: str, inner: str, loses_nan: bool) -> list[str]:
        return [f"{name} = _row_{kind}({inner}, slots, SHAPE)"]

    def _accumulators(self) -> list[str]:
        stores = [store for store in self.task.pieces if store.summed]
        return [f"{INDENT}{store.name} = _everywhere(0.0, cutlass.Float32, SHAPE)" for store in stores]

    def _loop(self) -> list[str]:
        return ["", f"{INDENT}for row in range(program, n_rows, cute.arch.grid_dim()[0]):"]

    def _partials(self) -> list[str]:
        lines = [""] if self.task.sums_rows else []
        for store in self.task.pieces:
            if store.summed and store.space == COL:
                lines.append(INDENT + self.stored(store, store.name, "cutlass.Int64(program) * n_cols + first"))
            elif store.summed:
                total = f"_row_sum({store.name}, slots, SHAPE)" if store.value.space.cols else store.name
                place = "program * cute.arch.grid_dim()[1] + cute.arch.block_idx()[1]" if self._blocks else "program"
                lines.append(f"{INDENT}_store_one({store.buffer}_tensor, {place}, {total})")
        return lines


@dataclass(frozen=True)
class CuteTile(CuteSchedule, Tile):
    """Rows: a block takes a whole row, or a part of one; with sums over rows, many in turn."""

    LAUNCH_SIZES: ClassVar = frozenset({"n_rows", "n_cols"})

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """The kernel; rows that no block holds are an error of the launcher."""
        kernel = CuteTileKernel(program, names, scalars, task).write()
        full = sum(value.op == "load" and value.space == FULL for value in task.values)
        widest = WIDEST_WITH_SUMS if task.is_persistent else WIDEST_TOGETHER if full > 1 else WIDEST_ALONE
        return cls(program, task, kernel, host, most=widest if task.reduces_cols else None)

    @property
    def settings(self) -> dict[str, str]:
        """The elements of a thread, and the blocks of a multiprocessor where they keep sums."""
        return {THREAD_ELEMENTS: "16"} | ({PROGRAMS: "1"} if self.task.sums_rows else {})

    def setting_lines(self) -> list[str]:
        """Lines that choose the vectors by the number of columns, and the programs where they keep sums."""
        shape = "_row_shape" if self.task.reduces_cols else "_block_shape"
        lines = [
            *self.looked_up("n_cols"),
            f"SHAPE = {shape}(n_cols, {self.vector('n_cols')}, {self.chosen(THREAD_ELEMENTS)})",
        ]
        if self.most is not None:
            message = f'raise ValueError(f"{{n_cols}} columns are more than the {self.most} that a block holds")'
            lines = [f"if n_cols > {self.most}:", INDENT + message, *lines]
        if not self.task.reduces_cols:
            lines.append(f"n_blocks = -(-n_cols // {BLOCK})")
        if self.task.sums_rows:
            lines.append(f"n_programs = _num_blocks({self.source}.device, n_rows, {self.chosen(PROGRAMS)})")
        return lines

    def launch_lines(self) -> list[str]:
        """Lines that start the kernel."""
        programs = "n_programs" if self.task.sums_rows else "n_rows"
        return self.started("n_rows", (programs, "1" if self.task.reduces_cols else "n_blocks"))
