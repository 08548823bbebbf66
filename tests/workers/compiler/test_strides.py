"""Where the elements of rows and columns lie, whichever dimensions are columns; and what is refused rather than guessed."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest

from tests.workers.compiler.captured import captured, proposal, style
from workers.authors.compiler import CompilerAuthor
from workers.authors.compiler.domain import Domain, place_of, run_sizes, runs_of
from workers.authors.protocol import Brief

SIZES = (3, 4, 2, 5)
TL = SimpleNamespace(cast=lambda value, _: value, int64=None)


@pytest.mark.parametrize(
    "cols",
    [c for count in (1, 2, 3) for c in itertools.combinations(range(4), count) if c != tuple(range(4 - count, 4))],
)
def test_every_row_and_column_of_a_tensor_is_one_element_in_the_order_of_its_dimensions(cols: tuple[int, ...]) -> None:
    axes = tuple(range(4))
    rows = tuple(axis for axis in axes if axis not in cols)
    domain = Domain(rows, cols, dict(enumerate(SIZES)), {}, order=axes)
    known = {f"run_{place}": math.prod(SIZES[axis] for axis in run.axes) for place, run in enumerate(runs_of(domain))}
    names = {name: known[name] for name in run_sizes(domain)} | {"tl": TL}
    texts = place_of(domain, "rows", rows=True), place_of(domain, "cols", rows=False)
    strides = [math.prod(SIZES[axis + 1 :]) for axis in axes]
    places = [(eval(texts[0], names | {"rows": row}), row) for row in range(math.prod(SIZES[a] for a in rows))]
    for (row_place, row), col in itertools.product(places, range(math.prod(SIZES[a] for a in cols))):
        at = dict(zip(rows, _unravelled(row, [SIZES[a] for a in rows]), strict=True))
        at |= dict(zip(cols, _unravelled(col, [SIZES[a] for a in cols]), strict=True))
        assert row_place + eval(texts[1], names | {"cols": col}) == sum(at[a] * strides[a] for a in axes)


def _unravelled(number: int, sizes: list[int]) -> list[int]:
    found = []
    for size in reversed(sizes):
        number, rest = divmod(number, size)
        found.append(rest)
    return found[::-1]


def test_no_variable_of_a_kernel_is_called_float() -> None:
    assert "float = " not in proposal("argmin_rows").source


def test_scans_from_both_ends_raise_for_rows_that_no_tile_holds() -> None:
    source = proposal("running_product").source
    backward = source[source.index("def running_product_backward") :]
    assert "_tile_settings(n_cols, 4)" in backward
    assert "are more than one block holds" in source


def test_a_kernel_for_wide_rows_is_there_for_scans_from_one_end() -> None:
    problem, graph = captured("sum_from_the_end")
    answer = CompilerAuthor().propose(Brief("sum_from_the_end", problem, graph, style("sum_from_the_end")))
    assert "_sum_from_the_end_forward_kernel_wide" in getattr(answer, "source", "")


def test_a_product_so_far_in_wide_rows_has_its_device_function() -> None:
    assert "def _multiplied(x, y):" in proposal("running_product").source
