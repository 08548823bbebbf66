"""Tensors that lack some of the leading dimensions: which of their rows belongs to a row of the whole. Pure."""

from __future__ import annotations

from workers.authors.compiler.hand import Hand
from workers.authors.compiler.naming import Names
from workers.authors.compiler.program import Program
from workers.authors.compiler.refusals import CannotCompileError
from workers.authors.compiler.values import Value


def row_index(program: Program, names: Names, load: Value, row: str = "rows") -> tuple[str, tuple[str, ...]]:
    """Give the text of a tensor's row for ``row`` of the whole, and the names of the sizes in it (none where it has all rows)."""
    run = _run(program, str(load.datum)) if load.space.rows else None
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


def partial_size_lines(hand: Hand, sizes: tuple[str, ...]) -> list[str]:
    """Compute, in a launcher, those of the sizes that tensors with fewer rows need."""
    lines = []
    for size in dict.fromkeys(sizes):
        for text, node in hand.tensors:
            for suffix in ("repeats", "rows"):
                if size == f"{text}_{suffix}" and size != "n_rows":
                    axes = _size_axes(hand.program, node, suffix == "repeats")
                    lines.append(f"{size} = {hand.product(axes)}")
    return lines


def _size_axes(program: Program, name: str, repeats: bool) -> tuple[int, ...]:
    """Give the axes whose product is ``NAME_repeats``, or ``NAME_rows``."""
    run = _run(program, name)
    if run is None:
        return ()
    first, last = run
    return program.domain.row_axes[last + 1 :] if repeats else program.domain.row_axes[first : last + 1]


def _run(program: Program, name: str) -> tuple[int, int] | None:
    domain = program.domain
    if name not in domain.shapes:
        return None
    places = [domain.row_axes.index(axis) for axis in domain.rows_of(name)]
    if not places or len(places) == len(domain.row_axes):
        return None
    if places != list(range(places[0], places[-1] + 1)):
        raise CannotCompileError(f"`{name}` lacks a dimension between others that it has")
    return places[0], places[-1]
