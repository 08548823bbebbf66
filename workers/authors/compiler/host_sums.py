"""Outputs that are computed from sums over all rows: what a launcher does with them, in torch. Pure."""

from __future__ import annotations

from workers.authors.compiler.axes import Shape
from workers.authors.compiler.expressions import ATOM, COMPARE, FORMULA, UNARY, Text, compose
from workers.authors.compiler.hand import Hand
from workers.authors.compiler.naming import Names
from workers.authors.compiler.program import Program, Result
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.rounding import ROUNDED
from workers.authors.compiler.sizes import names_in, renamed
from workers.authors.compiler.values import Value

# A launcher adds up and divides; anything more is work for a kernel.
_OPERATORS = frozenset(["add", "sub", "mul", "div", "neg", "reciprocal"])
_POWERS = {"sqrt": "0.5", "rsqrt": "-0.5"}


def host_line(program: Program, names: Names, hand: Hand, name: str, result: Result, dtype: str) -> str:
    """Compute an output from the sums that the programs left."""
    written = _Host(program, names, hand).written(result.value)
    shape = program.domain.shapes[result.node]
    view = "" if len(shape) == (1 if result.space.cols else 0) else f".view({_dims(hand, shape)})"
    return f"{name} = {written.within(ATOM)}.to({dtype}){view}"


def _dims(hand: Hand, shape: Shape) -> str:
    return ", ".join(hand.product(dim) for dim in shape)


class _Host:
    def __init__(self, program: Program, names: Names, hand: Hand) -> None:
        self._program, self._names, self._hand = program, names, hand
        self._sums = {key for key, _ in (*program.saved, *program.sums)}

    def written(self, value: Value) -> Text:
        if value.op == "load":
            name = self._names.tensors[str(value.datum)]
            if value.datum in self._sums:
                return Text(name)
            return Text(f"{name}.view({'-1' if value.space.cols else '()'}).float()")
        if value.op == "scalar":
            return Text(self._on_host(str(value.datum)), COMPARE)
        if value.op == ROUNDED:
            return self.written(value.args[0])
        if value.op in _POWERS:
            base = self.written(value.args[0]).within(ATOM)
            return Text(
                f"{base}**{_POWERS[value.op]}" if base.isidentifier() else f"{base} ** {_POWERS[value.op]}", UNARY
            )
        if value.args and value.op not in _OPERATORS:
            raise CannotCompileError(
                f"`{value.op}` is taken of a sum over all rows, which takes another kernel", value.op
            )
        return compose(value, FORMULA, self.written)

    def _on_host(self, text: str) -> str:
        scalars = self._names.scalars
        sizes = {name: self._hand.dimension(name) for name in names_in(text) if name not in scalars}
        return renamed(text, {**scalars, **sizes})
