"""What a launcher knows: sizes and numbers read off the tensors at hand, sums added up on the host. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_runner.contracts.graph import Dim, Expr
from workers.authors.compiler.axes import Shape
from workers.authors.compiler.domain import WindowDim, runs_of
from workers.authors.compiler.expressions import ATOM, COMPARE, FORMULA, UNARY, ExpressionText, compose
from workers.authors.compiler.graph import CannotCompileError, Sizes, evaluate, names_in, renamed
from workers.authors.compiler.names import TensorNames
from workers.authors.compiler.program import Result, ValueProgram
from workers.authors.compiler.rounding import ROUNDED
from workers.authors.compiler.values import OFFSET, TileValue


def run_size_lines(host: HostScope, sizes: tuple[str, ...]) -> list[str]:
    """Compute, in a launcher, those of the sizes that runs need."""
    runs = runs_of(host.program.domain)
    return [
        f"run_{place} = {host.product(run.axes)}"
        for place, run in enumerate(runs)
        if f"run_{place}" in dict.fromkeys(sizes)
    ]


@dataclass(frozen=True)
class HostScope:
    """The tensors of a launcher: their names in the module and in the graph; and the names of the scalars in the module."""

    program: ValueProgram
    tensors: tuple[tuple[str, str], ...]
    scalars: Mapping[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> tuple[str, str] | None:
        """A tensor that has every row and column."""
        return next(((text, node) for text, node in self._whole if not self.program.domain.is_chunked(node)), None)

    @property
    def _whole(self) -> list[tuple[str, str]]:
        domain = self.program.domain
        axes = domain.memory
        return [(text, node) for text, node in self.tensors if domain.axes_of(node) == axes]

    @property
    def packed(self) -> str | None:
        """A tensor that has every row, each with its chunks side by side."""
        return next((text for text, node in self._whole if self.program.domain.is_chunked(node)), None)

    @property
    def source(self) -> str:
        """The tensor whose dtype and device the others follow."""
        free = [(text, node) for text, node in self.tensors if self.program.fixed_dtype(node) is None]
        return self.anchor[0] if self.anchor in free and self.anchor is not None else (free or self.tensors)[0][0]

    def axis(self, axis: int) -> str:
        """How the size of an axis is read off a tensor: from the end, so that more leading dimensions do not matter."""
        domain = self.program.domain
        size = domain.sizes[axis]
        known = self._known(size)
        if known is not None:
            return known
        for text, node in self.tensors:
            shape = domain.shapes[node]
            if (axis,) in shape:
                position = shape.index((axis,))
                return f"{text}.shape[{position - len(shape) if position else 0}]"
        for text, node in self.tensors:
            for position, dim in enumerate(domain.shapes[node]):
                others = [domain.sizes[other] for other in dim if other != axis]
                over = [known for other in others if (known := self._known(other)) is not None]
                if axis in dim and not domain.chunk_axes & set(dim) and len(over) == len(others):
                    return f"{text}.shape[{position - len(domain.shapes[node])}] // {_product(over)}"
        for window in domain.windows.values():
            for number, along in enumerate(window.dims, -len(window.dims)):
                source = next((text for text, node in self.tensors if node == window.source), None)
                if along.place == (axis,) and along.end is not None and source is not None:
                    return _places(f"{source}.shape[{number}]", along, along.end)
        for text, node in self.tensors:  # an axis that only numbers have is as long as another by the size's own words
            shape = domain.shapes[node]
            same = [place for place, dim in enumerate(shape) if len(dim) == 1 and domain.sizes[dim[0]] == size]
            if same:
                return f"{text}.shape[{same[0] - len(shape)}]"
        if axis in domain.col_axes and len(domain.col_axes) == 1 and any(domain.is_chunked(n) for _, n in self.tensors):
            return "n_cols"
        if (
            isinstance(size, Expr) and not size.text.isidentifier()
        ):  # a window's places follow from another tensor's size
            table = {name: self.scalars.get(name) or f"({self.dimension(name)})" for name in names_in(size.text)}
            return renamed(size.text, table)
        raise CannotCompileError(
            f"no tensor at hand has the dimension `{size.text if isinstance(size, Expr) else size}`"
        )

    def _known(self, size: Dim) -> str | None:
        """A size that no tensor has to tell: a number, or arithmetic over scalars; None where it is none."""
        if isinstance(size, Expr):
            return renamed(size.text, dict(self.scalars)) if set(names_in(size.text)) <= set(self.scalars) else None
        return str(size)

    def dimension(self, name: str) -> str:
        """How the size of a dimension of the problem is read off a tensor.

        Raises:
            CannotCompileError: no input has it.
        """
        shapes = self.program.domain.shapes
        for spec in self.program.problem.inputs:
            if name in spec.dims and spec.name in shapes:
                return self.product(shapes[spec.name][spec.dims.index(name)])
        raise CannotCompileError(f"no input has the dimension `{name}`")

    def product(self, axes: tuple[int, ...]) -> str:
        """The product of the sizes of axes."""
        known = [size for axis in axes if isinstance(size := self.program.domain.sizes[axis], int)]
        if axes and len(known) == len(axes):
            return str(math.prod(known))
        for text, node in self.tensors if len(axes) > 1 else ():
            shape = self.program.domain.shapes[node]
            if axes in shape and axes != self.program.domain.col_axes:
                return f"{text}.shape[{shape.index(axes) - len(shape) if shape.index(axes) else 0}]"
        texts = [self.axis(axis) for axis in axes]
        bare = {text for text in texts if len(texts) == 1 or not ("//" in text or " + " in text or " - " in text)}
        return " * ".join(text if text in bare else f"({text})" for text in texts) or "1"

    @property
    def elements(self) -> str:
        """How many elements rows and columns have together."""
        domain = self.program.domain
        if self.anchor is None and self.packed and domain.chunking:
            return f"{self.packed}.numel() // {domain.chunking.count}"
        return f"{self.anchor[0]}.numel()" if self.anchor else self.product(domain.memory)

    @property
    def cols(self) -> str:
        """How many columns a row has."""
        domain = self.program.domain
        if domain.col_axes and all(isinstance(domain.sizes[axis], int) for axis in domain.col_axes):
            return self.product(domain.col_axes)
        if self.anchor and domain.shapes[self.anchor[1]][-1:] == (domain.col_axes,):
            return f"{self.anchor[0]}.shape[-1]"
        chunked = [text for text, node in self.tensors if domain.is_chunked(node)]
        if self.anchor is None and chunked and domain.chunking:
            return f"{chunked[0]}.shape[-1] // {domain.chunking.count}"
        return self.product(domain.col_axes)

    @property
    def rows(self) -> str:
        """How many rows there are, ``n_cols`` being known."""
        domain = self.program.domain
        if domain.row_axes and self.anchor:
            return f"{self.anchor[0]}.numel() // n_cols"
        if domain.row_axes and self.packed:
            return f"{self.packed}.numel() // {self.packed}.shape[-1]"
        only = [text for text, node in self.tensors if domain.row_axes and domain.axes_of(node) == domain.row_axes]
        return f"{only[0]}.numel()" if only else self.product(domain.row_axes)

    def shape(self, node: str) -> str:
        """The shape of a tensor; its leading dimensions are those of a tensor that has all rows too."""
        shape = self.program.domain.shapes[node]
        lead = self._lead(shape)
        if lead is None:
            dims = [self.product(dim) for dim in shape]
            return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"
        rest = [self.product(dim) for dim in shape[len(self.program.domain.row_axes) :]]
        return f"(*{lead}, {', '.join(rest)})" if rest else lead

    def _lead(self, shape: Shape) -> str | None:
        rows = tuple((axis,) for axis in self.program.domain.row_axes)
        if not rows or shape[: len(rows)] != rows:
            return None
        for text, node in self.tensors:
            other = self.program.domain.shapes[node]
            if other[: len(rows)] == rows:
                return f"{text}.shape[:-{len(other) - len(rows)}]" if len(other) > len(rows) else f"{text}.shape"
        return None


def _places(size: str, dim: WindowDim, end: int) -> str:
    """How many places windows have along a dimension of a size."""
    reach = size if dim.divisor == 1 else f"{size} * {dim.divisor}"
    if dim.step == 1:
        return f"{reach} {'-' if end + 1 < 0 else '+'} {abs(end + 1)}" if end + 1 else reach
    reach = f"({reach} {'-' if end < 0 else '+'} {abs(end)})" if end else reach
    return f"{reach} // {dim.step} + 1"


def _product(texts: list[str]) -> str:
    """Write a product of numbers and scalars as what something is divided by."""
    numbers = math.prod(int(text) for text in texts if text.isdigit())
    factors = [*([str(numbers)] if numbers > 1 else []), *(text for text in texts if not text.isdigit())]
    text = (
        " * ".join(factor if factor.isidentifier() or factor.isdigit() else f"({factor})" for factor in factors) or "1"
    )
    return text if len(factors) < 2 and text.isalnum() else f"({text})" if not text.isidentifier() else text


def row_index(
    program: ValueProgram, names: TensorNames, load: TileValue, row: str = "rows"
) -> tuple[str, tuple[str, ...]]:
    """The text of a tensor's row for ``row`` of the whole, and the names of the sizes in it (none where it has all rows)."""
    run = _run_of_rows(program, str(load.datum)) if load.space.rows else None
    if run is None:
        return row, ()
    first, last = run
    name, text, sizes = names.tensors[program.domain.base(str(load.datum))], row, []
    if last < len(program.domain.row_axes) - 1:
        text = f"{text} // {name}_repeats"
        sizes.append(f"{name}_repeats")
    if first > 0:
        text = f"{text} % {name}_rows"
        sizes.append(f"{name}_rows")
    return text, tuple(sizes)


def segment_columns(
    program: ValueProgram, names: TensorNames, load: TileValue
) -> tuple[str, str, tuple[str, ...]] | None:
    """For a tensor with a number for each run of columns: the text of its column and of how many it has, and the sizes in them."""
    name = str(load.datum)
    if load.op != "load" or program.domain.segments_of(name) is None:
        return None
    span = f"{names.tensors[program.domain.base(name)]}_span"
    return f"cols // {span}", f"(n_cols // {span})", (span,)


def partial_size_lines(host: HostScope, sizes: tuple[str, ...]) -> list[str]:
    """Compute, in a launcher, those of the sizes that tensors with fewer rows need."""
    return [
        f"{size} = {host.product(_size_axes(host.program, node, suffix))}"
        for size in dict.fromkeys(sizes)
        for text, node in host.tensors
        for suffix in ("repeats", "rows", "span")
        if size == f"{text}_{suffix}" and size != "n_rows"
    ]


def _size_axes(program: ValueProgram, name: str, suffix: str) -> tuple[int, ...]:
    """The axes whose product is ``NAME_repeats``, ``NAME_rows`` or ``NAME_span``."""
    if suffix == "span":
        return program.domain.col_axes[len(program.domain.segments_of(name) or ()) :]
    run = _run_of_rows(program, name)
    if run is None:
        return ()
    first, last = run
    return program.domain.row_axes[last + 1 :] if suffix == "repeats" else program.domain.row_axes[first : last + 1]


def _run_of_rows(program: ValueProgram, name: str) -> tuple[int, int] | None:
    domain = program.domain
    if name not in domain.shapes:
        return None
    places = [domain.row_axes.index(axis) for axis in domain.rows_of(name)]
    if not places or len(places) == len(domain.row_axes):
        return None
    if places != list(range(places[0], places[-1] + 1)):
        raise CannotCompileError(f"`{name}` lacks a dimension between others that it has")
    return places[0], places[-1]


@dataclass(frozen=True)
class HostNumber:
    """A float that the launcher computes: ``name`` in the kernel, ``text`` in the launcher."""

    name: str
    text: str


class Scalars:
    """Writes arithmetic over scalars and dimensions in a kernel, and remembers what the kernel must be given."""

    def __init__(self, program: ValueProgram, names: TensorNames, host: HostScope) -> None:
        self.host = host
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

    def written(self, text: str) -> ExpressionText:
        """Write arithmetic as the kernel computes it."""
        if text.startswith(OFFSET):
            self.needs_n_cols = True
            moved = text.removeprefix(OFFSET)
            return ExpressionText(renamed(moved, dict.fromkeys(names_in(moved), "n_cols")), COMPARE)
        names = names_in(text)
        if set(names) <= self._sizes.scalars and self._is_size_of(text, self._program.domain.col_axes):
            self.needs_n_cols = True
            return ExpressionText("n_cols", whole=True)
        if all(name in self._names.scalars for name in names):
            for name in names:
                self._use(HostNumber(self._names.scalars[name], f"float({self._names.scalars[name]})"))
            expression = renamed(text, self._names.scalars)
            return ExpressionText(expression) if expression.isidentifier() else ExpressionText(expression, COMPARE)
        if self._is_size_of(text, self._program.domain.col_axes):
            self.needs_n_cols = True
            return ExpressionText("n_cols", whole=True)
        if text not in self._counts:
            self._counts[text] = self._names.free("count")
        self._use(HostNumber(self._counts[text], f"float({self._on_host(text, names)})"))
        return ExpressionText(self._counts[text])

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
            return self.host.elements
        table = {name: self.host.dimension(name) for name in names if name not in self._names.scalars}
        return renamed(text, {**self._names.scalars, **table})


# A launcher adds up, divides and bounds by a number; anything more is work for a kernel.
_OPERATORS = frozenset(["add", "sub", "mul", "div", "neg", "reciprocal"])
_POWERS = {"sqrt": "0.5", "rsqrt": "-0.5"}
_BOUNDS = {"maximum": "min", "minimum": "max"}  # what ``clamp`` calls the bound


def host_line(program: ValueProgram, names: TensorNames, host: HostScope, name: str, result: Result, dtype: str) -> str:
    """Compute an output from the sums that the programs left."""
    expression = _Host(program, names, host).written(result.value)
    shape = program.domain.shapes[result.node]
    view = "" if len(shape) == (1 if result.space.cols else 0) else f".view({_dims(host, shape)})"
    return f"{name} = {expression.within(ATOM)}.to({dtype}){view}"


def _dims(host: HostScope, shape: Shape) -> str:
    return ", ".join(host.product(dim) for dim in shape)


class _Host:
    def __init__(self, program: ValueProgram, names: TensorNames, host: HostScope) -> None:
        self._program, self._names, self._hand = program, names, host
        self._sums = {key for key, _ in (*program.saved, *program.sums)}

    def written(self, value: TileValue) -> ExpressionText:
        if value.op == "load":
            name = self._names.tensors[str(value.datum)]
            if value.datum in self._sums:
                return ExpressionText(name)
            return ExpressionText(f"{name}.view({'-1' if value.space.cols else '()'}).float()")
        if value.op == "scalar":
            return ExpressionText(self._on_host(str(value.datum)), COMPARE)
        if value.op == ROUNDED:
            return self.written(value.args[0])
        if value.op in _POWERS:
            base = self.written(value.args[0]).within(ATOM)
            return ExpressionText(
                f"{base}**{_POWERS[value.op]}" if base.isidentifier() else f"{base} ** {_POWERS[value.op]}", UNARY
            )
        if value.op in _BOUNDS and value.args[1].number is not None:
            of, bound = (self.written(arg) for arg in value.args)
            return ExpressionText(f"{of.within(ATOM)}.clamp({_BOUNDS[value.op]}={bound.text})")
        if value.args and value.op not in _OPERATORS:
            raise CannotCompileError(
                f"`{value.op}` is taken of a sum over all rows, which takes another kernel", value.op
            )
        return compose(value, FORMULA, self.written)

    def _on_host(self, text: str) -> str:
        scalars = self._names.scalars
        sizes = {name: self._hand.dimension(name) for name in names_in(text) if name not in scalars}
        return renamed(text, {**scalars, **sizes})
