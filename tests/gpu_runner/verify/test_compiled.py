"""Where there is no GPU, Triton's compiler sees what cases launch: the interpreter takes more than it does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_runner.contracts import CandidateSource, Check, SourceFile, Status
from gpu_runner.session import has_gpu
from gpu_runner.verify.answer import CaseAnswer
from gpu_runner.verify.judge import _Compiling, _Trial
from tests.cheats.trial import proofs, surroundings

pytestmark = pytest.mark.skipif(has_gpu(), reason="a GPU compiles what it runs")

SUMS = """
import torch
import triton
import triton.language as tl

SCALE = {scale}

@triton.jit
def _sum(x_ptr, at, n_cols, BLOCK: tl.constexpr):
    total = {begin}
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at + cols, mask=cols < n_cols, other=0.0) * SCALE
    return tl.sum(total, axis=0)

@triton.jit
def _both(a_ptr, b_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n_cols
    total = _sum(a_ptr, at, n_cols, BLOCK) + _sum(b_ptr, at, n_cols, BLOCK)
    tl.store(y_ptr + at + tl.arange(0, 1), total)

def candidate(a, b):
    y = torch.empty_like(a)
    _both[(a.numel() // a.shape[-1],)](a, b, y, a.shape[-1], BLOCK=32)
    if float(y[0, 0]) > 0.0:  # of memory that no kernel wrote where none runs
        _both[(1,)](a, b, y, 1, BLOCK=64)
    return y
"""
GOOD = SUMS.format(scale="tl.constexpr(1.0)", begin="tl.zeros((BLOCK,), tl.float32)")


def compiled(text: str, original: str | None = None, launched: tuple[str, ...] = ("_both",)) -> _Trial:
    trial, proof = _Trial(), proofs("reglu")[0]
    sources = [one and CandidateSource((SourceFile("candidate.py", one),)) for one in (text, original)]
    with _Compiling(cast(CandidateSource, sources[0]), surroundings(), cast(Any, sources[1])) as compiling:
        compiling.take(proof, cast(CaseAnswer, SimpleNamespace(launched=dict.fromkeys(launched, 1), decisions={})))
        compiling.end(trial, proof.form)
    return trial


def test_what_compiles_is_named_nowhere_and_what_was_not_asked_about_is() -> None:
    trial = compiled(GOOD, launched=("_both", "_other"))
    assert trial.findings == []
    assert trial.refused == [Check("compile_left_out", "_other", True)]


@pytest.mark.parametrize(
    ("scale", "begin", "line", "words"),
    [
        ("tl.constexpr(1.0)", "0.0", 11, "initial type fp32 but is re-assigned"),
        ("1.0", "tl.zeros((BLOCK,), tl.float32)", 13, "Cannot access global variable SCALE"),
    ],
)
@pytest.mark.slow
def test_what_no_compiler_takes_is_said_in_its_words_with_the_line(
    scale: str, begin: str, line: int, words: str
) -> None:
    (finding,) = compiled(SUMS.format(scale=scale, begin=begin)).findings
    assert finding.status is Status.compile_error
    assert words in finding.evidence.message
    assert finding.evidence.line == line


PRODUCT = """
import torch
import triton
import triton.language as tl

@triton.jit
def _product(a_ptr, b_ptr, y_ptr, n_cols, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, cols = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, n_cols, K):
        a = tl.load(a_ptr + rows * n_cols + start + tl.arange(0, K)[None, :])
        b = tl.load(b_ptr + cols * n_cols + start + tl.arange(0, K)[:, None])
        total += tl.dot(a, b)
    tl.store(y_ptr + rows * n_cols + cols, total)

def candidate(a, b):
    y = torch.empty_like(a)
    _product[(1,)](a, b, y, a.shape[-1], M=64, N=64, K={depth}, num_stages=4)
    return y
"""


@pytest.mark.parametrize(("depth", "words"), [(128, ["shared memory, Required"]), (32, [])])
@pytest.mark.slow
def test_more_shared_memory_than_a_block_has_is_refused(depth: int, words: list[str]) -> None:
    trial = compiled(PRODUCT.format(depth=depth), launched=("_product",))
    assert [finding.status for finding in trial.findings] == [Status.compile_error] * len(words)
    assert all(word in trial.findings[0].evidence.message for word in words)
    assert trial.refused == []


@pytest.mark.slow
def test_what_is_refused_of_an_original_too_is_named_alone() -> None:
    text = SUMS.format(scale="1.0", begin="tl.zeros((BLOCK,), tl.float32)")
    trial = compiled(text, text)
    assert trial.findings == []
    assert trial.refused == [Check("compile_left_out", "_both", True)]


@pytest.mark.parametrize(
    ("inside", "again"),
    [
        ("n_cols.to(tl.int64)", "_both[(1,)](a, b, y, 1, BLOCK=32)"),
        ("n_cols if BLOCK == 32 else tl.zeros((5,), tl.int32)", "_both[(1,)](a, b, y, a.shape[-1], BLOCK=64)"),
    ],
)
def test_a_kernel_is_read_again_with_other_constants_and_with_an_argument_of_one(inside: str, again: str) -> None:
    text = GOOD.replace("_both[(1,)](a, b, y, 1, BLOCK=64)", again).replace("if float(y[0, 0]) > 0.0:", "if True:")
    text = text.replace("tl.program_id(0).to(tl.int64) * n_cols", f"tl.program_id(0) * ({inside})")
    trial = compiled(text)
    assert [finding.status for finding in trial.findings] == [Status.compile_error]
