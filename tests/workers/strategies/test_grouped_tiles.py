"""Tiles in groups: which kernels get them, what stays as it is, and what programs that run together read."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.workers.strategies.product_files import PRODUCT
from tests.workers.strategies.row_files import loaded
from tests.workers.strategies.situations import situation
from workers.strategies.grouped_tiles import GROUP, GROUPED_TILES
from workers.strategies.protocol import DoesNotApply, Proposed

INNER = """\

@triton.jit
def _deep(x):
    return x + tl.program_id(0)


@triton.jit
def _inner(x):
    return _deep(x)

"""
ADDED = "    pid_n, pid_m = tl.swizzle2d(pid_n, pid_m, tl.num_programs(1), tl.num_programs(0), 8)\n"
IDS = "    pid_m = tl.program_id(0)\n    pid_n = tl.program_id(1)\n"


def proposed(source: str = PRODUCT) -> str:
    answer = GROUPED_TILES.propose(situation(source))
    assert isinstance(answer, Proposed), answer
    return answer.source


def test_one_line_is_added_behind_the_program_ids() -> None:
    assert proposed() == PRODUCT.replace(IDS, IDS + ADDED)
    assert isinstance(GROUPED_TILES.propose(situation(proposed())), DoesNotApply)


@pytest.mark.parametrize(
    "ids",
    [
        "    pid_n, pid_m = tl.program_id(axis=1), tl.program_id(axis=0)\n",
        "    pid_m, pid_n, _ = tl.program_id(0), tl.program_id(1), tl.program_id(2)\n",
        "    pid_m = tl.program_id(0).to(tl.int64)  # rows\n    K = K\n    pid_n = tl.program_id(1)\n",
    ],
)
def test_ids_are_found_in_each_way_to_write_them(ids: str) -> None:
    assert proposed(PRODUCT.replace(IDS, ids)) == PRODUCT.replace(IDS, ids + ADDED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("acc += tl.dot(a, b)", "acc += a * b"),  # no product
        ("    tl.store(c_ptr", "    tl.atomic_add(c_ptr, 1.0)\n    tl.store(c_ptr"),  # an order of sums, or a lock
        (IDS, "    pid = tl.program_id(0)\n    pid_m, pid_n = pid // 8, pid % 8\n"),  # grouped already, or not
        (IDS, IDS.replace("(1)", "(2)")),
        (IDS, f"{IDS}    again = tl.program_id(0)\n"),
        (IDS, f"{IDS}    pid_m += 1\n"),
        (IDS, "    pid_m = tl.program_id(0)\n    start = pid_m * BM\n    pid_n = tl.program_id(1)\n"),
        (IDS, "    pid_m = tl.program_id(0)\n    if M > 0:\n        pid_n = tl.program_id(1)\n"),
        (IDS, "    axis: tl.constexpr = 0\n    pid_m = tl.program_id(axis)\n    pid_n = tl.program_id(1)\n"),
        ("    acc = tl", "    rows = place(rows)\n    acc = tl"),  # it may ask for its program itself
        ("    acc = tl", "    rows = places.of(rows)\n    acc = tl"),
        ("    acc = tl", "    rows = _inner(rows)\n    acc = tl"),
        (IDS, f"{IDS}    size = tl.program_id(axis=AXIS)\n"),
        ("b_ptr + inner[:, None] * N + cols[None, :]", "b_ptr + inner[:, None] * N + rows[None, :]"),
        ("    _product[", "    if True:\n        pass\n    other["),  # launched by no one here
    ],
)
def test_a_kernel_whose_programs_may_depend_on_their_order_is_left_alone(before: str, after: str) -> None:
    assert before in PRODUCT
    asked = situation(PRODUCT.replace(before, after) + INNER)
    assert isinstance(GROUPED_TILES.propose(asked), DoesNotApply)
    assert GROUPED_TILES.plan(asked) is None


def test_functions_of_the_file_that_ask_for_no_program_may_be_called() -> None:
    source = PRODUCT.replace("    acc = tl", "    rows = _inner(rows).to(tl.int64)\n    acc = tl")
    proposed(source + INNER.replace(" + tl.program_id(0)", " + 0"))


def test_no_gain_is_promised_that_was_not_measured() -> None:
    planned = GROUPED_TILES.plan(situation(PRODUCT))
    answer = GROUPED_TILES.propose(situation(PRODUCT))
    assert planned is not None and (planned.gain_low, planned.gain_high) == (1.0, 1.0)
    assert isinstance(answer, Proposed) and answer.notes.expected == "What it gains was not measured; the same values."


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (200, 70, 33), (65, 310, 20)])
def test_every_element_is_the_same(m: int, n: int, k: int, tmp_path: Path) -> None:
    a, b = torch.randn(m, k), torch.randn(k, n)
    results = [loaded(tmp_path, text, f"p{at}").product(a, b) for at, text in enumerate((PRODUCT, proposed()))]
    torch.testing.assert_close(results[0], a @ b)
    assert torch.equal(*results)


def test_programs_that_run_together_read_fewer_tiles_and_all_tiles_are_computed_once() -> None:
    sizes, together = (40, 50), 132
    started = [(x, y) for y in range(sizes[1]) for x in range(sizes[0])]
    tiles = [_tile(x, y, sizes) for x, y in started]
    assert sorted(tiles) == sorted(started)
    starts = range(0, len(started) - together, together)
    before, after = (sum(_read(order[at : at + together]) for at in starts) for order in (started, tiles))
    assert after < 0.7 * before


def _read(tiles: list[tuple[int, int]]) -> int:
    return len({x for x, _ in tiles}) + len({y for _, y in tiles})


def _tile(x: int, y: int, sizes: tuple[int, int]) -> tuple[int, int]:
    """The tile of a program, by the line that is added."""
    tl = SimpleNamespace(num_programs=lambda axis: sizes[axis], swizzle2d=_swizzled)
    names = {"tl": tl, "pid_m": x, "pid_n": y}
    exec(ADDED.strip(), names)
    return names["pid_m"], names["pid_n"]  # type: ignore[return-value]


def _swizzled(i: int, j: int, size_i: int, size_j: int, size_g: int) -> tuple[int, int]:
    """As Triton documents it: in each group of rows down the columns."""
    assert size_g == GROUP
    place = i * size_j + j
    first = place // (size_g * size_j) * size_g
    rows, place = min(size_i - first, size_g), place % (size_g * size_j)
    return first + place % rows, place // rows
