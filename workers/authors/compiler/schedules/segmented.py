"""The schedule of rows that fall into segments: its kernel and its launch. Pure."""

from __future__ import annotations

from workers.authors.compiler.domain import COL, FULL, SCALAR
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.host import Hand, Scalars, row_index
from workers.authors.compiler.kernels import KernelSource, Store
from workers.authors.compiler.names import Names
from workers.authors.compiler.program import Program
from workers.authors.compiler.schedules.base import KernelWriter, Lane
from workers.authors.compiler.schedules.looped import LoopedKernel
from workers.authors.compiler.statements import Statements
from workers.authors.compiler.values import Value


class SegmentedKernel(LoopedKernel):
    """A program takes a row; tensors with a number for each segment are loaded once a tile, and sums over the elements of a
    segment are left a row at a time."""

    @property
    def block(self) -> str:
        """Give the shape of a tile."""
        return "(BLOCK_SEGMENTS, BLOCK_SIZE)"

    first_block = "(first == 0) & (start == 0)"

    @property
    def lanes(self) -> str:
        """Give the shape of what is kept of each segment of a tile."""
        return "(BLOCK_SEGMENTS, 1)"

    def __init__(self, program: Program, names: Names, scalars: Scalars, task: object) -> None:
        KernelWriter.__init__(self, program, names, scalars, task)  # type: ignore[arg-type]
        self._by_segment = [v for v in self.loads if program.domain.segments_of(str(v.datum)) is not None]
        # What a segment's tensor holds past the elements of its segment is its number, not zero.
        self.others.update({str(load.datum): Lane.finite for load in self._by_segment})
        if any(store.part or (store.summed and store.space == COL) for store in task.pieces):  # type: ignore[attr-defined]
            raise CannotCompileError(
                "`sum` over rows is beside a sum over segments of rows, which takes two kernels", "sum"
            )
        if self.picks or any(self.part(load) for load in self.loads) or any(v.op == "column" for v in self.task.values):
            raise CannotCompileError("`slice` or `gather` is beside tensors with a number for each channel", "slice")

    def write(self) -> KernelSource:
        """Give the kernel's source."""
        head, body = self.scope(), self.scope()
        for load in self.loads:
            if load.space == SCALAR:
                self._load(head, load, "")
        body.env.update(head.env)
        body.line("row_offset = row * tl.cast(n_cols, tl.int64)")
        for load in self.loads:
            if load.space.rows and not load.space.cols:
                self._load(body, load, row_index(self.program, self.names, load, "row")[0])
        for depth in range(self._depth + 1):
            self._pass(body, depth)
        self._store_rows(body)
        lines = ["    row = tl.program_id(0)", *self.scalar_lines(), *head.lines, *self._accumulators(), *body.lines]
        totals = [store for store in self.task.pieces if store.summed and store.space == SCALAR]
        lines += [f"    tl.store({store.buffer}_ptr + row, tl.sum({store.name}))" for store in totals]
        extra = tuple(dict.fromkeys(s for load in self.loads for s in row_index(self.program, self.names, load)[1]))
        sizes = (*extra, "n_segments", "segment_size", "n_cols")
        stages = ("NUM_STAGES",) if self.task.form.tunable else ()
        return self.finish(lines, sizes, ("BLOCK_SEGMENTS", "BLOCK_SIZE", *stages))

    def fill(self, load: Value) -> str:
        """Give what a load yields outside of the mask."""
        return "0.0" if load in self._by_segment and not load.integer else super().fill(load)

    def _opened(self, body: Statements, roots: list[Value], stores: list[Store]) -> Statements:
        outer = self.scope(body.depth + 1)
        outer.env.update(body.env)
        body.line("for first in range(0, n_segments, BLOCK_SEGMENTS):")
        outer.line("segments = (first + tl.arange(0, BLOCK_SEGMENTS))[:, None]")
        needed = self._needed(outer, roots)
        for load in (v for v in self._by_segment if v in needed):
            index = row_index(self.program, self.names, load, "row")[0]
            place = f"({index}) * n_segments + segments" if load.space.rows else "segments"
            place = place.replace("(row) ", "row ")
            name = self.tensor(load)
            outer.line(f"{name}_offsets = {place}")
            text = f"tl.load({name}_ptr + {name}_offsets, mask=segments < n_segments, other={self.fill(load)})"
            outer.line(f"{name} = {self.converted(text, load)}")
            outer.env[load] = name
        for store in (s for s in stores if s.space.segments):
            outer.line(f"{store.name} = tl.zeros({self.block}, dtype=tl.float32)")
        outer.line(f"for start in {self.blocks('segment_size')}:")
        inner = self.scope(outer.depth + 1)
        inner.env.update(outer.env)
        inner.line("elements = start + tl.arange(0, BLOCK_SIZE)[None, :]")
        inner.line("mask = (segments < n_segments) & (elements < segment_size)")
        inner.line("cols = segments * segment_size + elements")
        body.lines += outer.lines
        return inner

    def _closed(self, body: Statements, stores: list[Store]) -> None:
        outer = self.scope(body.depth + 1)
        for store in (s for s in stores if s.space.segments):
            total = f"tl.sum({store.name}, axis=1, keep_dims=True)"
            place = f"{store.buffer}_ptr + row * tl.cast(n_segments, tl.int64) + segments"
            outer.line(f"{store.name} = {total}")
            outer.line(f"tl.store({place}, {store.name}, mask=segments < n_segments)")
        body.lines += outer.lines

    def _needed(self, scope: Statements, roots: list[Value]) -> set[Value]:
        needed: set[Value] = set()
        waiting = list(roots)
        while waiting:
            value = waiting.pop()
            if value not in needed and value not in scope.env:
                needed.add(value)
                waiting.extend(value.args)
        return needed

    def _store_blocks(self, inner: Statements, stores: list[Store]) -> None:
        super()._store_blocks(inner, [store for store in stores if not store.space.segments])
        for store in (s for s in stores if s.space.segments):
            inner.line(f"{store.name} += {self._masked(inner, store.value, 'sum')}")

    def _accumulators(self) -> list[str]:
        lines = []
        for store in self.task.pieces:
            if store.summed and store.space == SCALAR:
                shape = self.block if store.value.space == FULL else "(1,)"
                lines.append(f"    {store.name} = tl.zeros({shape}, dtype=tl.float32)")
        return lines


SEGMENT_SETTINGS = '''def _segment_settings(n_segments, segment_size):
    """A tile holds whole segments where they are short: 4096 elements leave room for several programs."""
    BLOCK_SIZE = min(triton.next_power_of_2(segment_size), 4096)
    BLOCK_SEGMENTS = min(triton.next_power_of_2(n_segments), 4096 // BLOCK_SIZE)
    return BLOCK_SEGMENTS, BLOCK_SIZE, max(4, min(16, BLOCK_SEGMENTS * BLOCK_SIZE // 512))'''
CHOSEN = ("BLOCK_SEGMENTS", "BLOCK_SIZE", "num_warps")
SETTING_LINE = f"{', '.join(CHOSEN)} = _segment_settings(n_segments, segment_size)"
GRID = "(n_rows,)"


def segment_size_lines(hand: Hand) -> list[str]:
    """Compute how many segments a row has and how long one is."""
    domain = hand.program.domain
    axes = domain.segment_axes
    lines = [f"n_segments = {hand.product(axes)}", f"segment_size = {hand.product(domain.col_axes[len(axes) :])}"]
    return [*lines, "n_cols = n_segments * segment_size", f"n_rows = {hand.rows}"]


def segment_defaults() -> dict[str, str]:
    """Give the settings of a tunable pass over segments, and what the rule says of each."""
    return {**{name: name for name in CHOSEN}, "NUM_STAGES": "1"}


def segment_setting_lines(source: str, timed_pass: str | None) -> list[str]:
    """Choose the settings; those of a ``timed_pass`` may have been found by measuring."""
    if timed_pass is None:
        return [SETTING_LINE]
    given = ", ".join(f"{name}={value}" for name, value in segment_defaults().items())
    taken = ", ".join(f'tuned["{name}"]' for name in CHOSEN)
    look_up = f'tuned = _tuned({source}.device, "{timed_pass}", n_cols, {given})'
    return [SETTING_LINE, look_up, f"{', '.join(CHOSEN)} = {taken}"]


def segment_settings(tunable: bool) -> tuple[str, ...]:
    """Give the settings that a launch passes."""
    stages = ('NUM_STAGES=tuned["NUM_STAGES"]',) if tunable else ()
    return ("BLOCK_SEGMENTS=BLOCK_SEGMENTS", "BLOCK_SIZE=BLOCK_SIZE", *stages, "num_warps=num_warps")


def segment_buffer(store: Store, device: str) -> str:
    """Allocate what the programs leave of a sum."""
    size = "(n_rows, n_segments)" if store.space.segments else "n_rows"
    return f"{store.buffer} = torch.empty({size}, dtype=torch.float32, {device})"


def segment_total(hand: Hand, store: Store, node: str, dtype: str) -> str:
    """Add up the sums of all rows of a segment, in the shape of the tensor."""
    dims = ", ".join(hand.product(dim) for dim in hand.program.domain.shapes[node])
    return f"{store.name} = {store.buffer}.view(-1, {dims}).sum(dim=0).to({dtype})"
