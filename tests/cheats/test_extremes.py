"""What is right, or nearly, on ordinary values alone: each fault is one change to an honest kernel."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status
from gpu_runner.verify.cases import Content
from gpu_runner.verify.judge import judge_by
from tests.cheats.trial import proofs, surroundings
from tests.few import few
from tests.honest.table import KERNELS

LARGE = ("large_values", "values up to")
ODD = ("not_finite", "infinities and NaN")
STORE = "tl.store(y_ptr + row * n_cols + cols, tl.exp(x - top) * scale"
GATE = "tl.where(a <= 0, 0.0, a).to(b.dtype) * b"


@dataclass(frozen=True)
class Fault:
    """A change to an honest kernel; ``told`` is the check that finds it, and what its sentence says.

    ``alone``: nothing but the cases of large and odd values shows it.
    """

    kernel: str
    changes: tuple[tuple[str, str], ...]
    told: tuple[str, str]
    dtype: str = "float32"
    alone: bool = True


FAULTS = {
    "softmax without its maximum": Fault("softmax", (("tl.exp(x - top)", "tl.exp(x)"),), LARGE, alone=False),
    "maximum that begins too high": Fault(
        "softmax", (('tl.full((BLOCK,), -float("inf"), dtype', "tl.full((BLOCK,), -10000.0, dtype"),), LARGE
    ),
    "cross entropy without its maximum": Fault(
        "cross_entropy", (("tl.max(x, axis=0)", "tl.max(x, axis=0) * 0.0"),), LARGE, alone=False
    ),
    "squares in float16": Fault(
        "rms_norm",
        (("tl.sum(h * h, axis=0)", "tl.sum((x * x).to(tl.float32), axis=0)"),),
        LARGE,
        "float16",
        alone=False,
    ),
    "clamped output": Fault("reglu", ((GATE, f"tl.minimum(tl.maximum({GATE}, -1e4), 1e4)"),), LARGE),
    "one row times zero in another": Fault(
        "softmax",
        (
            (
                "total += tl.exp(x - top)",
                "above = tl.load(x_ptr + tl.maximum(row - 1, 0) * stride + cols, mask=cols < n_cols, other=0.0)\n"
                "        total += tl.exp(x - top) + 0.0 * above",
            ),
        ),
        ODD,
    ),
    "no number becomes zero": Fault(
        "softmax",
        (
            (
                STORE,
                "y = tl.exp(x - top) * scale\n        tl.store(y_ptr + row * n_cols + cols, tl.where(y == y, y, 0.0)",
            ),
        ),
        ODD,
    ),
    "block by block from minus infinity": Fault(
        "softmax",
        (
            ("min(1024, triton.next_power_of_2(n_cols))", "min(512, triton.next_power_of_2(n_cols))"),
            (
                "        largest = tl.maximum(largest, x)",
                "        raised = tl.max(tl.maximum(largest, x), axis=0)\n"
                "        sums = sums * tl.exp(tl.max(largest, axis=0) - raised) + tl.sum(tl.exp(x - raised), axis=0)\n"
                "        largest = tl.zeros((BLOCK,), dtype=tl.float32) + raised",
            ),
            ("    for start in range(0, n_cols, BLOCK):", "    sums = 0.0\n    for start in range(0, n_cols, BLOCK):"),
            ("scale = 1.0 / tl.sum(total, axis=0)", "scale = 1.0 / sums"),
        ),
        ODD,
    ),
    "relu that drops NaN": Fault("reglu", ((GATE, "tl.where(a > 0, a, 0.0).to(b.dtype) * b"),), ODD),
    "relu by a maximum that passes NaN over": Fault("reglu", ((GATE, "tl.maximum(a, 0.0).to(b.dtype) * b"),), ODD),
}


def faulty(fault: Fault) -> CandidateSource:
    text = (KERNELS / f"{fault.kernel}.py").read_text()
    for old, new in fault.changes:
        assert old in text
        text = text.replace(old, new, 1) if "sums" in new else text.replace(old, new)
    return CandidateSource((SourceFile("candidate.py", text),))


@pytest.mark.parametrize("name", few(sorted(FAULTS), [name for name, fault in FAULTS.items() if fault.alone]))
def test_a_fault_that_only_shows_on_values_far_out_is_refused_with_what_they_were(name: str) -> None:
    fault = FAULTS[name]
    check, words = fault.told
    far = [proof for proof in proofs(fault.kernel, fault.dtype) if proof.case.content is not Content.ordinary]
    verdict = judge_by(far, faulty(fault), surroundings())
    assert verdict.status in (Status.incorrect_values, Status.incorrect_gradient)
    found = next(evidence for evidence in verdict.evidence if evidence.check == check)
    assert words in found.message
    if fault.alone:
        assert {one.name for one in verdict.checks if not one.passed} <= {LARGE[0], ODD[0]}
