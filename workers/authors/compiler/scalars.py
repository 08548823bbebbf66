"""Numbers that a kernel gets from its launcher: scalars of the reference and sizes. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_runner.contracts.graph import Expr
from workers.authors.compiler.expressions import COMPARE, Text
from workers.authors.compiler.naming import Names
from workers.authors.compiler.program import Program
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import Sizes, evaluate, names_in


@dataclass(frozen=True)
class HostNumber:
    """A float that the launcher computes: ``name`` in the kernel, ``text`` in the launcher."""

    name: str
    text: str


class Scalars:
    """Writes arithmetic over scalars and dimensions in a kernel, and remembers what the kernel must be given."""

    def __init__(self, program: Program, names: Names) -> None:
        self._program = program
        self._names = names
        self._sizes = Sizes.of(program.problem.dimensions)
        self._hosted: dict[str, HostNumber] = {}
        self.used: dict[str, HostNumber] = {}
        self.needs_n_cols = False

    def begin(self) -> None:
        """Forget what the last kernel used."""
        self.used = {}
        self.needs_n_cols = False

    def written(self, text: str) -> Text:
        """Write arithmetic as the kernel computes it."""
        names = names_in(text)
        if all(name in self._names.scalars for name in names):
            for name in names:
                self._use(HostNumber(self._names.scalars[name], f"float({self._names.scalars[name]})"))
            renamed = _renamed(text, self._names.scalars)
            return Text(renamed) if renamed.isidentifier() else Text(renamed, COMPARE)
        if text not in self._hosted:
            if self._is_n_cols(text):
                self.needs_n_cols = True
                return Text("n_cols")
            self._hosted[text] = HostNumber(self._names.free("count"), f"float({self._on_host(text, names)})")
        self._use(self._hosted[text])
        return Text(self._hosted[text].name)

    def _use(self, number: HostNumber) -> None:
        self.used[number.name] = number

    def _is_n_cols(self, text: str) -> bool:
        try:
            product = 1
            for axis in self._program.domain.col_axes:
                product *= self._sizes.value(self._program.domain.sizes[axis])
            return evaluate(Expr(text), self._sizes.stand_ins) == product
        except CannotCompileError:
            return False

    def _on_host(self, text: str, names: tuple[str, ...]) -> str:
        table = dict(self._names.scalars)
        for name in names:
            if name not in table:
                table[name] = dimension_text(self._program, self._names, name)
        return _renamed(text, table)


def dimension_text(program: Program, names: Names, dimension: str) -> str:
    """Give how a launcher reads a dimension's size off a tensor that it has.

    Raises:
        CannotCompileError: no input has it.
    """
    for spec in sorted(program.problem.inputs, key=lambda spec: -len(spec.dims)):
        if dimension in spec.dims:
            position = spec.dims.index(dimension)
            return f"{names.tensors[spec.name]}.shape[{position - len(spec.dims) if position == len(spec.dims) - 1 else position}]"
    raise CannotCompileError(f"no input has the dimension `{dimension}`")


def _renamed(text: str, table: dict[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda match: table.get(match.group(), match.group()), text)
