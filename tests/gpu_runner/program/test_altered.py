"""What kernels meet otherwise than they are given."""

from __future__ import annotations

import numpy as np
import pytest

from gpu_runner.program import altered
from gpu_runner.program.altered import ABOVE, BELOW, HALF, TWICE

NAMES = ("x_ptr", "n", "BLOCK", "IS_CAUSAL")


@pytest.mark.parametrize(
    ("what", "found"), [(ABOVE, [4, -1]), (BELOW, [2, -3]), (f"{HALF}BLOCK", [3, -2]), ("", [3, -2])]
)
def test_floats_are_cut_to_the_whole_number_beside_theirs(what: str, found: list[int]) -> None:
    with altered.altering(what):
        cut = altered.cut(np.array([3, -2], np.int32))
    assert (cut.tolist(), cut.dtype) == (found, np.int32)
    assert altered.cut(np.array([0.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("what", "block", "found"),
    [
        (f"{HALF}BLOCK", 64, 32),
        (f"{TWICE}BLOCK", 64, 128),
        (f"{HALF}BLOCK", 16, 16),  # a product of blocks has no fewer
        (f"{HALF}BLOCK", 96, 96),
        (f"{TWICE}n", 64, 64),
        (f"{TWICE}BLOCK", True, True),
        (ABOVE, 64, 64),
    ],
)
def test_a_block_has_half_or_twice_its_elements_by_place_and_by_name(what: str, block: int, found: int) -> None:
    with altered.altering(what):
        assert altered.arguments(NAMES, (None, 5, block, 1), {}) == ((None, 5, found, 1), {})
        assert altered.arguments(NAMES, (None, 5), {"BLOCK": block, "num_warps": 4}) == (
            (None, 5),
            {"BLOCK": found, "num_warps": 4},
        )
