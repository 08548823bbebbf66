"""The schedule of element-wise kernels: the tensors as one long row, a block a program. Pure."""

from __future__ import annotations

from workers.authors.compiler.domain import SCALAR
from workers.authors.compiler.kernels import KernelSource
from workers.authors.compiler.schedules.base import KernelWriter
from workers.authors.compiler.statements import write_loop


class FlatKernel(KernelWriter):
    """Every element stands alone."""

    def write(self) -> KernelSource:
        """Give the kernel's source."""
        scope = self.scope()
        for load in self.loads:
            name = self.tensor(load)
            scope.env[load] = name
            if load.space == SCALAR:
                text = f"tl.load({name}_ptr)"
            else:
                text = f"tl.load({name}_ptr + offsets, mask=mask, other=0.0{self.hint(load)})"
            scope.line(f"{name} = {self.converted(text, load)}")
        scope.line("")
        for loop in self.loops:
            write_loop(scope, self.scope(scope.depth + 1), loop, f"for _ in range({loop.count}):", lambda *_: None)
        stored: list[tuple[str, str]] = []
        for store in self.task.stores:
            text = scope.env.get(store.value) or scope.assign(store.value, store.name)
            stored.append((store.buffer, text))
        for buffer, text in stored:
            scope.line(f"tl.store({buffer}_ptr + offsets, {text}, mask=mask)")
        hints = self.hint_lines(scope.lines)
        head = [
            "    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)",
            f"    mask = {'(offsets < n_elements) | EVEN' if self.task.form.tunable else 'offsets < n_elements'}",
            *self.scalar_lines(),
            *hints,
            "",
        ]
        sizes = ("n_cols", "n_elements") if self.scalars.needs_n_cols else ("n_elements",)
        constants = [
            "BLOCK_SIZE",
            *(["EVEN"] if self.task.form.tunable else []),
            *(["EVICT_FIRST"] if hints else []),
        ]
        return self.finish(head + scope.lines, sizes, tuple(constants))
