"""The dimensions of a problem as variables of generated code: what they are called and which sizes tests give them. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_runner.contracts import Expr, Graph, InputSpec, Problem

# What a dimension of a common name is called in a module's signature and in a model's configuration.
MEANINGS = {
    "H": "hidden_size",
    "hidden": "hidden_size",
    "D": "hidden_size",
    "I": "intermediate_size",
    "F": "intermediate_size",
    "V": "vocab_size",
    "vocab": "vocab_size",
    "C": "num_channels",
    "G": "num_groups",
    "O": "output_size",
    "l": "length",
}
MODEL_KEYS = ("hidden_size", "intermediate_size", "vocab_size")

# Names that generated code uses itself, so that no input and no dimension may bear them.
TAKEN = frozenset({
    "F", "args", "atol", "cfg", "device", "dtype", "expected", "grad_output", "input", "layer", "math", "model", "model_cfg", "nn",
    "os", "output", "pytest", "reference", "rtol", "self", "set_seed", "sys", "torch",
})  # fmt: skip

# A power of two, an odd width beside one, primes, and less than any block; the first is the widest.
COLUMN_SIZES = (4096, 2048, 1023, 256, 5)
ROW_SIZES = ((16, 8, 1, 21, 3), (2, 4, 1, 3, 1), (8, 16, 1, 7, 2), (3, 2, 1, 5, 4))


@dataclass(frozen=True)
class Axes:
    """The named dimensions of a problem: ``rows`` come before the ``columns`` dimension of the widest input."""

    rows: tuple[str, ...]
    columns: str | None
    variables: tuple[tuple[str, str], ...]  # dimension -> variable of generated code

    def variable(self, dim: str) -> str:
        """Give the variable of a dimension, or the number that it is."""
        return dict(self.variables).get(dim, dim)

    @property
    def all(self) -> tuple[str, ...]:
        """Give the dimensions, rows first."""
        return self.rows if self.columns is None else (*self.rows, self.columns)


def axes_of(problem: Problem) -> Axes:
    """Tell rows from columns: the columns are the last named dimension of the call input with the most dimensions."""
    calls = [spec for spec in problem.inputs if not spec.parameter] or list(problem.inputs)
    widest = max(calls, key=lambda spec: len(spec.dims))
    named = [dim for dim in widest.dims if not dim.isdigit()]
    high = [spec.high for spec in problem.inputs if isinstance(spec.high, str)]
    everything = tuple(dict.fromkeys([*problem.dimensions, *high]))
    columns = named[-1] if named else None
    return Axes(tuple(dim for dim in everything if dim != columns), columns, _variables(problem, everything))


def shape(spec: InputSpec, axes: Axes) -> tuple[str, ...]:
    """Give an input's sizes as expressions."""
    return tuple(axes.variable(dim) for dim in spec.dims)


def local(name: str) -> str:
    """Give the variable of an input, apart from what generated code uses itself."""
    return f"{name}_input" if name in TAKEN else name


def suite_sizes(axes: Axes, factors: Mapping[str, int] | None = None) -> tuple[tuple[int, ...], ...]:
    """Give sizes of the dimensions for tests, in the order of ``axes.all``; small enough for Triton's interpreter.

    ``factors`` names dimensions that the problem divides, such as a row that is halved: their sizes are multiples.
    """
    patterns = ROW_SIZES[:1] if len(axes.rows) == 1 else ROW_SIZES[1:]
    rows = [patterns[i % len(patterns)] for i in range(len(axes.rows))]
    columns = [COLUMN_SIZES] if axes.columns is not None else []
    sizes = [
        tuple(_multiple(size, (factors or {}).get(dim, 1)) for size in column)
        for dim, column in zip(axes.all, [*rows, *columns], strict=True)
    ]
    return tuple(zip(*sizes, strict=True)) or ((),)


def factors_of(graph: Graph, scalars: Mapping[str, object] | None = None) -> dict[str, int]:
    """Give the dimensions that the graph divides into whole parts, with the number of parts; ``scalars`` are those of the calls."""
    texts = [e.text for node in graph.nodes for e in (*node.meta.shape, *node.args) if isinstance(e, Expr)]
    factors: dict[str, int] = {}
    for dim, parts in re.findall(r"\b([A-Za-z_]\w*) // (\d+)", " ; ".join(texts)):
        factors[dim] = math.lcm(factors.get(dim, 1), max(int(parts), 1))
    known = {name: value for name, value in (scalars or {}).items() if type(value) is int}
    for rule in graph.multiples:
        of = math.prod(int(text) if text.isdigit() else known.get(text, 1) for text in re.findall(r"\w+", rule.of))
        factors[rule.dimension] = math.lcm(factors.get(rule.dimension, 1), of)
    return factors


def _multiple(size: int, factor: int) -> int:
    return max(size - size % factor, factor)


def _variables(problem: Problem, dims: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    used = {local(name) for name in problem.parameters} | TAKEN
    chosen: list[tuple[str, str]] = []
    for dim in dims:
        wanted = MEANINGS.get(dim, dim)
        variable = next(
            v for v in (wanted, dim, *(f"{dim}_{n}" for n in range(2, 99))) if v not in used and v not in "lIO"
        )
        used.add(variable)
        chosen.append((dim, variable))
    return tuple(chosen)
