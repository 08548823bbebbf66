"""The schedule of what reduces windows: pooling, and convolutions of one channel each. A block of the result a program. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import KernelSource, KernelTask
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import NEUTRAL, KernelWriter, Knobs, Lane, Schedule, outside, started
from workers.authors.compiler.schedules.places import ADDRESSED, INDEX_LINE, Places, SpacePart, addressed
from workers.authors.compiler.schedules.reductions import with_nan
from workers.authors.compiler.statements import ScopeStatements
from workers.authors.compiler.values import TileValue, topological

WINDOW_SETTINGS = '''def _window_settings(n_rows, n_cols):
    """A tap at a time of many elements; of few elements that are sums of many numbers, many numbers at a time."""
    if n_cols >= 256 and n_rows < 16384:
        return 1, min(1024, triton.next_power_of_2(n_cols)), 4
    return max(32, min(512, triton.next_power_of_2(n_rows))), 1, 4'''

TAP_SETTINGS = '''def _tap_settings(n_rows):
    """A tap at a time of many elements."""
    return max(32, min(512, triton.next_power_of_2(n_rows))), 1, 4'''

BLOCKS = ("BLOCK_ROWS", "BLOCK_COLS")
MOST_UNROLLED = 32


@dataclass(frozen=True)
class Windowed(Schedule):
    """A program reduces the windows of a block of elements, and computes what follows from that element by element."""

    SOURCES: ClassVar = {"_window_settings(": WINDOW_SETTINGS, "_tap_settings(": TAP_SETTINGS}

    names: Mapping[str, str] = field(default_factory=dict)  # of tensors
    given: tuple[tuple[str, str], ...] = ()  # parameters of the kernel, and their values in the launcher

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return bool(program.domain.windows) and program.product is None

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        writer = WindowedKernel(program, names, scalars, task)
        kernel = writer.write()
        return cls(program, task, kernel, host, names=names.tensors, given=tuple(writer.places.sizes.items()))

    @property
    def settings(self) -> dict[str, str]:
        """The block and its warps."""
        return {name: name for name in (*BLOCKS, "num_warps")}

    def setting_lines(self) -> list[str]:
        """Lines that choose the settings by what is computed, and of how much."""
        rule = "_window_settings(n_rows, n_cols)" if takes_blocks(self.task.values) else "_tap_settings(n_rows)"
        tuned = self.tuned_lines("n_rows", "BLOCK_ROWS", "num_warps") if self.form.tunable else []
        return [f"{', '.join((*BLOCKS, 'num_warps'))} = {rule}", *tuned]

    def size_lines(self) -> list[str]:
        """Lines that compute how many elements there are, and how many numbers each is made of."""
        domain = self.program.domain
        return [f"n_rows = {self.host.product(domain.row_axes)}", f"n_cols = {self.host.product(domain.col_axes)}"]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each block."""
        read = dict.fromkeys(str(v.datum) for v in self.task.values if v.op == "load")
        numels = dict.fromkeys(f"{self.names[name]}.numel()" for name in read)
        lines = started(self.kernel, "(triton.cdiv(n_rows, BLOCK_ROWS),)", {name: name for name in BLOCKS})
        values = dict(self.given) | {ADDRESSED: addressed([*numels, "n_rows"])}
        return [line.replace(name, values[name]) if (name := line.strip(" ,")) in values else line for line in lines]

    def knobs(self, cols: list[int]) -> Knobs:
        """The block and its warps."""
        return [("BLOCK_ROWS", (128, 256, 512, 1024)), ("num_warps", (2, 4, 8))]

    @property
    def grid(self) -> tuple[str, str]:
        """One dimension."""
        return "1D", "a block of the result a program, which walks the taps of its windows"


def takes_blocks(values: list[TileValue]) -> bool:
    """Whether several numbers of one window may be taken at a time: which is the first of the largest, that cannot tell."""
    return not any(value.op == "over_cols" and value.datum == "argmax" for value in values)


class WindowedKernel(KernelWriter):
    """Walks the columns with the rows in registers; each reduction keeps its numbers until the end."""

    def __init__(self, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask) -> None:
        super().__init__(program, names, scalars, task)
        self.places = Places(program.domain, self.names, scalars.host)
        self._sums = [value for value in task.values if value.op == "over_cols"]
        self._head, self._turn = self.scope(), self.scope(2)
        domain = program.domain
        self._rows = SpacePart("row", domain.row_axes, "rows", self._head)
        self._cols = SpacePart("col", domain.col_axes, "cols", self._turn, True)

    def write(self) -> KernelSource:
        """The kernel as source."""
        for value in self._sums:
            if value.datum not in {"sum", "max", "argmax"} or any(v.op == "over_cols" for v in topological(value.args)):
                raise CannotCompileError(f"`{value.datum}` is taken of windows that are reduced again", "windows")
        head, turn, body = self._head, self._turn, self.scope()
        head.line("rows = (tl.program_id(0).to(INDEX) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]")
        head.line("row_mask = rows < n_rows")
        inner = set(topological(self._sums))
        for load in self.loads:
            if load in inner and not load.space.cols:
                self._loaded(head, load)
        body.env.update(head.env)
        turn.env.update(head.env)
        if any(value.op == "column" for value in inner):
            turn.env.update({value: "cols" for value in inner if value.op == "column"})
        before, after = self.scope(), self.scope()
        for load in self.loads:
            if load in inner and load.space.cols:
                self._loaded(turn, load)
        for value in self._sums:
            self._accumulated(before, turn, value)
            self._finished(after, value)
        body.env.update({value: self.names.of(value) for value in self._sums})
        for load in self.loads:
            if load not in inner:
                self._loaded(body, load)
        stored = [(s, body.env.get(s.value) or body.assign(s.value, s.name)) for s in self.task.stores]
        for store, text in stored:
            body.line(f"tl.store({store.buffer}_ptr + rows, {text}, mask=row_mask)")
        lines = [INDEX_LINE, *self.scalar_lines(), *head.lines, *before.lines]
        if self._sums:
            lines += [f"    for start in {self._walk()}:", "        cols = start + tl.arange(0, BLOCK_COLS)[None, :]"]
            lines += ["        col_mask = cols < n_cols", *turn.lines, *after.lines]
        sizes = ("n_rows", "n_cols", *self.places.sizes, ADDRESSED)
        return self.finish([*lines, *body.lines], sizes, BLOCKS)

    def _walk(self) -> str:
        sizes = [self.program.domain.sizes[axis] for axis in self.program.domain.col_axes]
        count = math.prod(size for size in sizes if isinstance(size, int))
        if all(isinstance(size, int) for size in sizes) and count <= MOST_UNROLLED:
            return f"tl.static_range(0, {count}, BLOCK_COLS)"
        return "range(0, n_cols, BLOCK_COLS)"

    def _loaded(self, scope: ScopeStatements, load: TileValue) -> None:
        """Load a tensor where its elements lie: one each, or one for some of the dimensions."""
        name, tensor = str(load.datum), self.tensor(load)
        domain = self.program.domain
        text = self.names.free(tensor) if tensor in scope.env.values() else tensor
        if name not in domain.windows and domain.axes_of(name) == domain.row_axes:
            place, masks = "rows", ["row_mask"]
        else:
            terms = self.places.terms(name, tensor, [self._rows, self._cols], self._turn)
            place = " + ".join([*terms.before, *terms.turn])
            masks = ["row_mask"] if self._rows in terms.roles else []
            masks += [*(["col_mask"] if self._cols in terms.roles else []), *terms.masks]
        where = f"{tensor}_ptr + {place}" if place else f"{tensor}_ptr"
        other = f", mask={' & '.join(masks)}, other={self.fill(load)}" if masks else ""
        scope.line(f"{text} = {self.converted(f'tl.load({where}{other})', load)}")
        scope.env[load] = text

    def _accumulated(self, before: ScopeStatements, turn: ScopeStatements, value: TileValue) -> None:
        name, kind, block = self.names.of(value), str(value.datum), "(BLOCK_ROWS, BLOCK_COLS)"
        inner = value.args[0]
        text = turn.reduced(inner)
        kept = Lane.zero if kind == "sum" else Lane.negative_infinity
        if outside(inner, self.others, False) is not kept:
            text = f"tl.where(col_mask, {text}, {NEUTRAL[kind]})"
        if kind == "sum":
            before.line(f"{name}_block = tl.zeros({block}, dtype=tl.float32)")
            turn.line(f"{name}_block += {text}")
            return
        before.line(f"{name}_block = tl.full({block}, {NEUTRAL[kind]}, dtype=tl.float32)")
        if kind == "max":
            turn.line(f"{name}_block = tl.maximum({name}_block, {text}, propagate_nan=tl.PropagateNan.ALL)")
            return
        before.line(f"{name}_place = tl.zeros({block}, dtype=tl.int32)")
        turn.line(f"{name}_next = {text}")
        turn.line(f"{name}_grows = ({name}_next > {name}_block) | ({name}_next != {name}_next)")
        turn.line(f"{name}_place = tl.where({name}_grows, cols, {name}_place)")
        turn.line(f"{name}_block = tl.where({name}_grows, {name}_next, {name}_block)")

    def _finished(self, after: ScopeStatements, value: TileValue) -> None:
        name, how = self.names.of(value), ", axis=1, keep_dims=True"
        if value.datum == "max":
            after.line(f"{name} = tl.max({name}_block{how})")
            after.line(with_nan(name, f"{name}_block", how))
        else:  # the place of the largest is one number, as its schedule takes one column at a time
            after.line(f"{name} = tl.sum({name}_{'place' if value.datum == 'argmax' else 'block'}{how})")
