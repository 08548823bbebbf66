"""Values rebuilt with values in them replaced. Pure."""

from __future__ import annotations

from collections.abc import Callable

from workers.authors.compiler.values import Pool, Value


def replaced_in(pool: Pool, roots: list[Value], replacement: Callable[[Value], Value | None]) -> list[Value]:
    """Rebuild values with values in them replaced."""
    done: dict[Value, Value] = {}
    for value in _descending(roots, replacement):
        new = replacement(value)
        if new is None and value.args:
            new = pool.value(
                value.op, tuple(done[arg] for arg in value.args), value.datum, value.space, value.boolean, value.integer
            )
        done[value] = new or value
    return [done[root] for root in roots]


def _descending(roots: list[Value], replacement: Callable[[Value], Value | None]) -> list[Value]:
    """Give the values to rebuild, operands first, without what is below a replaced one."""
    done: dict[Value, None] = {}
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        value, expanded = waiting.pop()
        if expanded or value in done:
            done.setdefault(value)
            continue
        waiting.append((value, True))
        if replacement(value) is None:
            waiting.extend((arg, False) for arg in reversed(value.args))
    return list(done)
