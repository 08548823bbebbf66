"""What all kernels share: their stores, parameters, loads and docstrings. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from workers.authors.compiler.documentation import docstring
from workers.authors.compiler.domain import FULL, ROW, SCALAR, Domain, Space
from workers.authors.compiler.form import PLAIN, Form
from workers.authors.compiler.lanes import Lane, outside
from workers.authors.compiler.naming import Names
from workers.authors.compiler.parts import Part
from workers.authors.compiler.program import Program
from workers.authors.compiler.repetition import repetitions_of
from workers.authors.compiler.rounding import type_lines
from workers.authors.compiler.scalars import HostNumber, Scalars
from workers.authors.compiler.statements import INDENT, Statements, worth_naming
from workers.authors.compiler.values import Value, ordered, use_counts


@dataclass(frozen=True)
class Store:
    """A tensor that a kernel writes. ``space`` is the tensor's; where the value has rows and it has none, rows are summed."""

    name: str
    value: Value
    space: Space
    part: Part | None = None  # of the tensor that this is a part of; its ``node`` is the tensor's name in the module
    piece_names: tuple[str, ...] = ()  # of its parts, where they have names of their own
    node: str | None = None  # the graph's name of it; None for what forward keeps besides its outputs

    @property
    def pieces(self) -> tuple[Store, ...]:
        """Give the parts that a kernel writes one by one, or the tensor itself."""
        if self.value.op != "cat":
            return (self,)
        count = len(self.value.args)
        parts = (Part(self.name, index, count, single=not self.space.cols) for index in range(count))
        values = zip(self.value.args, parts, strict=True)
        names = self.piece_names or tuple(f"{self.name}_{index}" for index in range(count))
        return tuple(Store(names[part.index], value, self.space, part) for value, part in values)

    @property
    def summed(self) -> bool:
        """Tell whether programs leave partial sums."""
        return self.value.space.rows and not self.space.rows

    @property
    def buffer(self) -> str:
        """Give the name of the tensor that the kernel is handed."""
        whole = self.part.node if self.part else self.name
        return f"{whole}_partials" if self.summed else whole


@dataclass(frozen=True)
class KernelSource:
    """A kernel as source, and what its launch has to pass, in order."""

    name: str
    source: str
    tensors: tuple[str, ...]
    numbers: tuple[HostNumber, ...]
    sizes: tuple[str, ...]
    constants: tuple[str, ...]
    values: tuple[Value, ...] = field(repr=False, default=())


@dataclass(frozen=True)
class KernelTask:
    """A kernel to write."""

    name: str
    stores: tuple[Store, ...]
    docstring: tuple[str, ...]
    form: Form = PLAIN

    @property
    def pieces(self) -> tuple[Store, ...]:
        """Give what the kernel writes, part by part."""
        return tuple(piece for store in self.stores for piece in store.pieces)

    @property
    def values(self) -> list[Value]:
        """Give everything the kernel computes, operands first."""
        return ordered(piece.value for piece in self.pieces)

    @property
    def reduces_cols(self) -> bool:
        """Tell whether a row must be seen whole."""
        return (
            self.sums_segments
            or any(value.op in {"over_cols", "scan"} for value in self.values)
            or any(store.summed and store.value.space == ROW for store in self.stores)
        )

    @property
    def sums_rows(self) -> bool:
        """Tell whether programs keep partial sums over rows."""
        return any(store.summed for store in self.stores)

    @property
    def is_persistent(self) -> bool:
        """Tell whether few programs take many rows each; sums of whole rows to one number are left a tile at a time instead."""
        return self.sums_rows and (
            not self.reduces_cols or any(store.summed and store.space != SCALAR for store in self.stores)
        )

    @property
    def sums_segments(self) -> bool:
        """Tell whether segments of rows are summed."""
        return any(store.space.segments for store in self.stores)

    def is_flat(self, domain: Domain) -> bool:
        """Tell whether every element stands alone, so that rows and columns do not matter."""
        if self.reduces_cols or any(store.space != FULL or store.part for store in self.pieces):
            return False
        if any(value.op == "load" and value.datum in domain.parts for value in self.values):
            return False
        if any(value.op == "pick" for value in self.values):
            return False
        if any(value.space not in {FULL, SCALAR} for value in self.values):
            return False
        loads = [str(value.datum) for value in self.values if value.op == "load" and value.space.rows]
        return all(set(domain.rows_of(name)) == set(domain.row_axes) for name in loads)


class KernelWriter:
    """Common ground of the schedules."""

    def __init__(self, program: Program, names: Names, scalars: Scalars, task: KernelTask) -> None:
        self.program, self.names, self.scalars, self.task = program, names.fork(), scalars, task
        scalars.begin()
        self.loads = [value for value in task.values if value.op == "load"]
        self.picks = [value for value in task.values if value.op == "pick"]
        order = list(names.tensors.values())
        self.loads.sort(key=lambda value: order.index(self.tensor(value)))
        roots = [piece.value for piece in task.pieces]
        self.loops = repetitions_of(roots)
        reductions = [value for value in task.values if value.op == "over_cols"]
        scans = [value for value in task.values if value.op == "scan"]
        self.shared = worth_naming(use_counts(roots), (*reductions, *scans))
        self.others = self._fills(reductions)

    def tensor(self, load: Value) -> str:
        """Give the name of a loaded tensor."""
        return self.names.tensors[str(load.datum)]

    def part(self, load: Value) -> Part | None:
        """Give which part of a tensor a load takes, None where it takes all."""
        return self.program.domain.parts.get(str(load.datum))

    def is_streamed(self, load: Value) -> bool:
        """Tell whether a load may say that its elements are not read again."""
        return load.space == FULL and self.program.domain.base(str(load.datum)) in self.task.form.streamed

    def hint(self, load: Value) -> str:
        """Give what a load tells the cache, as a further argument."""
        return ", eviction_policy=STREAMED" if self.is_streamed(load) else ""

    @staticmethod
    def hint_lines(lines: list[str]) -> list[str]:
        """Say what loads among the lines tell the cache."""
        hinted = any("STREAMED" in line for line in lines)
        return [f'{INDENT}STREAMED: tl.constexpr = "evict_first" if EVICT_FIRST else ""'] if hinted else []

    def partial_rows(self, load: Value) -> bool:
        """Tell whether a tensor varies over some of the row axes only."""
        name = str(load.datum)
        if name not in self.program.domain.shapes or not load.space.rows:
            return False
        return set(self.program.domain.rows_of(name)) != set(self.program.domain.row_axes)

    def pick_place(self, scope: Statements, value: Value, row_offset: str, row_mask: str = "") -> tuple[str, str, str]:
        """Give the tensor, the offset of one element of each row, and what its load says further.

        An index from memory may lie outside of the row: nothing is read there, and the element is no number.
        """
        wanted, tensor = value.args[0], self.names.tensors[str(value.datum)]
        index = scope.env.get(wanted) or (
            scope.assign(wanted, self.names.free("index")) if wanted.args else scope.operand(wanted).text
        )
        whole = self.program.domain.space_of(str(value.datum)).rows
        mask, outside = row_mask, self.fill(value)
        if _from_memory(wanted):
            mask = f"{self.names.of(value)}_mask"
            bounds = [*([row_mask] if row_mask else []), f"({index} >= 0)", f"({index} < n_cols)"]
            scope.line(f"{mask} = {' & '.join(bounds)}")
            outside = outside if value.integer or value.boolean else 'float("nan")'
        place = f"{row_offset} + {index}" if whole else index
        return tensor, place, f", mask={mask}, other={outside}" if mask else ""

    def scope(self, depth: int = 1) -> Statements:
        """Open a scope of statements."""
        return Statements(self.names, self.scalars.written, self.shared, depth)

    def _fills(self, reductions: list[Value]) -> dict[str, Lane]:
        """A tensor whose maximum is taken is loaded as minus infinity outside of the mask, so that it needs no second mask."""
        maxima = {str(r.args[0].datum) for r in reductions if r.datum == "max" and r.args[0].op == "load"}
        return dict.fromkeys(sorted(maxima), Lane.negative_infinity)

    def fill(self, load: Value) -> str:
        """Give what a load yields outside of the mask."""
        if load.integer:
            return "0"
        lane = self.others.get(str(load.datum))
        return '-float("inf")' if lane is Lane.negative_infinity else "0.0"

    @staticmethod
    def converted(text: str, load: Value) -> str:
        """Bring what is loaded to the type that is computed in: whole numbers stay whole."""
        return f"{text} != 0" if load.boolean else text if load.integer else f"{text}.to(tl.float32)"

    def neutral_outside(self, value: Value, kind: str, whole_rows: bool) -> bool:
        """Tell whether a value may be reduced without a mask."""
        lane = outside(value, self.others, False)
        if kind == "sum":
            return lane is Lane.zero and (not whole_rows or outside(value, self.others, True) is Lane.zero)
        return kind == "max" and lane is Lane.negative_infinity

    def scalar_lines(self) -> list[str]:
        """Bring the numbers that the kernel is given to float32: inside torch.compile they arrive as float64."""
        return [f"{INDENT}{name} = tl.cast({name}, tl.float32)" for name in self.scalars.used]

    def _type_lines(self, read: Iterable[Value]) -> list[str]:
        nodes = dict.fromkeys(self.program.domain.base(str(load.datum)) for load in read)
        pointers = {node: f"{self.names.tensors[node]}_ptr" for node in nodes}
        return type_lines(self.program.problem, self.program.graph, pointers, self.task.values)

    def finish(self, body: list[str], sizes: tuple[str, ...], constants: tuple[str, ...]) -> KernelSource:
        """Put signature, docstring and body together."""
        read = (*self.loads, *self.picks)
        loaded = [self.names.tensors[self.program.domain.base(str(load.datum))] for load in read]
        tensors = tuple(dict.fromkeys([*(piece.buffer for piece in self.task.pieces), *loaded]))
        numbers = tuple(self.scalars.used.values())
        parameters = [
            *(f"{tensor}_ptr" for tensor in tensors),
            *(number.name for number in numbers),
            *sizes,
            *(f"{constant}: tl.constexpr" for constant in constants),
        ]
        lines = ["@triton.jit", f"def {self.task.name}("]
        lines += [f"{INDENT}{parameter}," for parameter in parameters]
        lines += ["):", *docstring(self.task.docstring), *(INDENT + line for line in self._type_lines(read)), *body]
        return KernelSource(
            self.task.name, "\n".join(lines), tensors, numbers, sizes, constants, tuple(self.task.values)
        )


def _from_memory(value: Value) -> bool:
    return value.op in LOADS or any(_from_memory(arg) for arg in value.args)


LOADS = frozenset({"load", "pick"})
NEUTRAL = {"sum": "0.0", "prod": "1.0", "max": '-float("inf")', "argmax": '-float("inf")', "min": 'float("inf")'}
