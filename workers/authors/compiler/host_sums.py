"""Outputs that are computed from sums over all rows: what a launcher does with them, in torch. Pure."""

from __future__ import annotations

from workers.authors.compiler.axes import Shape
from workers.authors.compiler.expressions import AND, ATOM, COMPARE, OR, Dialect, Text, compose, number
from workers.authors.compiler.hand import Hand
from workers.authors.compiler.naming import Names
from workers.authors.compiler.program import Program, Result
from workers.authors.compiler.sizes import names_in, renamed
from workers.authors.compiler.values import Value

_SAME_NAME = (
    "abs exp exp2 log log2 log1p expm1 sqrt rsqrt sigmoid tanh erf sin cos sign floor ceil round trunc fmod pow".split()
)
TORCH = Dialect(
    {
        **{op: f"torch.{op}({{0}})" for op in _SAME_NAME if op not in {"fmod", "pow"}},
        "fmod": "torch.fmod({0}, {1})",
        "pow": "torch.pow({0}, {1})",
        "maximum": "torch.maximum({0}, {1})",
        "minimum": "torch.minimum({0}, {1})",
        "where": "torch.where({0}, {1}, {2})",
        "float": "{0}.float()",
    },
    {"logical_and": ("&", AND), "logical_or": ("|", OR)},
    True,
)


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
        if value.op in {"maximum", "minimum"} and (found := self._clamped(value)) is not None:
            return found
        return compose(value, TORCH, self.written)

    def _on_host(self, text: str) -> str:
        scalars = self._names.scalars
        sizes = {name: self._hand.dimension(name) for name in names_in(text) if name not in scalars}
        return renamed(text, {**scalars, **sizes})

    def _clamped(self, value: Value) -> Text | None:
        """One of the two may be a number, which torch wants as a bound."""
        bound = "min" if value.op == "maximum" else "max"
        for one, other in (value.args, value.args[::-1]):
            if other.number is not None:
                return Text(f"{self.written(one).within(ATOM)}.clamp({bound}={number(other.number)})")
        return None
