"""Numbers that a kernel gets from its launcher: scalars of the reference and sizes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.expressions import COMPARE, Text
from workers.authors.compiler.hand import Hand
from workers.authors.compiler.naming import Names
from workers.authors.compiler.program import Program
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import Sizes, evaluate, names_in, renamed
from workers.authors.compiler.values import OFFSET


@dataclass(frozen=True)
class HostNumber:
    """A float that the launcher computes: ``name`` in the kernel, ``text`` in the launcher."""

    name: str
    text: str


class Scalars:
    """Writes arithmetic over scalars and dimensions in a kernel, and remembers what the kernel must be given."""

    def __init__(self, program: Program, names: Names, hand: Hand) -> None:
        self.hand = hand
        self._program = program
        self._names = names
        self._sizes = Sizes.of(program.problem.dimensions, program.graph.multiples)
        self._counts: dict[str, str] = {}
        self.used: dict[str, HostNumber] = {}
        self.needs_n_cols = False

    def begin(self) -> None:
        """Forget what the last kernel used."""
        self.used = {}
        self.needs_n_cols = False

    def written(self, text: str) -> Text:
        """Write arithmetic as the kernel computes it."""
        if text.startswith(OFFSET):
            self.needs_n_cols = True
            moved = text.removeprefix(OFFSET)
            return Text(renamed(moved, dict.fromkeys(names_in(moved), "n_cols")), COMPARE)
        names = names_in(text)
        if set(names) <= self._sizes.scalars and self._is_size_of(text, self._program.domain.col_axes):
            self.needs_n_cols = True
            return Text("n_cols")
        if all(name in self._names.scalars for name in names):
            for name in names:
                self._use(HostNumber(self._names.scalars[name], f"float({self._names.scalars[name]})"))
            written = renamed(text, self._names.scalars)
            return Text(written) if written.isidentifier() else Text(written, COMPARE)
        if self._is_size_of(text, self._program.domain.col_axes):
            self.needs_n_cols = True
            return Text("n_cols")
        if text not in self._counts:
            self._counts[text] = self._names.free("count")
        self._use(HostNumber(self._counts[text], f"float({self._on_host(text, names)})"))
        return Text(self._counts[text])

    def _use(self, number: HostNumber) -> None:
        self.used[number.name] = number

    def _is_size_of(self, text: str, axes: tuple[int, ...]) -> bool:
        try:
            product = 1
            for axis in axes:
                product *= self._sizes.value(self._program.domain.sizes[axis])
            return evaluate(Expr(text), self._sizes.stand_ins) == product
        except CannotCompileError:
            return False

    def _on_host(self, text: str, names: tuple[str, ...]) -> str:
        domain = self._program.domain
        if self._is_size_of(text, (*domain.row_axes, *domain.col_axes)):
            return self.hand.elements
        table = {name: self.hand.dimension(name) for name in names if name not in self._names.scalars}
        return renamed(text, {**self._names.scalars, **table})
