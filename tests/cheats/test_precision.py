"""What is nearly right: each kernel is an honest one that loses a little more than it must, forward or backward."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpu_runner.contracts import Status
from gpu_runner.verify.judge import judge_by
from tests.cheats.test_uses import changed
from tests.cheats.trial import proofs, surroundings
from tests.few import few

STORED = "tl.exp(x - top) * scale"
GRADIENT = "y * (dy - dot)"
PRODUCT = "w * (h * rstd).to(x.dtype)"


@dataclass(frozen=True)
class Loss:
    """A change to an honest kernel, in the dtypes in which it must be found."""

    kernel: str
    changes: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]
    status: Status = Status.incorrect_values


def _cut(expression: str, bits: int) -> str:
    return f"(({expression}).to(tl.int32, bitcast=True) & -{1 << bits}).to(tl.float32, bitcast=True)"


def _at_one_column(expression: str, factor: float) -> str:
    return f"tl.where(cols == n_cols - 2, {factor}, 1.0) * ({expression})"


EVERY = ("float32", "float16", "bfloat16")
HALVES = ("float16", "bfloat16")
BACKWARD = Status.incorrect_gradient
LOSSES = {
    "half of the mantissa": Loss("softmax", ((STORED, _cut(STORED, 12)),), ("float32",)),
    "half of the mantissa, backward": Loss("softmax", ((GRADIENT, _cut(GRADIENT, 12)),), ("float32",), BACKWARD),
    "as tf32": Loss("softmax", ((STORED, _cut(STORED, 13)),), ("float32",)),
    "half a percent": Loss("softmax", ((STORED, f"{STORED} * 1.005"),), EVERY),
    "half a percent, backward": Loss("softmax", ((GRADIENT, f"{GRADIENT} * 0.995"),), EVERY, BACKWARD),
    "half a percent of the weight's gradient": Loss(
        "rms_norm", (("dw += dy * xhat", "dw += dy * xhat * 1.005"),), EVERY, BACKWARD
    ),
    "one element a row": Loss("softmax", ((STORED, _at_one_column(STORED, 1.02)),), HALVES),
    "one element a row in float32": Loss("softmax", ((STORED, _at_one_column(STORED, 1.0005)),), ("float32",)),
    "one element a row, backward": Loss("softmax", ((GRADIENT, _at_one_column(GRADIENT, 1.03)),), EVERY, BACKWARD),
    "a sum in bfloat16": Loss(
        "softmax",
        (
            ("total = tl.zeros((BLOCK,), dtype=tl.float32)", "total = tl.zeros((BLOCK,), dtype=tl.bfloat16)"),
            ("total += tl.exp(x - top)", "total = (total + tl.exp(x - top).to(tl.bfloat16)).to(tl.bfloat16)"),
            ("tl.sum(total, axis=0)", "tl.sum(total.to(tl.float32), axis=0)"),
            ("min(1024,", "min(32,"),
        ),
        ("bfloat16",),
    ),
    "random rounding": Loss(
        "softmax",
        (
            (
                f"        tl.store(y_ptr + row * n_cols + cols, {STORED}",
                f"        y = {STORED}\n"
                "        drawn = tl.randint(n_cols, (row * n_cols + cols).to(tl.int32)).to(tl.int32) & 0xFFFF\n"
                "        y = ((y.to(tl.int32, bitcast=True) + drawn) & -65536).to(tl.float32, bitcast=True)\n"
                "        tl.store(y_ptr + row * n_cols + cols, y",
            ),
        ),
        ("bfloat16",),
    ),
}


EACH = [(name, dtype) for name, loss in LOSSES.items() for dtype in loss.dtypes]


@pytest.mark.parametrize(("name", "dtype"), few(EACH, [(name, loss.dtypes[-1]) for name, loss in LOSSES.items()][::4]))
def test_what_loses_more_than_the_reference_and_an_ideal_rounding_is_refused(name: str, dtype: str) -> None:
    loss = LOSSES[name]
    verdict = judge_by(proofs(loss.kernel, dtype), changed(loss.kernel, loss.changes), surroundings())
    assert verdict.status is loss.status
