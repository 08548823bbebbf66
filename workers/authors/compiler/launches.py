"""Launchers: the lines that allocate, choose settings and start kernels. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.compiler.domain import COL, FULL, ROW, SCALAR
from workers.authors.compiler.host import Hand, partial_size_lines, run_size_lines
from workers.authors.compiler.kernels import Form, KernelSource, KernelTask, Store
from workers.authors.compiler.program import Program
from workers.authors.compiler.schedules.segmented import (
    GRID,
    segment_buffer,
    segment_defaults,
    segment_setting_lines,
    segment_settings,
    segment_size_lines,
    segment_total,
)
from workers.authors.compiler.statements import INDENT


def tile_bytes(tensors: int, row_numbers: int, source: str) -> str:
    """Give the bytes of a tile of whole rows, with numbers of each row of at most eight bytes, which weigh where rows are short."""
    tile = f"{_times(tensors)}BLOCK_SIZE * {source}.element_size()"
    return f"BLOCK_ROWS * ({tile} + {8 * row_numbers})" if row_numbers else f"BLOCK_ROWS * {tile}"


def block_bytes(tensors: int, vectors: int, source: str) -> str:
    """Give the bytes of a block of one row, with vectors of at most four bytes a column."""
    element = f"{_times(tensors)}{source}.element_size()"
    return f'tuned["LOOP_BLOCK"] * ({element} + {4 * vectors})' if vectors else f'tuned["LOOP_BLOCK"] * {element}'


def _times(count: int) -> str:
    return f"{count} * " if count > 1 else ""


LOOP_BLOCK, LOOP_WARPS, LOOP_STAGES = 8192, 16, 3
ONCE_BLOCK, ONCE_WARPS = 4096, 8
FLAT_BLOCK = 4096
WIDEST_TILE = 65536
MOST_STAGES = 3


@dataclass(frozen=True)
class Pass:
    """Forward or backward: its kernel, the kernel for rows wider than ``widest`` columns, and what its launcher has at hand."""

    program: Program
    task: KernelTask
    kernel: KernelSource
    wide: KernelSource | None
    widest: int
    hand: Hand
    overwrites: tuple[tuple[str, str], ...] = ()  # stores, and the tensors into whose memory they go
    once: bool = False  # the kernel for wide rows reads them once
    most: int | None = None  # columns that it takes; None: any number

    @property
    def form(self) -> Form:
        """Give the form of its kernels."""
        return self.task.form

    @property
    def is_flat(self) -> bool:
        """Tell whether every element stands alone."""
        return self.task.is_flat(self.program.domain)

    @property
    def is_segmented(self) -> bool:
        """Tell whether the rows fall into segments."""
        return "BLOCK_SEGMENTS" in self.kernel.constants

    @property
    def loop_settings(self) -> tuple[int, int]:
        """Give the block and the warps that the rule has for wide rows."""
        return (ONCE_BLOCK, ONCE_WARPS) if self.once else (LOOP_BLOCK, LOOP_WARPS)

    @property
    def kernels(self) -> tuple[KernelSource, ...]:
        """Give the kernels that the pass may start."""
        return (self.kernel,) if self.wide is None else (self.kernel, self.wide)

    @property
    def full_loads(self) -> int:
        """Count the tensors of every row and column that the pass loads."""
        return sum(value.op == "load" and value.space == FULL for value in self.kernel.values)

    @property
    def row_loads(self) -> int:
        """Count the numbers of every row that the pass loads, of eight bytes at most."""
        return sum(value.op == "load" and value.space == ROW for value in self.kernel.values)

    @property
    def vectors(self) -> int:
        """Count what a turn over a block of columns loads besides tensors: vectors of all columns, and sums so far."""
        loads = sum(value.op == "load" and value.space == COL for value in self.kernel.values)
        return loads + sum(store.summed and store.space == COL for store in self.task.pieces)

    @property
    def streams(self) -> bool:
        """Tell whether programs that take many rows each pay for rows that are stored: they load several vectors but once.

        Measured: H200, bfloat16, 16384 x 8192: layer norm 142.8 us, with two vectors; rms norm, with one, is slower that way.
        """
        vectors = sum(value.op == "load" and value.space == COL for value in self.kernel.values)
        return self.form.tunable and self.task.reduces_cols and not self.task.sums_rows and vectors > 1

    @property
    def source(self) -> str:
        """Give the tensor at hand whose dtype and device the others follow."""
        return self.hand.source


def size_lines(stage: Pass) -> list[str]:
    """Compute the sizes that the kernels ask for."""
    if stage.is_segmented:
        return segment_size_lines(stage.hand) + _partial_sizes(stage)
    lines = []
    asked = {size for kernel in stage.kernels for size in kernel.sizes}
    if "n_elements" in asked:
        lines.append(f"n_elements = {stage.hand.elements}")
    if "n_cols" in asked or "n_rows" in asked:
        lines.append(f"n_cols = {stage.hand.cols}")
    if "n_rows" in asked:
        lines.append(f"n_rows = {stage.hand.rows}")
    return lines + _partial_sizes(stage)


def _partial_sizes(stage: Pass) -> list[str]:
    sizes = tuple(size for kernel in stage.kernels for size in kernel.sizes)
    return [*partial_size_lines(stage.hand, sizes), *run_size_lines(stage.hand, sizes)]


def setting_lines(stage: Pass) -> list[str]:
    """Choose the settings of a pass."""
    if stage.is_segmented:
        return segment_setting_lines(stage.source, stage.form.tuned_pass.value if stage.form.tunable else None)
    if stage.form.tunable:
        return _tuned_lines(stage)
    if stage.is_flat:
        return [f"BLOCK_SIZE, num_warps = calculate_settings(min(n_elements, {FLAT_BLOCK}))"]
    if not stage.task.reduces_cols:
        lines = ["BLOCK_ROWS, BLOCK_SIZE, num_warps = _block_settings(n_cols)"]
    else:
        width = "n_cols" if stage.wide is None else f"min(n_cols, {stage.widest})"
        chosen = f"_tile_settings({width}, {1 << max(0, stage.full_loads - 1).bit_length()})"
        if stage.task.is_persistent:
            chosen = f"_persistent_settings({width})"
        lines = [f"BLOCK_ROWS, BLOCK_SIZE, num_warps = {chosen}"]
    if stage.task.sums_rows:
        lines.append(
            "NUM_STAGES = 1"
            if not stage.task.is_persistent
            else f"tile_bytes = {tile_bytes(stage.full_loads, stage.row_loads, stage.source)}"
        )
        if stage.task.is_persistent:
            lines.append(f"NUM_STAGES = _num_stages({stage.source}.device, tile_bytes)")
        tiles = "triton.cdiv(n_rows, BLOCK_ROWS)"
        few = f"_num_programs({stage.source}.device, {tiles})"
        lines.append(f"n_programs = {few if stage.task.is_persistent else tiles}")
        if not stage.task.reduces_cols:
            lines.append("n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)")
    return lines


def _tuned_lines(stage: Pass) -> list[str]:
    """The rule's settings, and what was found by measuring in their place."""
    defaults = tuned_defaults(stage)
    size = "n_elements" if stage.is_flat else "n_cols"
    given = ", ".join(f"{name}={value}" for name, value in defaults.items())
    look_up = f'tuned = _tuned({stage.source}.device, "{stage.form.tuned_pass.value}", {size}, {given})'
    chosen = [name for name in defaults if name in {"BLOCK_ROWS", "BLOCK_SIZE", "num_warps"}]
    taken = f"{', '.join(chosen)} = {', '.join(f'tuned[{name!r}]' for name in chosen)}".replace("'", '"')
    if stage.is_flat:
        return [f"BLOCK_SIZE, num_warps = calculate_settings(min(n_elements, {FLAT_BLOCK}))", look_up, taken]
    rule = "_block_settings(n_cols)"
    if stage.task.reduces_cols:
        width = "n_cols" if stage.wide is None else f"min(n_cols, {WIDEST_TILE})"
        powers = 1 << max(0, stage.full_loads - 1).bit_length()
        rule = f"_persistent_settings({width})" if stage.task.is_persistent else f"_tile_settings({width}, {powers})"
        rule = f"_streaming_settings({width})" if stage.streams else rule
    lines = [f"BLOCK_ROWS, BLOCK_SIZE, num_warps = {rule}", look_up, taken]
    lines += [
        "n_tiles = triton.cdiv(n_rows, BLOCK_ROWS)",
        f"tile_bytes = {tile_bytes(stage.full_loads, stage.row_loads, stage.source)}",
        "n_programs, NUM_STAGES = _programs_and_stages("
        f'{stage.source}.device, n_tiles, tile_bytes, tuned["PROGRAMS"], tuned["NUM_STAGES"])',
    ]
    return lines if stage.task.reduces_cols else [*lines, "n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)"]


def tuned_defaults(stage: Pass) -> dict[str, str]:
    """Give the settings of a tunable pass, and what the rule says of each.

    ``PROGRAMS`` are those of a multiprocessor that take tiles in turn, none for a program a tile; rows up to ``WIDEST`` columns
    are held in registers.
    """
    if stage.is_segmented:
        return segment_defaults()
    block = {"BLOCK_SIZE": "BLOCK_SIZE"}
    found = {} if stage.is_flat else {"BLOCK_ROWS": "BLOCK_ROWS"}
    found |= {} if stage.task.reduces_cols else block
    found["num_warps"] = "num_warps"
    if not stage.is_flat:
        found |= {"PROGRAMS": str(int(stage.task.is_persistent or stage.streams)), "NUM_STAGES": str(MOST_STAGES)}
    if stage.wide is not None:
        loop_block, loop_warps = stage.loop_settings
        found |= {"WIDEST": str(stage.widest), "LOOP_BLOCK": str(loop_block), "LOOP_WARPS": str(loop_warps)}
        found["LOOP_STAGES"] = str(LOOP_STAGES)
    if any("EVICT_FIRST" in kernel.constants for kernel in stage.kernels):
        found["EVICT_FIRST"] = "0"
    return found


def allocation(stage: Pass, store: Store, node: str | None, dtype: str | None) -> str:
    """Allocate what a kernel writes; ``node`` is the graph's tensor, None for a row number that is saved in float32."""
    device = f"device={stage.source}.device"
    if store.name in dict(stage.overwrites):
        taken = dict(stage.overwrites)[store.name]
        return f"{store.buffer} = {taken}  # every element of {taken} is read before it is written"
    if store.summed and stage.is_segmented:
        return segment_buffer(store, device)
    if store.summed and store.space == SCALAR:
        count = "n_programs" if stage.task.reduces_cols else "n_programs * n_blocks"
        if store.value.op == "cat":
            count = f"({count}, {len(store.value.args)})"
        return f"{store.buffer} = torch.empty({count}, dtype=torch.float32, {device})"
    if store.summed:
        width = f"{len(store.value.args)} * n_cols" if store.value.op == "cat" else "n_cols"
        return f"{store.buffer} = torch.empty((n_programs, {width}), dtype=torch.float32, {device})"
    if node is None:
        return f"{store.buffer} = torch.empty(n_rows, dtype=torch.float32, {device})"
    shapes, free = stage.program.domain.shapes, stage.program.fixed_dtype
    alike = [(text, free(other)) for text, other in stage.hand.tensors if shapes[other] == shapes[node]]
    if dtype is None:
        alike = [(text, fixed) for text, fixed in alike if fixed is None]
    if alike:
        return f"{store.buffer} = torch.empty_like({alike[0][0]}{f', dtype={dtype}' if dtype else ''})"
    return f"{store.buffer} = torch.empty({stage.hand.shape(node)}, dtype={dtype or stage.source + '.dtype'}, {device})"


def launch_lines(stage: Pass) -> list[str]:
    """Start the kernel that fits the row."""
    if stage.wide is None:
        return _launch(stage, stage.kernel)
    narrow = [INDENT + line for line in _launch(stage, stage.kernel)]
    wide = [INDENT + line for line in _launch(stage, stage.wide)]
    widest = 'tuned["WIDEST"]' if stage.form.tunable else stage.widest
    if stage.form.tunable:
        wide.insert(0, f"{INDENT}block_bytes = {block_bytes(stage.full_loads, stage.vectors, stage.source)}")
        wide.insert(1, f'{INDENT}LOOP_STAGES = _loop_stages({stage.source}.device, block_bytes, tuned["LOOP_STAGES"])')
    return [f"if n_cols <= {widest}:", *narrow, "else:", *wide]


def _launch(stage: Pass, kernel: KernelSource) -> list[str]:
    arguments = [*kernel.tensors, *(number.text for number in kernel.numbers), *kernel.sizes]
    if stage.is_segmented:
        lines = [f"{kernel.name}[{GRID}]("]
        return [
            *lines,
            *(f"{INDENT}{argument}," for argument in [*arguments, *segment_settings(stage.form.tunable)]),
            ")",
        ]
    if stage.form.tunable:
        settings = _tuned_settings(stage, kernel)
        lines = [f"{kernel.name}[{_grid(stage, kernel)}]("]
        return [*lines, *(f"{INDENT}{argument}," for argument in [*arguments, *settings]), ")"]
    settings = ["BLOCK_SIZE=BLOCK_SIZE", "num_warps=num_warps"]
    if kernel is stage.wide:
        block, warps = stage.loop_settings
        settings = [f"BLOCK_SIZE={block}", f"num_warps={warps}"]
    elif "BLOCK_ROWS" in kernel.constants:
        settings.insert(0, "BLOCK_ROWS=BLOCK_ROWS")
    if "NUM_STAGES" in kernel.constants:
        settings.insert(2, "NUM_STAGES=NUM_STAGES")
    lines = [f"{kernel.name}[{_grid(stage, kernel)}]("]
    return [*lines, *(f"{INDENT}{argument}," for argument in [*arguments, *settings]), ")"]


def _tuned_settings(stage: Pass, kernel: KernelSource) -> list[str]:
    wide = kernel is stage.wide
    even = "n_rows % BLOCK_ROWS == 0 and n_cols % BLOCK_SIZE == 0"
    texts = {
        "BLOCK_ROWS": "BLOCK_ROWS",
        "BLOCK_SIZE": 'tuned["LOOP_BLOCK"]' if wide else "BLOCK_SIZE",
        "NUM_STAGES": "LOOP_STAGES" if wide else "NUM_STAGES",
        "PERSISTENT": "n_programs < n_tiles",
        "EVEN": "n_elements % BLOCK_SIZE == 0" if stage.is_flat else even,
        "EVICT_FIRST": 'tuned["EVICT_FIRST"]',
    }
    warps = 'tuned["LOOP_WARPS"]' if wide else "num_warps"
    return [*(f"{constant}={texts[constant]}" for constant in kernel.constants), f"num_warps={warps}"]


def _grid(stage: Pass, kernel: KernelSource) -> str:
    if stage.is_flat:
        return "(triton.cdiv(n_elements, BLOCK_SIZE),)"
    if stage.task.sums_rows or (stage.form.tunable and kernel is not stage.wide):
        return "(n_programs,)" if stage.task.reduces_cols else "(n_programs, n_blocks)"
    if "BLOCK_ROWS" not in kernel.constants:
        return "(n_rows,)"
    tiles = "triton.cdiv(n_rows, BLOCK_ROWS)"
    return f"({tiles},)" if stage.task.reduces_cols else f"({tiles}, triton.cdiv(n_cols, BLOCK_SIZE))"


def gathered(stage: Pass, store: Store, node: str, dtype: str) -> str:
    """Add up what the programs left."""
    if store.space.segments:
        return segment_total(stage.hand, store, node, dtype)
    text = f"{store.name} = {store.buffer}.sum(dim=0).to({dtype})"
    if stage.form.tunable and store.space == COL:
        text = f"{store.name} = _sum_partials({store.buffer}, {dtype})"
    shape = stage.program.domain.shapes[node]
    expected = 1 if store.space == COL or store.value.op == "cat" else 0
    plain = len(shape) == expected and (store.value.op == "cat" or all(len(dim) == 1 for dim in shape))
    return text if plain else f"{text}.view{_view(stage, node)}"


def _view(stage: Pass, node: str) -> str:
    dims = [stage.hand.product(dim) for dim in stage.program.domain.shapes[node]]
    return f"({', '.join(dims)})" if dims else "(())"
