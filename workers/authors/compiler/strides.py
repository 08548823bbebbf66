"""Where elements lie whose rows or columns are not one run of dimensions, as in a reduction over a middle one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from workers.authors.compiler.domain import Domain
from workers.authors.compiler.hand import Hand


@dataclass(frozen=True)
class Run:
    """Dimensions that lie side by side in memory and are all of rows, or all of columns."""

    is_row: bool
    axes: tuple[int, ...]


def runs_of(domain: Domain) -> tuple[Run, ...]:
    """Give the runs of a whole tensor, outermost first."""
    runs: list[Run] = []
    for axis in domain.order:
        is_row = axis in domain.row_axes
        if runs and runs[-1].is_row == is_row:
            runs[-1] = Run(is_row, (*runs[-1].axes, axis))
        else:
            runs.append(Run(is_row, (axis,)))
    return tuple(runs)


def run_sizes(domain: Domain) -> tuple[str, ...]:
    """Give the names of the sizes that a kernel needs to find an element: of every run but the outermost."""
    return tuple(f"run_{place}" for place in range(1, len(runs_of(domain)))) if domain.is_strided else ()


def run_size_lines(hand: Hand, sizes: tuple[str, ...]) -> list[str]:
    """Compute, in a launcher, those of the sizes that runs need."""
    runs = runs_of(hand.program.domain)
    return [
        f"run_{place} = {hand.product(run.axes)}"
        for place, run in enumerate(runs)
        if f"run_{place}" in dict.fromkeys(sizes)
    ]


def place_of(domain: Domain, index: str, rows: bool) -> str:
    """Write how far the row, or the column, of number ``index`` lies from the tensor's first element."""
    runs = runs_of(domain)
    own = [place for place, run in enumerate(runs) if run.is_row == rows]
    terms = []
    for place in own:
        inner = [f"run_{other}" for other in own if other > place]
        text = f"{index} // {_product(inner)}" if inner else index
        if place != own[0]:
            text = f"({text}) % run_{place}" if inner else f"{text} % run_{place}"
        stride = [f"run_{other}" for other in range(place + 1, len(runs))]
        wide = " * ".join([f"tl.cast({stride[0]}, tl.int64)", *stride[1:]]) if stride else ""
        text = f"({text})" if " " in text else text
        terms.append(f"{text} * ({wide})" if len(stride) > 1 else f"{text} * {wide}" if wide else text)
    return " + ".join(terms)


def _product(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({' * '.join(names)})"
