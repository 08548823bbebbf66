"""The schedule of element-wise kernels: the tensors as one long row, a block a program. Pure."""

from __future__ import annotations

import math
from typing import Self

from workers.authors.compiler.domain import SCALAR
from workers.authors.compiler.host import HostScope, Scalars
from workers.authors.compiler.kernels import KernelForm, KernelSource, KernelTask, Store
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import ValueProgram
from workers.authors.compiler.schedules.base import HINTED, KernelWriter, Knobs, Schedule, started
from workers.authors.compiler.statements import INDENT, write_loop
from workers.authors.compiler.values import TileValue

# Eight elements a thread are a load of 16 bytes of each tensor in half precision; functions of several instructions overlap with
# more. Measured: H200, bfloat16, blocks of 4096 and 2048, 8 warps: the square of a rectifier 119 and 115 us, GeGLU backward 280 and
# 277, SwiGLU the same, JSD backward, with four exponentials and a logarithm, 178 and 190.
BLOCK, BLOCK_OF_FUNCTIONS, MOST_FUNCTIONS = 2048, 4096, 1
FUNCTIONS = frozenset(
    ["exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "sigmoid", "tanh", "libdevice_tanh", "erf", "sin", "cos"]
)


class Flat(Schedule):
    """Elementwise: a program takes a block of elements."""

    @staticmethod
    def fits(task: KernelTask, program: ValueProgram) -> bool:
        return task.is_flat(program.domain)

    @classmethod
    def of(cls, program: ValueProgram, names: TensorNames, scalars: Scalars, task: KernelTask, host: HostScope) -> Self:
        """Writes the kernel."""
        return cls(program, task, FlatKernel(program, names, scalars, task).write(), host)

    @property
    def settings(self) -> dict[str, str]:
        """The block and its warps."""
        return {"BLOCK_SIZE": "BLOCK_SIZE", "num_warps": "num_warps", **self.streamed_settings}

    def setting_lines(self) -> list[str]:
        """Lines that choose the settings by the number of elements."""
        block = _block(self.task)
        even = _fills_blocks(self.program, self.form, block)
        full = not self.form.tunable and _fixed_elements(self.program) >= block  # in every call that has elements
        # Behind a guard no call is without elements: a choice for none would be one of which no case sees the other side.
        some = "n_elements + 1" if self.form.tunable else "max(n_elements, 1)"
        most = str(block) if full else f"min({some}, {block})"
        rule = f"BLOCK_SIZE, num_warps = calculate_settings({most})"
        if even:  # a mask would keep other shapes than the problem's from memory of others
            message = f'raise ValueError(f"{{n_elements}} elements are no multiple of {block}")'
            return [f"if n_elements % {block}:", INDENT + message, rule]
        return [rule, *(self.tuned_lines("n_elements", "BLOCK_SIZE", "num_warps") if self.form.tunable else [])]

    def launch_lines(self) -> list[str]:
        """Lines that start a program for each block."""
        constants = {
            "BLOCK_SIZE": "BLOCK_SIZE",
            "EVEN": "n_elements % BLOCK_SIZE == 0",
            "STREAMED": HINTED,
        }
        return started(self.kernel, "(triton.cdiv(n_elements, BLOCK_SIZE),)", constants)

    def knobs(self, cols: list[int]) -> Knobs:
        """The block and its warps, whatever the columns."""
        return [("BLOCK_SIZE", (1024, 2048, 4096, 8192)), ("num_warps", (4, 8, 16)), *self.streamed_knobs]


def _block(task: KernelTask) -> int:
    """The elements of a block, by how many functions a kernel computes of each."""
    return BLOCK_OF_FUNCTIONS if sum(value.op in FUNCTIONS for value in task.values) > MOST_FUNCTIONS else BLOCK


def _fills_blocks(program: ValueProgram, form: KernelForm, block: int) -> bool:
    """Whether fixed dimensions make every block a full one, so that a mask would hold all of it in every call."""
    return not (form.tunable or form.strides_the_grid) and _fixed_elements(program) % block == 0


def _fixed_elements(program: ValueProgram) -> int:
    """The product of the dimensions that are numbers."""
    sizes = (program.domain.sizes[axis] for axis in program.domain.memory)
    return math.prod(size for size in sizes if isinstance(size, int))


class FlatKernel(KernelWriter):
    @property
    def _mask(self) -> str:
        return "" if _fills_blocks(self.program, self.form, _block(self.task)) else ", mask=mask"

    def write(self) -> KernelSource:
        """The kernel as source."""
        scope = self.scope(2 if self.form.strides_the_grid else 1)
        for load in self.loads:
            name = self.tensor(load)
            scope.env[load] = name
            scope.line(f"{name} = {self.converted(self._loaded(load), load)}")
        scope.line("")
        for loop in self.loops:
            write_loop(scope, self.scope(scope.depth + 1), loop, f"for _ in range({loop.count}):", lambda *_: None)
        stored = [
            (store, scope.env.get(store.value) or scope.assign(store.value, store.name)) for store in self.task.stores
        ]
        for store, text in stored:
            scope.line(self._stored(store, text))
        head = [*self._place(), *self.scalar_lines(), ""]
        if self.form.strides_the_grid:
            head = [*self.scalar_lines(), *self._stride()]
        sizes = ("n_cols", "n_elements") if self.scalars.needs_n_cols else ("n_elements",)
        constants = [
            "BLOCK_SIZE",
            *(["EVEN"] if self.task.form.tunable else []),
            *self.hint_constants(scope.lines),
        ]
        return self.finish(head + scope.lines, sizes, tuple(constants))

    def _loaded(self, load: TileValue) -> str:
        name = self.tensor(load)
        if load.space == SCALAR:
            return f"tl.load({name}_ptr)"
        other = ", other=0.0" if self._mask else ""
        return f"tl.load({name}_ptr + offsets{self._mask}{other}{self.hint(load)})"

    def _stored(self, store: Store, text: str) -> str:
        return f"tl.store({store.buffer}_ptr + offsets, {text}{self._mask})"

    def _place(self) -> list[str]:
        mask = f"    mask = {'(offsets < n_elements) | EVEN' if self.form.tunable else 'offsets < n_elements'}"
        return [
            "    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)",
            *([mask] if self._mask else []),
        ]

    @staticmethod
    def _stride() -> list[str]:
        return [
            "    for block in tl.range(tl.program_id(0), tl.cdiv(n_elements, BLOCK_SIZE), tl.num_programs(0)):",
            "        offsets = tl.cast(block, tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)",
            "        mask = offsets < n_elements",
        ]
