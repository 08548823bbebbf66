"""Compiled kernels give what the reference gives, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_runner.contracts import Expr
from tests.few import asked_for
from tests.workers.compiler.captured import COMPILED, captured
from tests.workers.compiler.processes import interpreted
from workers.authors.compiler.axes import find_chunking
from workers.authors.compiler.graph import CannotCompileError
from workers.layouts.dimensions import leading_inputs

Case = tuple[str, dict[str, int], str, tuple[int, ...], dict[str, int]]
SHAPES = ((1, 1), (3, 7), (6, 33), (5, 129), (4, 1030), (70, 40))
WIDE = (2, 70_000)
# One element has no variance, no half and, for a sum of three normalised powers, no gradient but what rounding leaves.
NO_SINGLE = {"group_norm", "group_norm_2d", "rope_one", "rotary", "poly_norm"}
# Channels fall into groups.
MULTIPLES = {"group_norm": {"C": 32}, "group_norm_2d": {"C": 2}, "block_scales": {"H": 16}}
# Scalars that divide a dimension: one, two, a number that is odd, and as many as the dimension has.
DIVIDED = {
    "group_norm": ("groups", {"N": 3, "C": 30, "S": 11}, "C"),
    "block_scales": ("block", {"T": 7, "H": 210}, "H"),
}
# One of each schedule that loops over a wide row.
WIDE_NAMES = (
    "swiglu",
    "dyt",
    "add_rms_norm",
    "layer_norm",
    "softmax",
    "logsumexp",
    "row_scale",
    "mse",
    "layer_scale",
    "beside_a_sum",
    "packed_norm",
    "cross_entropy",
    "poly_norm",
    "argmin_rows",
    "running_sum",
    "sum_from_the_end",
)
# Element by element: of no rows there is nothing to compute. Attention over no keys is zero.
EMPTY = {
    "reglu": {"T": 0, "I": 37},
    "relu_squared": {"T": 0, "H": 37},
    "attention": {"B": 2, "T": 37, "S": 0, "D": 16},
}
# Their columns are the middle or the first dimension; a reduction over it that is wider than a block.
DEEP = {
    "middle_sum": {"B": 2, "T": 70_000, "H": 3},
    "middle_max": {"B": 2, "T": 70_000, "H": 3},
    "middle_softmax": {"M": 2, "K": 70_000, "L": 3},
    "batch_norm": {"T": 70_000, "H": 2},
    "middle_product": {"B": 2, "T": 70_000, "H": 2},
    "leading_logsumexp": {"B": 70_000, "T": 2, "H": 2},
}


def sizes_of(name: str, rows: int, cols: int) -> dict[str, int]:
    """The last dimension of the first input gets the columns; two leading ones share the rows."""
    problem, graph = captured(name)
    first = max((spec.dims for spec in problem.inputs), key=len)
    sizes = {dim: cols for spec in problem.inputs for dim in spec.dims[-1:] if not dim.isdigit()}
    try:
        parting = find_chunking(graph, problem.dimensions)
    except CannotCompileError:
        parting = None  # its columns are moved, whatever the lengths
    sizes.update(
        {dim.text: cols * parting.count for dim in parting.lengths if isinstance(dim, Expr) and dim.text in sizes}
        if parting
        else {}
    )
    leading = [dim for dim in dict.fromkeys(first[:-1]) if not dim.isdigit()]
    shares = [rows] if len(leading) == 1 else [2 if rows > 1 else 1, max(1, rows // 2), 1][: len(leading)]
    sizes.update(zip(leading, shares, strict=True))
    whole = MULTIPLES.get(name, {})
    sizes = {dim: -(-sizes.get(dim, rows) // whole.get(dim, 1)) * whole.get(dim, 1) for dim in problem.dimensions}
    return sizes | {size.dimension: size.step * sizes[size.of] for size in graph.traced if size.of is not None}


def cases_of(name: str) -> dict[str, Case]:
    """A problem at each shape, the dtypes taking turns, and at what is its alone: a wide row, more dimensions, other scalars."""
    found: dict[str, Case] = {}
    for turn, (rows, cols) in enumerate((*SHAPES, *([WIDE] if name in WIDE_NAMES else []))):
        if (rows, cols) == (1, 1) and name in NO_SINGLE:
            continue
        for dtype in ("float32", "bfloat16") if (rows, cols) == (5, 129) else (("float32", "bfloat16")[turn % 2],):
            found[f"{name} {rows}x{cols} {dtype}"] = (name, sizes_of(name, rows, cols), dtype, (), {})
    if name in EMPTY:
        found[f"{name} {EMPTY[name]}"] = (name, EMPTY[name], "float32", (), {})
    if name in DEEP:
        found[f"{name} {DEEP[name]}"] = (name, DEEP[name], "float32", (), {})
    if leading_inputs(*captured(name)):
        found[f"{name} with leading dimensions"] = (name, sizes_of(name, 6, 37), "float32", (2, 3), {})
    if name in DIVIDED:
        scalar, sizes, dim = DIVIDED[name]
        for turn, value in enumerate((1, 2, 15, sizes[dim])):
            dtype = ("float32", "bfloat16")[turn % 2]
            found[f"{name} {scalar}={value}"] = (name, sizes, dtype, (), {scalar: value})
    return found


def few_of(name: str) -> dict[str, Case]:
    """What `make test` runs: a shape that fills no block, in both dtypes, another one in turn, and what is its alone.

    Of a product 1030 takes no turn: where it is the length of every side, the interpreter takes seconds.
    """
    plain = [f"{name} {rows}x{cols} " for rows, cols in SHAPES]
    has_product = any(node.op == "matmul" for node in captured(name)[1].nodes)
    cases = cases_of(name)
    turns = [0, 1, 2, 5] if has_product else [4, 0, 4, 1, 4, 2, 5]
    turns = [turn for turn in turns if any(key.startswith(plain[turn]) for key in cases)]
    kept = {plain[3], *(plain[turn] for turn in turns[COMPILED.index(name) % max(1, len(turns)) :][:1])}
    left = set(plain) - kept
    return {key: case for key, case in cases.items() if not key.startswith(tuple(left))}


def others_of(name: str) -> dict[str, Case]:
    return {key: case for key, case in cases_of(name).items() if key not in few_of(name)}


def results_of(
    names: list[str], cases: Callable[[str], dict[str, Case]], folder: Path
) -> dict[str, dict[str, list[str]]]:
    """What is wrong with each problem in some cases, from one process."""
    return interpreted("interpreted", {name: cases(name) for name in names}, folder)


@pytest.fixture(scope="module")
def few(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    return results_of(asked_for(request, "name"), few_of, tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def others(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    return results_of(asked_for(request, "name"), others_of, tmp_path_factory.mktemp("others"))


def test_every_compiled_problem_with_a_scalar_that_divides_is_tried_with_other_ones() -> None:
    assert {name for name in COMPILED if captured(name)[1].multiples} == set(DIVIDED)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_candidate_errs_no_more_than_twice_the_reference(name: str, few: dict[str, dict[str, list[str]]]) -> None:
    assert few[name] == {case: [] for case in few[name]}
    assert len(few[name]) >= 3


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_candidate_errs_no_more_than_twice_the_reference_at_other_shapes(
    name: str, others: dict[str, dict[str, list[str]]]
) -> None:
    assert others[name] == {case: [] for case in others[name]}
    assert len(others[name]) >= 2
