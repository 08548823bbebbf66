"""What a schedule owns, and what all kernels share: loads, masks, signature, docstring. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Self

from workers.authors.compiler.axes import Chunk
from workers.authors.compiler.domain import COL, FULL, SCALAR, Space
from workers.authors.compiler.host import HostScope, Scalars, partial_size_lines, run_size_lines
from workers.authors.compiler.kernels import LOADS, KernelForm, KernelSource, KernelTask, Store
from workers.authors.compiler.languages import TRITON, Language
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.rerolling import RerolledLoop, rerolled_loops
from workers.authors.compiler.rounding import type_lines
from workers.authors.compiler.schedules.reductions import loses_nan
from workers.authors.compiler.statements import INDENT, ScopeStatements, docstring, worth_naming
from workers.authors.compiler.values import OFFSET, TileValue, use_counts

Knobs = list[tuple[str, tuple[int, ...]]]  # a setting, and the values to try besides the rule's


@dataclass(frozen=True)
class Schedule(ABC):
    """A pass, forward or backward, as scheduled: its kernel, and the launcher's lines that choose settings and start it.

    ``overwrites`` are stores, and the tensors into whose memory they go; ``most`` is the largest number of columns that the
    pass takes, None for any number.
    """

    SOURCES: ClassVar[Mapping[str, str]] = {}  # functions that its launcher calls, by the beginning of the call
    LAUNCH_SIZES: ClassVar[frozenset[str]] = frozenset()  # that the launch asks for, whatever the kernels do

    program: ValueProgram
    task: KernelTask
    kernel: KernelSource
    host: HostScope
    overwrites: tuple[tuple[str, str], ...] = ()
    most: int | None = None

    @staticmethod
    @abstractmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        """Whether the schedule can take a task."""

    @classmethod
    @abstractmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernels of a task that fits.

        Raises:
            CannotCompileError: the schedule has no way to express the task.
        """

    @property
    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Settings that may be tuned, each with the rule's own value as source."""

    @abstractmethod
    def setting_lines(self) -> list[str]:
        """Lines that choose the settings: the rule's, and where settings are tuned, what was measured in their place."""

    @abstractmethod
    def launch_lines(self) -> list[str]:
        """Lines that start the kernel, grid included."""

    def knobs(self, cols: list[int]) -> Knobs:
        """Settings worth tuning for workloads of so many columns (rising), those that matter most first."""
        return []

    @property
    def kernels(self) -> tuple[KernelSource, ...]:
        """The kernels that the launcher may start."""
        return (self.kernel,)

    @property
    def grid(self) -> tuple[str, str]:
        """Dimensions of the grid, and what a program of it does, for people."""
        task = self.task
        if task.is_flat(self.program.domain):
            return "1D", "a block of elements a program"
        if task.sums_rows and task.reduces_cols:
            return "1D", "a program a multiprocessor, each over many tiles of rows, with partial sums of its own"
        if task.sums_rows:
            return (
                "2D",
                "a program a multiprocessor and block of columns, each over many tiles of rows, with partial sums",
            )
        if task.reduces_cols:
            return "1D", "a tile of whole rows a program"
        return "2D", "a tile of rows and a block of columns a program"

    @property
    def sketches(self) -> list[tuple[str, str]]:
        """The name of each kernel, and what a program of it does, for people."""
        return [(self.kernel.name, self.grid[1])]

    def within(self, columns: list[int], tuned: list[int]) -> Self:
        """The schedule without kernels that no row of so many ``columns`` (rising) needs; ``tuned`` are those of the workloads."""
        return self

    def size_lines(self) -> list[str]:
        """Lines that compute the sizes that the kernels ask for."""
        lines = []
        asked = self.LAUNCH_SIZES.union(*(kernel.sizes for kernel in self.kernels))
        if "n_elements" in asked:
            lines.append(f"n_elements = {self.host.elements}")
        if "n_cols" in asked or "n_rows" in asked:
            lines.append(f"n_cols = {self.host.cols}")
        if "n_rows" in asked:
            lines.append(f"n_rows = {self.host.rows}")
        return lines + self.stride_lines()

    def stride_lines(self) -> list[str]:
        """Lines that compute the sizes by which kernels find rows of tensors that lack some, or lie strided."""
        sizes = tuple(size for kernel in self.kernels for size in kernel.sizes)
        return [*partial_size_lines(self.host, sizes), *run_size_lines(self.host, sizes)]

    def partials(self, store: Store) -> str:
        """The shape of the buffer into which programs leave partial sums."""
        width = len(store.value.args) if store.value.op == "cat" else None
        if store.space == SCALAR:
            count = "n_programs" if self.task.reduces_cols else "n_programs * n_blocks"
            return f"({count}, {width})" if width else count
        return f"(n_programs, {f'{width} * ' if width else ''}n_cols)"

    def leaves_partials(self, store: Store) -> bool:
        """Whether programs leave partial sums of a tensor, which the launcher adds up."""
        return store.summed

    def total_line(self, store: Store, node: str, dtype: str) -> str:
        """The line that adds the partial sums up; ``node`` is the tensor's name in the graph."""
        text = f"{store.name} = {store.buffer}.sum(dim=0).to({dtype})"
        if self.form.tunable and store.space == COL:
            text = f"{store.name} = _sum_partials({store.buffer}, {dtype})"
        shape = self.program.domain.shapes[node]
        expected = 1 if store.space == COL or store.value.op == "cat" else 0
        plain = len(shape) == expected and (store.value.op == "cat" or all(len(dim) == 1 for dim in shape))
        dims = ", ".join(self.host.product(dim) for dim in shape)
        return text if plain else f"{text}.view{f'({dims})' if dims else '(())'}"

    @property
    def form(self) -> KernelForm:
        """The form of its kernels."""
        return self.task.form

    @property
    def source(self) -> str:
        """The tensor whose dtype and device the others follow."""
        return self.host.source

    def count_loads(self, space: Space) -> int:
        """How many tensors of a space the pass loads."""
        return sum(value.op == "load" and value.space == space for value in self.kernel.values)

    @property
    def streamed_settings(self) -> dict[str, str]:
        """The setting of loads that tell the cache that they are not read again, where there are any."""
        return {"EVICT_FIRST": "0"} if any("STREAMED" in kernel.constants for kernel in self.kernels) else {}

    @property
    def streamed_knobs(self) -> Knobs:
        """The knob of the same loads."""
        return [("EVICT_FIRST", (1,))] if self.streamed_settings else []

    def tuned_lines(self, size: str, *chosen: str) -> list[str]:
        """Lines that look settings up by a size, and take the ``chosen`` ones from the table."""
        given = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        taken = ", ".join(f'tuned["{name}"]' for name in chosen)
        look_up = f'tuned = _tuned({self.source}.device, "{self.form.tuned_pass.value}", {size}, {given})'
        return [look_up, *([f"{', '.join(chosen)} = {taken}"] if chosen else [])]


def started(
    kernel: KernelSource,
    grid: str,
    constants: Mapping[str, str],
    num_warps: str | None = "num_warps",
    num_stages: str | None = None,
) -> list[str]:
    """Lines that start a kernel; ``constants`` has the value of each of its constants as source."""
    arguments = [*kernel.tensors, *(number.text for number in kernel.numbers), *kernel.sizes]
    settings = [f"{name}={constants[name]}" for name in kernel.constants]
    settings += [f"num_warps={num_warps}"] if num_warps else []
    settings += [f"num_stages={num_stages}"] if num_stages else []
    return [f"{kernel.name}[{grid}](", *(f"{INDENT}{argument}," for argument in [*arguments, *settings]), ")"]


class KernelWriter:
    """Writes a kernel: what the kernels of all schedules have in common."""

    language: ClassVar[Language] = TRITON

    def __init__(self, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask) -> None:
        self.program, self.names, self.scalars, self.task = program, names.fork(), scalars, task
        scalars.begin()
        self.loads = [value for value in task.values if value.op == "load"]
        self.picks = [value for value in task.values if value.op == "pick"]
        order = list(names.tensors.values())
        self.loads.sort(key=lambda value: order.index(self.tensor(value)))
        roots = [piece.value for piece in task.pieces]
        self.loops = rerolled_loops(roots)
        reductions = [value for value in task.values if value.op == "over_cols"]
        scans = [value for value in task.values if value.op == "scan"]
        self.shared = worth_naming(use_counts(roots), (*reductions, *scans))
        self.others = self._fills(reductions)

    @property
    def form(self) -> KernelForm:
        """The form of the kernel."""
        return self.task.form

    def is_even(self, loop: RerolledLoop) -> bool:
        """Whether every turn makes the same reductions."""
        for reductions in zip(*loop.turns, strict=True):
            ways = {
                (self.neutral_outside(value.args[0], str(value.datum), False), loses_nan(value, self.task.values))
                for value in reductions
                if value is not None and value.op == "over_cols"
            }
            if len(ways) > 1:
                return False
        return True

    def tensor(self, load: TileValue) -> str:
        """The name of a loaded tensor."""
        return self.names.tensors[str(load.datum)]

    def chunk(self, load: TileValue) -> Chunk | None:
        """Which chunk of a tensor a load takes, None where it takes all."""
        return self.program.domain.chunks.get(str(load.datum))

    def is_streamed(self, load: TileValue) -> bool:
        """Whether a load may say that its elements are not read again."""
        return load.space == FULL and self.program.domain.base(str(load.datum)) in self.task.form.streamed

    def hint(self, load: TileValue) -> str:
        """A load's cache hint, as a further argument."""
        if not self.is_streamed(load):
            return ""
        return ', eviction_policy="evict_first"' if self.form.strides_the_grid else ", eviction_policy=STREAMED"

    @staticmethod
    def hint_constants(lines: list[str]) -> list[str]:
        """The kernel's parameter for the lines' cache hints, where they have any."""
        return ["STREAMED"] if any("STREAMED" in line for line in lines) else []

    @property
    def row_numbers(self) -> list[TileValue]:
        """The values that are the number of each row."""
        return [value for value in self.task.values if value.op == "row"]

    def partial_rows(self, load: TileValue) -> bool:
        """Whether a tensor varies over some of the row axes only."""
        name = str(load.datum)
        if name not in self.program.domain.shapes or not load.space.rows:
            return False
        return set(self.program.domain.rows_of(name)) != set(self.program.domain.row_axes)

    def pick_place(
        self, scope: ScopeStatements, value: TileValue, row_offset: str, row_mask: str = ""
    ) -> tuple[str, str, str]:
        """The tensor, the offset of one element of each row, and further arguments of its load."""
        tensor, index, mask, outside = self.picked(scope, value, row_mask)
        whole = self.program.domain.space_of(str(value.datum)).rows
        place = f"{row_offset} + {index}" if whole else index
        return tensor, place, f", mask={mask}, other={outside}" if mask else ""

    def picked(self, scope: ScopeStatements, value: TileValue, row_mask: str) -> tuple[str, str, str, str]:
        """The tensor of which one element of each row is taken, its column, where there is one, and what it is elsewhere.

        An index from memory may be out of range: nothing is read there, and the element is NaN.
        """
        wanted, tensor = value.args[0], self.names.tensors[str(value.datum)]
        index = scope.env.get(wanted) or (
            scope.assign(wanted, self.names.free("index")) if wanted.args else scope.operand(wanted).text
        )
        mask, outside = row_mask, self.fill(value)
        if _from_memory(wanted):
            mask = f"{self.names.of(value)}_mask"
            bounds = [*([row_mask] if row_mask else []), f"({index} >= 0)", f"({index} < n_cols)"]
            scope.line(f"{mask} = {' & '.join(bounds)}")
            outside = outside if value.integer or value.boolean else 'float("nan")'
        return tensor, index, mask, outside

    @staticmethod
    def moved_mask(name: str, index: TileValue, mask: str) -> str:
        """Where there is an element at other columns, of those in a mask: a condition that they cannot fail is left out."""
        bounds = [mask] if mask else []
        if _may_be_negative(index):
            bounds.append(f"({name}_cols >= 0)")
        if index.op != "sub" or index.args[0].op != "column" or _may_be_negative(index.args[1]):
            bounds.append(f"({name}_cols < n_cols)")
        return " & ".join(bounds)

    def scope(self, depth: int = 1) -> ScopeStatements:
        """Open a scope of statements."""
        return ScopeStatements(self.names, self.scalars.written, self.shared, depth, self.language.dialect)

    def _fills(self, reductions: list[TileValue]) -> dict[str, Lane]:
        """A tensor whose maximum is taken is loaded as minus infinity outside of the mask, so that it needs no second mask."""
        windows = self.program.domain.windows
        maxima = {str(r.args[0].datum) for r in reductions if r.datum == "max" and r.args[0].op == "load"}
        maxima = {name for name in maxima if name not in windows}
        maxima |= {name for name, window in windows.items() if window.lowest}
        return dict.fromkeys(sorted(maxima), Lane.negative_infinity)

    def fill(self, load: TileValue) -> str:
        """What a load yields outside of the mask."""
        if load.integer:
            return "0"
        lane = self.others.get(str(load.datum))
        return '-float("inf")' if lane is Lane.negative_infinity else "0.0"

    @classmethod
    def converted(cls, text: str, load: TileValue) -> str:
        """Bring what is loaded to the type that is computed in: whole numbers stay whole."""
        return f"{text} != 0" if load.boolean else text if load.integer else cls.language.converted(text)

    def neutral_outside(self, value: TileValue, kind: str, whole_rows: bool) -> bool:
        """Whether a value may be reduced without a mask."""
        lane = outside(value, self.others, False)
        if kind == "sum":
            return lane is Lane.zero and (not whole_rows or outside(value, self.others, True) is Lane.zero)
        return kind == "max" and lane is Lane.negative_infinity

    def scalar_lines(self) -> list[str]:
        """Bring the numbers that the kernel is given to float32: inside torch.compile they arrive as float64."""
        return [f"{INDENT}{name} = {self.language.float32(name)}" for name in self.scalars.used]

    def _type_lines(self, read: Iterable[TileValue]) -> list[str]:
        nodes = dict.fromkeys(self.program.domain.base(str(load.datum)) for load in read)
        pointers = {node: f"{self.names.tensors[node]}_ptr" for node in nodes}
        return type_lines(self.program.problem, self.program.graph, pointers, self.computed)

    @property
    def computed(self) -> list[TileValue]:
        """The values of the kernel."""
        return self.task.values

    @property
    def read(self) -> tuple[TileValue, ...]:
        """What the kernel loads, in the order of its parameters."""
        return (*self.loads, *self.picks)

    def finish(self, body: list[str], sizes: tuple[str, ...], constants: tuple[str, ...]) -> KernelSource:
        """Assemble signature, docstring and body."""
        read = self.read
        loaded = [self.names.tensors[self.program.domain.base(str(load.datum))] for load in read]
        tensors = tuple(dict.fromkeys([*(piece.buffer for piece in self.task.pieces), *loaded]))
        numbers = tuple(self.scalars.used.values())
        parameters = [
            *(f"{tensor}{self.language.tensor}" for tensor in tensors),
            *(number.name for number in numbers),
            *sizes,
            *(f"{constant}: {self.language.constant}" for constant in constants),
        ]
        lines = [self.language.kernel, f"def {self.task.name}("]
        lines += [f"{INDENT}{parameter}," for parameter in parameters]
        lines += ["):", *docstring(self.task.docstring), *(INDENT + line for line in self._type_lines(read)), *body]
        return KernelSource(
            self.task.name, "\n".join(lines), tensors, numbers, sizes, constants, tuple(self.task.values)
        )


def _may_be_negative(value: TileValue) -> bool:
    """Whether a number of columns may be below zero, by its form; sizes are not."""
    if value.op == "scalar":
        return not str(value.datum).startswith(OFFSET) or "-" in str(value.datum)
    if value.op in {"add", "mul"}:
        return any(map(_may_be_negative, value.args))
    return value.op != "column" and not (value.number is not None and value.number >= 0)


def _from_memory(value: TileValue) -> bool:
    return value.op in LOADS or any(_from_memory(arg) for arg in value.args)


# The policy of loads that are not read again, without a condition of which a verdict would see one outcome.
HINTED = '"evict_first" * tuned["EVICT_FIRST"]'
NEUTRAL = {"sum": "0.0", "prod": "1.0", "max": '-float("inf")', "argmax": '-float("inf")', "min": 'float("inf")'}


class Lane(Enum):
    """What is known of a value outside of the mask."""

    zero = "zero"
    finite = "finite"
    negative_infinity = "negative infinity"
    unknown = "unknown"


# Functions that are zero at zero, and finite where their operand is.
_MILD = frozenset(
    ["neg", "abs", "relu", "sign", "floor", "ceil", "round", "trunc", "sin", "erf", "tanh", "libdevice_tanh"]
)
_BOUNDED = _MILD | {"cos", "sigmoid", "add", "sub", "mul", "maximum", "minimum", "where"}
_KEEP_ZERO = _MILD | {"sqrt", "expm1", "log1p"}


def outside(
    value: TileValue, others: Mapping[str, Lane], whole_rows: bool, known: dict[TileValue, Lane] | None = None
) -> Lane:
    """A value outside of the mask.

    ``others`` are the values of loads there where they are not zero. ``whole_rows`` looks at lanes of rows past the last one,
    else at lanes past the last column of an existing row.
    """
    known = {} if known is None else known
    if value not in known:
        known[value] = _outside(value, others, whole_rows, known)
    return known[value]


def _outside(value: TileValue, others: Mapping[str, Lane], whole_rows: bool, known: dict[TileValue, Lane]) -> Lane:
    inside = not value.space.rows if whole_rows else not value.space.cols
    if value.op == "load" and not inside:
        return others.get(str(value.datum), Lane.zero)
    if value.number is not None:
        return Lane.zero if value.number == 0 else Lane.finite if abs(value.number) != float("inf") else Lane.unknown
    if inside or value.boolean:
        return Lane.finite
    lanes = [outside(arg, others, whole_rows, known) for arg in value.args]
    if value.op == "over_cols":
        return lanes[0] if value.datum == "sum" and lanes[0] in {Lane.zero, Lane.finite} else Lane.unknown
    if value.op == "where" and lanes[1] == lanes[2]:
        return lanes[1]
    return _pointwise(value.op, lanes)


def _pointwise(op: str, lanes: list[Lane]) -> Lane:
    if op == "rounded":
        return lanes[0]
    calm = all(lane in {Lane.zero, Lane.finite} for lane in lanes)
    if op == "mul" and calm and Lane.zero in lanes:
        return Lane.zero
    if op == "exp":
        return {Lane.negative_infinity: Lane.zero}.get(lanes[0], Lane.finite if calm else Lane.unknown)
    if op in {"add", "sub"} and lanes[0] is Lane.negative_infinity and lanes[1] in {Lane.zero, Lane.finite}:
        return Lane.negative_infinity
    if op in {"add", "sub", "maximum", "minimum"} and all(lane is Lane.zero for lane in lanes):
        return Lane.zero
    if op in _KEEP_ZERO and lanes[0] is Lane.zero:
        return Lane.zero
    return Lane.finite if op in _BOUNDED and calm else Lane.unknown
