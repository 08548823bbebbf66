"""What a launcher has at hand, and how sizes are read off it, whatever the number of leading dimensions. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_runner.contracts.graph import Dim, Expr
from workers.authors.compiler.axes import Shape
from workers.authors.compiler.program import Program
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import names_in, renamed


@dataclass(frozen=True)
class Hand:
    """The tensors of a launcher: their names in the module and in the graph; and the names of the scalars in the module."""

    program: Program
    tensors: tuple[tuple[str, str], ...]
    scalars: Mapping[str, str] = field(default_factory=dict)

    @property
    def anchor(self) -> tuple[str, str] | None:
        """Give a tensor that has every row and column."""
        return next(((text, node) for text, node in self._whole if not self.program.domain.is_parted(node)), None)

    @property
    def _whole(self) -> list[tuple[str, str]]:
        domain = self.program.domain
        axes = domain.memory
        return [(text, node) for text, node in self.tensors if domain.axes_of(node) == axes]

    @property
    def packed(self) -> str | None:
        """Give a tensor that has every row, each with its parts side by side."""
        return next((text for text, node in self._whole if self.program.domain.is_parted(node)), None)

    @property
    def source(self) -> str:
        """Give the tensor whose dtype and device the others follow."""
        free = [(text, node) for text, node in self.tensors if self.program.fixed_dtype(node) is None]
        return self.anchor[0] if self.anchor in free and self.anchor is not None else free[0][0]

    def axis(self, axis: int) -> str:
        """Give how the size of an axis is read off a tensor: from the end, so that more leading dimensions do not matter."""
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
                if axis in dim and not domain.part_axes & set(dim) and len(over) == len(others):
                    return f"{text}.shape[{position - len(domain.shapes[node])}] // {_product(over)}"
        if axis in domain.col_axes and len(domain.col_axes) == 1 and any(domain.is_parted(n) for _, n in self.tensors):
            return "n_cols"
        raise CannotCompileError(
            f"no tensor at hand has the dimension `{size.text if isinstance(size, Expr) else size}`"
        )

    def _known(self, size: Dim) -> str | None:
        """Give a size that no tensor has to tell: a number, or arithmetic over scalars; None where it is none."""
        if isinstance(size, Expr):
            return renamed(size.text, dict(self.scalars)) if set(names_in(size.text)) <= set(self.scalars) else None
        return str(size)

    def dimension(self, name: str) -> str:
        """Give how the size of a dimension of the problem is read off a tensor.

        Raises:
            CannotCompileError: no input has it.
        """
        shapes = self.program.domain.shapes
        for spec in self.program.problem.inputs:
            if name in spec.dims and spec.name in shapes:
                return self.product(shapes[spec.name][spec.dims.index(name)])
        raise CannotCompileError(f"no input has the dimension `{name}`")

    def product(self, axes: tuple[int, ...]) -> str:
        """Give the product of the sizes of axes."""
        for text, node in self.tensors if len(axes) > 1 else ():
            shape = self.program.domain.shapes[node]
            if axes in shape and axes != self.program.domain.col_axes:
                return f"{text}.shape[{shape.index(axes) - len(shape) if shape.index(axes) else 0}]"
        texts = [self.axis(axis) for axis in axes]
        return " * ".join(f"({text})" if "//" in text and len(texts) > 1 else text for text in texts) or "1"

    @property
    def elements(self) -> str:
        """Give how many elements rows and columns have together."""
        domain = self.program.domain
        if self.anchor is None and self.packed and domain.parting:
            return f"{self.packed}.numel() // {domain.parting.count}"
        return f"{self.anchor[0]}.numel()" if self.anchor else self.product(domain.memory)

    @property
    def cols(self) -> str:
        """Give how many columns a row has."""
        domain = self.program.domain
        if self.anchor and domain.shapes[self.anchor[1]][-1:] == (domain.col_axes,):
            return f"{self.anchor[0]}.shape[-1]"
        parted = [text for text, node in self.tensors if domain.is_parted(node)]
        if self.anchor is None and parted and domain.parting:
            return f"{parted[0]}.shape[-1] // {domain.parting.count}"
        return self.product(domain.col_axes)

    @property
    def rows(self) -> str:
        """Give how many rows there are, ``n_cols`` being known."""
        domain = self.program.domain
        if domain.row_axes and self.anchor:
            return f"{self.anchor[0]}.numel() // n_cols"
        if domain.row_axes and self.packed:
            return f"{self.packed}.numel() // {self.packed}.shape[-1]"
        only = [text for text, node in self.tensors if domain.row_axes and domain.axes_of(node) == domain.row_axes]
        return f"{only[0]}.numel()" if only else self.product(domain.row_axes)

    def shape(self, node: str) -> str:
        """Give the shape of a tensor; its leading dimensions are those of a tensor that has all rows too."""
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


def _product(texts: list[str]) -> str:
    """Write a product of numbers and scalars as what something is divided by."""
    numbers = math.prod(int(text) for text in texts if text.isdigit())
    factors = [*([str(numbers)] if numbers > 1 else []), *(text for text in texts if not text.isdigit())]
    text = (
        " * ".join(factor if factor.isidentifier() or factor.isdigit() else f"({factor})" for factor in factors) or "1"
    )
    return text if len(factors) < 2 and text.isalnum() else f"({text})" if not text.isidentifier() else text
