"""Sums over a row that are one sum but for numbers of the row: taken once, the numbers multiplied after. Pure."""

from __future__ import annotations

from collections import Counter
from functools import reduce

from workers.authors.compiler.algebra import simplified
from workers.authors.compiler.rebuilding import replaced_in
from workers.authors.compiler.values import Pool, Value, ordered

Key = frozenset[tuple[Value, int]]


def with_shared_sums(pool: Pool, roots: list[Value]) -> list[Value]:
    """Rebuild values so that sums over the same product of columns are the same sum."""
    sums = [v for v in ordered(roots) if v.op == "over_cols" and v.datum == "sum" and v.args[0].op == "mul"]
    split = {value: _factors(value.args[0]) for value in sums}
    keys = {value: _key(columns) for value, (_, columns) in split.items()}
    counts = Counter(keys.values())
    common = {value for value in sums if counts[keys[value]] > 1}
    if not common:
        return roots
    cores: dict[Key, Value] = {}

    def shared(value: Value) -> Value | None:
        if value not in common:
            return None
        numbers, columns = split[value]
        if any(inner in common for factor in (*numbers, *columns) for inner in ordered([factor])):
            return None
        core = cores.setdefault(keys[value], pool.over_cols("sum", _product(pool, columns)))
        return _product(pool, [*numbers, core])

    return replaced_in(pool, roots, shared)


def _factors(value: Value) -> tuple[list[Value], list[Value]]:
    """Split a product into factors that are one number a row and factors that vary along it."""
    if not value.space.cols:
        return [value], []
    if value.op != "mul":
        return [], [value]
    (first, left), (second, right) = (_factors(arg) for arg in value.args)
    return first + second, left + right


def _key(columns: list[Value]) -> Key:
    return frozenset(Counter(columns).items())


def _product(pool: Pool, factors: list[Value]) -> Value:
    return reduce(lambda left, right: simplified(pool, "mul", left, right), factors)
