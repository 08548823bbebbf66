"""Launchers: the functions that allocate, choose settings and start kernels. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.compiler.domain import COL, FULL, SCALAR
from workers.authors.compiler.hand import Hand
from workers.authors.compiler.kernels import KernelSource, KernelTask, Store
from workers.authors.compiler.partial_rows import size_axes
from workers.authors.compiler.program import Program
from workers.authors.compiler.statements import INDENT

LOOP_BLOCK, LOOP_WARPS = 8192, 16
FLAT_BLOCK = 4096


@dataclass(frozen=True)
class Pass:
    """Forward or backward: its kernel, the kernel for rows wider than ``widest`` columns, and what its launcher has at hand."""

    program: Program
    task: KernelTask
    kernel: KernelSource
    wide: KernelSource | None
    widest: int
    hand: Hand

    @property
    def is_flat(self) -> bool:
        """Tell whether every element stands alone."""
        return self.task.is_flat(self.program.domain)

    @property
    def kernels(self) -> tuple[KernelSource, ...]:
        """Give the kernels that the pass may start."""
        return (self.kernel,) if self.wide is None else (self.kernel, self.wide)

    @property
    def full_loads(self) -> int:
        """Count the tensors of every row and column that the pass loads."""
        return sum(value.op == "load" and value.space == FULL for value in self.kernel.values)

    @property
    def source(self) -> str:
        """Give the tensor at hand whose dtype and device the others follow."""
        return self.hand.source


def size_lines(stage: Pass) -> list[str]:
    """Compute the sizes that the kernels ask for."""
    lines = []
    asked = {size for kernel in stage.kernels for size in kernel.sizes}
    if "n_elements" in asked:
        lines.append(f"n_elements = {stage.hand.elements}")
    if "n_cols" in asked or "n_rows" in asked:
        lines.append(f"n_cols = {stage.hand.cols}")
    if "n_rows" in asked:
        lines.append(f"n_rows = {stage.hand.rows}")
    return lines + _partial_size_lines(stage)


def _partial_size_lines(stage: Pass) -> list[str]:
    lines = []
    for size in dict.fromkeys(size for kernel in stage.kernels for size in kernel.sizes):
        for text, node in stage.hand.tensors:
            for suffix in ("repeats", "rows"):
                if size == f"{text}_{suffix}" and size != "n_rows":
                    axes = size_axes(stage.program, node, suffix == "repeats")
                    lines.append(f"{size} = {stage.hand.product(axes)}")
    return lines


def setting_lines(stage: Pass) -> list[str]:
    """Choose the settings of a pass."""
    if stage.is_flat:
        return [f"BLOCK_SIZE, num_warps = calculate_settings(min(n_elements, {FLAT_BLOCK}))"]
    if not stage.task.reduces_cols:
        lines = ["BLOCK_ROWS, BLOCK_SIZE, num_warps = _block_settings(n_cols)"]
    else:
        chosen = f"_tile_settings(min(n_cols, {stage.widest}), {1 << max(0, stage.full_loads - 1).bit_length()})"
        if stage.task.sums_rows:
            chosen = f"_persistent_settings(min(n_cols, {stage.widest}))"
        lines = [f"BLOCK_ROWS, BLOCK_SIZE, num_warps = {chosen}"]
    if stage.task.sums_rows:
        lines.append(
            f"tile_bytes = {max(1, stage.full_loads)} * BLOCK_ROWS * BLOCK_SIZE * {stage.source}.element_size()"
        )
        lines.append(f"NUM_STAGES = _num_stages({stage.source}.device, tile_bytes)")
        lines.append(f"n_programs = _num_programs({stage.source}.device, triton.cdiv(n_rows, BLOCK_ROWS))")
        if not stage.task.reduces_cols:
            lines.append("n_blocks = triton.cdiv(n_cols, BLOCK_SIZE)")
    return lines


def allocation(stage: Pass, store: Store, node: str | None, dtype: str | None) -> str:
    """Allocate what a kernel writes; ``node`` is the graph's tensor, None for a row number that is saved in float32."""
    device = f"device={stage.source}.device"
    if store.summed and store.space == SCALAR:
        count = "n_programs" if stage.task.reduces_cols else "n_programs * n_blocks"
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
    return [f"if n_cols <= {stage.widest}:", *narrow, "else:", *wide]


def _launch(stage: Pass, kernel: KernelSource) -> list[str]:
    arguments = [*kernel.tensors, *(number.text for number in kernel.numbers), *kernel.sizes]
    settings = ["BLOCK_SIZE=BLOCK_SIZE", "num_warps=num_warps"]
    if kernel is stage.wide:
        settings = [f"BLOCK_SIZE={LOOP_BLOCK}", f"num_warps={LOOP_WARPS}"]
    elif "BLOCK_ROWS" in kernel.constants:
        settings.insert(0, "BLOCK_ROWS=BLOCK_ROWS")
    if "NUM_STAGES" in kernel.constants:
        settings.insert(2, "NUM_STAGES=NUM_STAGES")
    lines = [f"{kernel.name}[{_grid(stage, kernel)}]("]
    return [*lines, *(f"{INDENT}{argument}," for argument in [*arguments, *settings]), ")"]


def _grid(stage: Pass, kernel: KernelSource) -> str:
    if stage.is_flat:
        return "(triton.cdiv(n_elements, BLOCK_SIZE),)"
    if stage.task.sums_rows:
        return "(n_programs,)" if stage.task.reduces_cols else "(n_programs, n_blocks)"
    if "BLOCK_ROWS" not in kernel.constants:
        return "(n_rows,)"
    tiles = "triton.cdiv(n_rows, BLOCK_ROWS)"
    return f"({tiles},)" if stage.task.reduces_cols else f"({tiles}, triton.cdiv(n_cols, BLOCK_SIZE))"


def gathered(stage: Pass, store: Store, node: str, dtype: str) -> str:
    """Add up what the programs left."""
    text = f"{store.name} = {store.buffer}.sum(dim=0).to({dtype})"
    shape = stage.program.domain.shapes[node]
    expected = 1 if store.space == COL else 0
    plain = len(shape) == expected and (store.value.op == "cat" or all(len(dim) == 1 for dim in shape))
    return text if plain else f"{text}.view{_view(stage, node)}"


def _view(stage: Pass, node: str) -> str:
    dims = [stage.hand.product(dim) for dim in stage.program.domain.shapes[node]]
    return f"({', '.join(dims)})" if dims else "(())"
