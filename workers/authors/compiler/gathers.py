"""Elements of a row at a column of its own: looking up moves through element-wise work down to the tensors. Pure."""

from __future__ import annotations

from workers.authors.compiler.algebra import simplified
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.values import Pool, Value


def picked(pool: Pool, value: Value, index: Value, operator: str) -> Value:
    """Give what a value is at the column ``index`` of each row: one element of each tensor is loaded, and no row is searched.

    Raises:
        CannotCompileError: the value holds parts, or the index is no whole number.
    """
    if not (index.integer or isinstance(index.number, int)):
        raise CannotCompileError(f"`{operator}` looks up at an index that is computed from fractions", operator)
    known: dict[Value, Value] = {}

    def at(inner: Value) -> Value:
        if inner not in known:
            known[inner] = _at(inner)
        return known[inner]

    def _at(inner: Value) -> Value:
        if not inner.space.cols:
            return inner
        if inner.op == "load":
            return pool.pick(inner, index)
        if inner.op == "column":
            return index
        if inner.op == "pick":
            return pool.pick(inner, at(inner.args[0]))
        if inner.op in {"cat", "over_rows", "scan"}:
            raise CannotCompileError(
                f"`{operator}` looks up in a row of several parts, in a scan or in a sum over rows", operator
            )
        return simplified(pool, inner.op, *(at(arg) for arg in inner.args))

    return at(value)


def single_column(pool: Pool, value: Value) -> Value | None:
    """Give the sum over a row that is zero but for one column, which an index names; None where it is another row.

    An index outside of the row would be an error of the reference.
    """
    if value.op != "where" or value.args[2].number != 0:
        return None
    condition = value.args[0]
    if condition.op != "eq":
        return None
    for column, index in (condition.args, condition.args[::-1]):
        if column.op == "column" and not index.space.cols and (index.integer or isinstance(index.number, int)):
            return picked(pool, value.args[1], index, "sum")
    return None
