"""From the captured graph to values in their spaces: shapes, casts and copies vanish. Pure."""

from __future__ import annotations

from gpu_runner.contracts.graph import Arg, Expr, Graph, Node, NodeRef
from workers.authors.compiler.algebra import coefficient, scaled, simplified
from workers.authors.compiler.axes import reduced_dimensions, references
from workers.authors.compiler.domain import Domain
from workers.authors.compiler.operators import POINTWISE
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.sizes import evaluate
from workers.authors.compiler.values import Pool, Value

_KINDS = {"sum": "sum", "amax": "max", "amin": "min"}


class Lowering:
    """Values of a graph's nodes, by node name."""

    def __init__(self, graph: Graph, domain: Domain) -> None:
        self.pool = Pool()
        self.values: dict[str, Value] = {}
        self._domain = domain
        for node in graph.nodes:
            self.values[node.name] = self._lowered(node)

    def _lowered(self, node: Node) -> Value:
        if node.op in {"input", "upstream"}:
            return self.pool.load(node.name, self._domain.space_of(node.name), node.meta.dtype == "bool")
        if node.op == "full":
            return self._atom(node.args[0], node)
        if node.op in {"reshape", "expand", "permute", "slice"}:
            return self._operand(node.args[0], node)
        if node.op == "cast":
            return self._cast(node)
        if node.op in POINTWISE:
            return simplified(self.pool, node.op, *(self._operand(arg, node) for arg in node.args))
        return self._reduced(node)

    def _operand(self, argument: Arg, node: Node) -> Value:
        return self.values[argument.name] if isinstance(argument, NodeRef) else self._atom(argument, node)

    def _atom(self, argument: Arg, node: Node) -> Value:
        if isinstance(argument, Expr):
            return self._arithmetic(argument)
        if isinstance(argument, bool | int | float):
            return self.pool.const(argument)
        raise CannotCompileError(f"`{node.op}` has the argument {argument!r}, which the compiler cannot read", node.op)

    def _arithmetic(self, expression: Expr) -> Value:
        try:
            return self.pool.const(evaluate(expression, {}))
        except CannotCompileError:
            return self.pool.scalar(expression.text)

    def _cast(self, node: Node) -> Value:
        value = self._operand(node.args[0], node)
        if node.meta.dtype == "bool":
            return value if value.boolean else simplified(self.pool, "ne", value, self.pool.const(0))
        if node.meta.dtype.startswith(("int", "uint")):
            return value if self._is_whole(value) else simplified(self.pool, "trunc", value)
        if value.boolean:
            return simplified(self.pool, "where", value, self.pool.const(1.0), self.pool.const(0.0))
        return value

    @staticmethod
    def _is_whole(value: Value) -> bool:
        return value.boolean or value.op in {"floor", "ceil", "round", "trunc"}

    def _reduced(self, node: Node) -> Value:
        kind = _KINDS[node.op]
        operand = references(node.args)[0].name
        shape, value = self._domain.shapes[operand], self.values[operand]
        gone = [axis for dim in reduced_dimensions(node, len(shape)) for axis in shape[dim]] if shape else []
        domain = self._domain
        rows = [axis for axis in gone if axis in domain.row_axes]
        cols = [axis for axis in gone if axis in domain.col_axes]
        orphans = [axis for axis in gone if axis not in rows and axis not in cols]
        if value.boolean:
            value = simplified(self.pool, "where", value, self.pool.const(1.0), self.pool.const(0.0))
        if orphans or (cols and not value.space.cols) or (rows and not value.space.rows):
            repeated = orphans + (cols if not value.space.cols else []) + (rows if not value.space.rows else [])
            value = self._repeated(kind, value, repeated)
            cols = cols if value.space.cols else []
            rows = rows if value.space.rows else []
        if rows and set(self._domain.rows_of(operand)) != set(self._domain.row_axes):
            sentence = f"`{node.op}` runs over some of the leading dimensions of a tensor that lacks the others"
            raise CannotCompileError(sentence, node.op)
        if cols:
            value = self._over_cols(kind, value, node.op)
        if rows:
            value = self._over_rows(kind, value, node.op)
        return value

    def _repeated(self, kind: str, value: Value, axes: list[int]) -> Value:
        """The same number over and over: its sum is a product, its maximum itself."""
        for axis in axes if kind == "sum" else ():
            size = self._domain.sizes[axis]
            number = self.pool.scalar(size.text) if isinstance(size, Expr) else self.pool.const(size)
            value = simplified(self.pool, "mul", value, number)
        return value

    def _over_cols(self, kind: str, value: Value, operator: str) -> Value:
        if not value.space.rows:
            raise CannotCompileError(f"`{operator}` reduces a vector that all rows share", operator)
        if kind == "sum" and value.op in {"neg", "mul"}:
            factor, core = coefficient(value)
            return scaled(self.pool, factor, self.pool.over_cols(kind, core))
        return self.pool.over_cols(kind, value)

    def _over_rows(self, kind: str, value: Value, operator: str) -> Value:
        if kind != "sum":
            raise CannotCompileError(f"`{operator}` runs over the rows, where the compiler only sums", operator)
        return self.pool.over_rows(kind, value)
