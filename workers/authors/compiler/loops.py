"""Repetitions as statements: the states get names that the turns assign again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workers.authors.compiler.repetition import Repetition
from workers.authors.compiler.statements import Statements
from workers.authors.compiler.values import Value, ordered

Compute = Callable[[Statements, Value], None]


def write_loop(outer: Statements, inner: Statements, loop: Repetition, head: str, reduce: Compute) -> None:
    """Write a repetition; ``inner`` is a scope one deeper that knows nothing yet, ``reduce`` writes and names a reduction.

    After it the states that are needed are known to the outer scope by the names that the turns gave them.
    """
    names = [outer.names.of(value) for value in loop.before]
    given = dict(zip(loop.starts, names, strict=True))
    for value in loop.outside:
        for one in ordered(value.args):
            if one.op == "over_cols" and one not in outer.env:
                reduce(outer, one)
        if value.op == "over_cols" and value not in outer.env:
            reduce(outer, value)
        elif value.args and value not in outer.env:
            outer.assign(value, given[value] if value in loop.own else None)
    for name, start in zip(names, loop.starts, strict=True):
        known = outer.env.get(start) or outer.written(start)
        if known != name:
            outer.line(f"{name} = {known}")
    outer.line(head)
    inner.env.update({**outer.env, **dict(zip(loop.before, names, strict=True))})
    for value in loop.body:
        if value.op == "over_cols":
            reduce(inner, value)
    late = list(_assigned(inner, loop, names))
    for name, kept in late:
        inner.line(f"{name} = {kept}")
    outer.lines += inner.lines
    outer.env.update({end: name for end, name in zip(loop.ends, names, strict=True) if end is not None})


def _assigned(inner: Statements, loop: Repetition, names: list[str]) -> Iterator[tuple[str, str]]:
    """Assign the next states; those whose last value is still to be read are kept aside, and given with their names."""
    for place, (before, after, name) in enumerate(zip(loop.before, loop.after, names, strict=True)):
        left = loop.after[place + 1 :]
        if any(_reads(inner, later, before) for later in left):
            kept = inner.assign(after, inner.names.free(f"next_{name}"))
            inner.env[after] = kept
            yield name, kept
        elif after in inner.env:
            inner.line(f"{name} = {inner.env[after]}")
        else:
            inner.assign(after, name)


def _reads(scope: Statements, value: Value, wanted: Value) -> bool:
    """Tell whether writing a value would still write another by its name."""
    if value is wanted:
        return True
    return value not in scope.env and any(_reads(scope, arg, wanted) for arg in value.args)
