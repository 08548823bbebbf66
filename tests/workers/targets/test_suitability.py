"""Which language suits an operator, by what its kernels need; the reason says why, or what the others lack."""

from __future__ import annotations

import pytest

from tests.workers.compiler.captured import captured
from workers.targets.suitability import suitability

SUITED = {
    "swiglu": ("cutile", "control of blocks is enough"),
    "relu_squared": ("cutile", "control of blocks is enough"),
    "matmul": ("cutile", "`ct.mma`"),
    "linear_residual": ("cutile", "`ct.mma`"),
    "softmax": ("cutile", "has warps share its sums"),
    "rms_norm": ("cutile", "has warps share its sums"),
    "dyt": ("cutile", "has warps share its sums"),  # element by element forward, sums over rows backward
    "geglu_erf": ("cutedsl", "cannot write it in the other: cuTile has no way to write `erf` yet"),
    "cross_entropy": ("cutile", "has warps share its sums"),
    "rope_one": ("cutile", "control of blocks is enough"),
    "running_sum": ("gpu", "the cuTile target has no schedule for scans"),
    "bmm": ("gpu", "batches of products; the CuTe DSL target has no schedule for matrix products"),
}


@pytest.mark.parametrize("name", SUITED)
def test_an_operator_is_given_the_language_whose_control_it_needs_and_that_expresses_it(name: str) -> None:
    found = suitability(*captured(name))
    target, words = SUITED[name]
    assert found.target == target and words in found.reason


def test_the_sentence_says_whether_another_language_would_be_better() -> None:
    found = suitability(*captured("softmax"))
    assert found.sentence("cutedsl").startswith("cuTile suits this operator better: the compiler")
    assert found.sentence("cutile").startswith("cuTile suits this operator: the compiler")
