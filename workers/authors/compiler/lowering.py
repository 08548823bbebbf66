"""From the captured graph to values in their spaces: shapes, casts and copies vanish. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from gpu_runner.contracts import Problem
from gpu_runner.contracts.graph import Arg, Expr, Graph, Node, NodeRef
from workers.authors.compiler.algebra import coefficient, picked, scaled, simplified, single_column
from workers.authors.compiler.axes import (
    elements_taken,
    is_whole_slice,
    moves_columns,
    reduced_dimensions,
    takes_elements,
)
from workers.authors.compiler.domain import FULL, Domain, is_segment_sum
from workers.authors.compiler.graph import (
    BOOLEAN,
    GATHERS,
    POINTWISE,
    REDUCTIONS,
    SCANS,
    WHOLE,
    CannotCompileError,
    evaluate,
    names_in,
)
from workers.authors.compiler.rounding import ValueRounding, keeps_order, unrounded
from workers.authors.compiler.values import TileValue, ValueNumbering

_KINDS = {"sum": "sum", "amax": "max", "amin": "min", "prod": "prod", "argmax": "argmax"}
_JOINED = {"sum": "add", "amax": "maximum", "amin": "minimum", "prod": "mul"}


class Lowering:
    """Values of a graph's nodes, by node name."""

    def __init__(self, problem: Problem, graph: Graph, domain: Domain) -> None:
        self.numbering = ValueNumbering(in_order=keeps_order(graph))
        self.values: dict[str, TileValue] = {}
        self._domain = domain
        self._nodes = {node.name: node for node in graph.nodes}
        self._moves = domain.chunking is None and moves_columns(graph)
        rounding = ValueRounding(problem, graph, domain, self.numbering)
        for node in graph.nodes:
            self.values[node.name] = rounding.of(node.name, self._lowered(node))
        for name in (*graph.outputs, *(node for _, node in graph.gradients if node is not None)):
            self.values[name] = unrounded(self.numbering, self.values[name])

    def _lowered(self, node: Node) -> TileValue:
        if node.op in {"input", "upstream", "windows"}:
            return self._loaded(node)
        if node.op == "full":
            return self._atom(node.args[0], node)
        if takes_elements(node, self._nodes):
            return self._elements(node)
        if node.op in {"slice", "cat"} and self._domain.chunking is None and not is_whole_slice(node, self._nodes):
            return self._moved(node)
        if node.op in {"reshape", "expand", "permute", "slice"}:
            value = self._operand(node.args[0], node)
            taken = node.op == "slice" and value.op == "cat" and not is_whole_slice(node, self._nodes)
            return value.args[self._index(node)] if taken else value
        if node.op == "cat":
            return self.numbering.pointwise("cat", *(self.values[operand] for operand in node.operands))
        if node.op == "cast":
            return self._per_chunk(lambda value: self._cast(value, node), self._operand(node.args[0], node))
        if node.op in POINTWISE:
            operands = self._converted([self._operand(arg, node) for arg in node.args], node)
            return self._per_chunk(lambda *args: simplified(self.numbering, node.op, *args), *operands)
        if node.op == "arange":
            return self._numbered(node)
        if node.op == "matmul":
            return self.numbering.value("dot", (), node.name, FULL)
        if node.op in GATHERS:
            source, index = (self.values[operand] for operand in node.operands)
            return picked(self.numbering, source, index, node.op)
        if node.op in SCANS:
            return self._scanned(node)
        if node.op not in REDUCTIONS:
            raise CannotCompileError(f"it has no way to express `{node.op}` yet", node.op)
        return self._reduced(node)

    def _numbered(self, node: Node) -> TileValue:
        axes = self._domain.shapes[node.name][0]
        if not axes:
            return self.numbering.const(0)
        if axes == self._domain.col_axes:
            return self.numbering.column()
        if self._domain.is_strided or axes != (self._domain.numbered or self._domain.row_axes):
            raise CannotCompileError(
                "`arange` numbers something other than the columns of a row, or the rows", "arange"
            )
        return self.numbering.row()

    def _converted(self, operands: list[TileValue], node: Node) -> list[TileValue]:
        """Whole numbers meet others as float32, and functions that have none but fractions as values take float32."""
        counted = operands[1:] if node.op == "where" else operands
        floating = any(not (v.integer or v.boolean or isinstance(v.number, int)) for v in counted)
        if not any(v.integer for v in operands) or not (floating or node.op not in WHOLE | BOOLEAN):
            return operands
        return [self.numbering.pointwise("float", v) if v.integer else v for v in operands]

    def _loaded(self, node: Node) -> TileValue:
        domain, boolean = self._domain, node.meta.dtype == "bool"
        integer = node.meta.dtype.startswith(("int", "uint"))
        chunks = [name for name, chunk in domain.chunks.items() if chunk.node == node.name]
        loads = [self.numbering.load(name, domain.space_of(name), boolean, integer) for name in chunks or [node.name]]
        return self.numbering.pointwise("cat", *loads) if chunks else loads[0]

    def _moved(self, node: Node) -> TileValue:
        """Columns of a row are those of another row before or after them."""
        numbering, domain, whole = self.numbering, self._domain, self._domain.col_axes
        names = (node.name,) if node.op == "cat" else node.operands
        if any(domain.shapes[name][-1] != whole for name in names) or len(whole) != 1:
            raise CannotCompileError(f"`{node.op}` is of a row that no tensor has whole", node.op)
        if node.op == "slice":
            start = self._offset((*node.args[2:3], 0)[0] or 0, node)
            return picked(
                numbering, self.values[names[0]], simplified(numbering, "add", numbering.column(), start), "slice"
            )
        result, end = None, numbering.const(0)
        for operand in node.operands:
            length = self._offset(self._nodes[operand].meta.shape[-1], node)
            index = simplified(numbering, "sub", numbering.column(), end)
            value = picked(numbering, self.values[operand], index, "cat") if end.number != 0 else self.values[operand]
            before = simplified(numbering, "lt", numbering.column(), end)
            result = value if result is None else simplified(numbering, "where", before, result, value)
            end = simplified(numbering, "add", end, length)
        assert result is not None
        return result

    def _offset(self, dim: Arg, node: Node) -> TileValue:
        if isinstance(dim, int):
            return self.numbering.const(dim)
        size = self._domain.sizes[self._domain.col_axes[0]]
        if not isinstance(dim, Expr) or not isinstance(size, Expr) or set(names_in(dim.text)) != {size.text}:
            raise CannotCompileError(
                f"`{node.op}` cuts a row at a column that does not follow from its length", node.op
            )
        return self.numbering.offset(dim.text)

    def _elements(self, node: Node) -> TileValue:
        """Slice a short vector, or concatenate its parts."""
        elements: list[TileValue] = []
        for operand in node.operands:
            value, length = self.values[operand], self._nodes[operand].meta.shape[0]
            elements += value.args if value.op == "cat" else [value] * (length if isinstance(length, int) else 1)
        taken = elements[elements_taken(node)] if node.op == "slice" else elements
        return taken[0] if len(taken) == 1 else self.numbering.pointwise("cat", *taken)

    def _index(self, node: Node) -> int:
        assert self._domain.chunking is not None
        return self._domain.chunking.index(node)

    def _per_chunk(self, operation: Callable[..., TileValue], *operands: TileValue) -> TileValue:
        """Compute each chunk by itself; what has no chunks is the same for all."""
        counts = [len(value.args) for value in operands if value.op == "cat"]
        if not counts:
            return operation(*operands)
        columns = [[v.args[i] if v.op == "cat" else v for v in operands] for i in range(counts[0])]
        return self.numbering.pointwise("cat", *(operation(*column) for column in columns))

    def _operand(self, argument: Arg, node: Node) -> TileValue:
        return self.values[argument.name] if isinstance(argument, NodeRef) else self._atom(argument, node)

    def _atom(self, argument: Arg, node: Node) -> TileValue:
        if isinstance(argument, Expr):
            return self._arithmetic(argument)
        if isinstance(argument, bool | int | float):
            return self.numbering.const(argument)
        raise CannotCompileError(f"`{node.op}` has the argument {argument!r}, which the compiler cannot read", node.op)

    def _arithmetic(self, expression: Expr) -> TileValue:
        try:
            return self.numbering.const(evaluate(expression, {}))
        except CannotCompileError:
            return self.numbering.scalar(expression.text)

    def _cast(self, value: TileValue, node: Node) -> TileValue:
        if node.meta.dtype == "bool":
            return value if value.boolean else simplified(self.numbering, "ne", value, self.numbering.const(0))
        if node.meta.dtype.startswith(("int", "uint")):
            return value if self._is_whole(value) else simplified(self.numbering, "trunc", value)
        if value.boolean:
            return simplified(self.numbering, "where", value, self.numbering.const(1.0), self.numbering.const(0.0))
        return self.numbering.pointwise("float", value) if value.integer else value

    @staticmethod
    def _is_whole(value: TileValue) -> bool:
        return value.boolean or value.integer or value.op in {"floor", "ceil", "round", "trunc"}

    def _reduced(self, node: Node) -> TileValue:
        operand = node.operands[0]
        shape, domain = self._domain.shapes[operand], self._domain
        gone = [axis for dim in reduced_dimensions(node, len(shape)) for axis in shape[dim]] if shape else []
        rows = [axis for axis in gone if axis in domain.row_axes]
        if rows and set(domain.rows_of(operand)) != set(domain.row_axes):
            sentence = f"`{node.op}` runs over some of the leading dimensions of a tensor that lacks the others"
            raise CannotCompileError(sentence, node.op)
        if rows and len(rows) == len(gone) and domain.segments_of(operand) is not None:
            raise CannotCompileError(
                f"`{node.op}` runs over rows that have one number for each of their segments", node.op
            )
        value = self.values[operand]
        known = {*domain.row_axes, *domain.col_axes, *domain.chunk_axes, *domain.element_axes}
        if self._moves and value.space.cols and not known.issuperset(gone):
            raise CannotCompileError(f"`{node.op}` is over a run of columns that was cut out of a row", node.op)
        if is_segment_sum(domain, tuple(gone), node.op):
            if value.op == "cat" or not (value.space.rows and value.space.cols):
                raise CannotCompileError("`sum` over segments of rows is of something that is no whole tensor", "sum")
            return self.numbering.over_rows("segments", value)
        if value.op != "cat":
            return self._reduced_over(gone, value, node.op)
        inner = [axis for axis in gone if axis not in domain.chunk_axes | domain.element_axes]
        chunks = [self._reduced_over(inner, chunk, node.op) for chunk in value.args]
        if len(inner) == len(gone):
            return self.numbering.pointwise("cat", *chunks)
        if node.op not in _JOINED:
            raise CannotCompileError(f"`{node.op}` is of a row that holds several parts", node.op)
        return reduce(lambda left, right: simplified(self.numbering, _JOINED[node.op], left, right), chunks)

    def _scanned(self, node: Node) -> TileValue:
        value = self.values[node.operands[0]]
        axes = self._domain.shapes[node.operands[0]]
        dim = reduced_dimensions(node, len(axes))[0]
        if (
            value.op == "cat"
            or value.space != FULL
            or axes[dim] != self._domain.col_axes
            or node.args[2] not in {True, False}
        ):
            raise CannotCompileError(f"`{node.op}` runs along something other than whole rows of its own", node.op)
        if value.boolean:
            value = simplified(self.numbering, "where", value, self.numbering.const(1.0), self.numbering.const(0.0))
        if value.integer or not node.meta.dtype.startswith(("float", "bfloat")):
            raise CannotCompileError(f"`{node.op}` is of whole numbers, which float32 does not hold exactly", node.op)
        return self.numbering.scan("sum" if node.op == "cumsum" else "prod", value, reverse=node.args[2] is True)

    def _reduced_over(self, gone: list[int], value: TileValue, operator: str) -> TileValue:
        kind, domain = _KINDS[operator], self._domain
        rows = [axis for axis in gone if axis in domain.row_axes]
        cols = [axis for axis in gone if axis in domain.col_axes]
        orphans = [axis for axis in gone if axis not in rows and axis not in cols]
        if kind == "argmax" and not gone:
            return self.numbering.const(0)  # the place of the only element
        if value.boolean:
            value = simplified(self.numbering, "where", value, self.numbering.const(1.0), self.numbering.const(0.0))
        if orphans or (cols and not value.space.cols) or (rows and not value.space.rows):
            repeated = orphans + (cols if not value.space.cols else []) + (rows if not value.space.rows else [])
            value = self._repeated(kind, value, repeated)
            cols = cols if value.space.cols else []
            rows = rows if value.space.rows else []
        if value.integer and kind in {"prod", "argmax"}:
            raise CannotCompileError(f"`{operator}` is of whole numbers, which float32 does not hold exactly", operator)
        if value.integer:
            value = self.numbering.pointwise("float", value)
        if cols and rows and kind in {"prod", "argmax"}:
            raise CannotCompileError(f"`{operator}` runs over rows and columns, where the compiler only sums", operator)
        if cols:
            value = self._over_cols(kind, value, operator)
        return self._over_rows(kind, value, operator) if rows else value

    def _repeated(self, kind: str, value: TileValue, axes: list[int]) -> TileValue:
        """The same number over and over: its sum is a product, its maximum itself."""
        if kind in {"prod", "argmax"}:
            raise CannotCompileError(f"`{kind}` runs over a dimension along which all numbers are the same", kind)
        for axis in axes if kind == "sum" else ():
            size = self._domain.sizes[axis]
            number = self.numbering.scalar(size.text) if isinstance(size, Expr) else self.numbering.const(size)
            value = simplified(self.numbering, "mul", value, number)
        return value

    def _over_cols(self, kind: str, value: TileValue, operator: str) -> TileValue:
        if not value.space.rows:
            raise CannotCompileError(f"`{operator}` reduces a vector that all rows share", operator)
        free = self._free_sum(value) if kind == "sum" else None
        if free is not None:
            return free
        sums = [self._free_sum(v) for v in value.args] if kind == "sum" and value.op in {"add", "sub"} else []
        if any(total is not None for total in sums):
            rest = [s or self._over_cols(kind, v, operator) for s, v in zip(sums, value.args, strict=True)]
            return simplified(self.numbering, value.op, *rest)
        if kind == "sum" and value.op in {"neg", "mul"}:
            factor, core = coefficient(value)
            return scaled(self.numbering, factor, self.numbering.over_cols(kind, core))
        return self.numbering.over_cols(kind, value)

    def _free_sum(self, value: TileValue) -> TileValue | None:
        """The sum over a row where no row has to be seen for it."""
        if not value.space.cols:
            return self._repeated("sum", value, list(self._domain.col_axes))
        return single_column(self.numbering, value)

    def _over_rows(self, kind: str, value: TileValue, operator: str) -> TileValue:
        if kind != "sum":
            raise CannotCompileError(f"`{operator}` runs over the rows, where the compiler only sums", operator)
        return self.numbering.over_rows(kind, value)
