"""A program of proved parts is held against what it claims: values and gradients, kernels that run, and where torch computes."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import CandidateSource, Composed, SourceFile, Status, Verdict, VerifyRequest
from gpu_runner.verify.judge import judge
from tests.cheats.trial import surroundings
from tests.few import few

PROBLEM = """
import torch.nn.functional as F


def reference(x, w, b, w2):
    return F.linear(F.relu(F.linear(x, w, b)) * 2.0, w2)


INPUTS = {"x": "T 8", "w": "12 8", "b": "12", "w2": "8 12"}
WORKLOADS = [{"T": 7}]
"""
PROGRAM = """
import torch
import triton
import triton.language as tl


@triton.jit
def _part_kernel(y_ptr, x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, tl.maximum(x, 0.0) * 2.0, mask=at < n)


@triton.jit
def _part_backward_kernel(dx_ptr, dy_ptr, x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    dy = tl.load(dy_ptr + at, mask=at < n)
    tl.store(dx_ptr + at, tl.where(x > 0, dy * 2.0, 0.0), mask=at < n)


class PartGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dy, x):
        dy, dx = dy.contiguous(), torch.empty_like(x)
        _part_backward_kernel[(triton.cdiv(x.numel(), 64),)](dx, dy, x, x.numel(), BLOCK=64)
        return dx

    @staticmethod
    def backward(ctx, *upstream):
        raise RuntimeError("there is no second derivative")


class PartFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        _part_kernel[(triton.cdiv(x.numel(), 64),)](y, x, x.numel(), BLOCK=64)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return PartGradients.apply(dy, x)


def candidate(x, w, b, w2):
    h = torch.ops.aten.linear.default(x, w, b)
    h = PartFunction.apply(h)
    return torch.ops.aten.linear.default(h, w2)
"""
CALL = "PartFunction.apply(h)"
KERNELS = ("_part_kernel", "_part_backward_kernel")


def judged(program: str, kernels: tuple[str, ...] = KERNELS) -> Verdict:
    lines = tuple(number for number, line in enumerate(PROGRAM.splitlines(), 1) if "aten.linear" in line)
    candidate = CandidateSource((SourceFile("candidate.py", program),), "candidate", "candidate")
    return judge(VerifyRequest(PROBLEM, candidate, ("float32",), composed=Composed(lines, kernels)), surroundings())


@pytest.mark.slow
def test_a_program_that_is_what_it_claims_passes() -> None:
    verdict = judged(PROGRAM)
    assert verdict.status is Status.passed, verdict.evidence
    assert set(verdict.kernels) == set(KERNELS)
    assert {"gradient of w", "gradient of x"} <= {check.output for check in verdict.checks}


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ("torch.relu(h) * 2.0", "a part was not called"),
        ("PartFunction.apply(h) * 0.0 + torch.ops.aten.relu(h) * 2.0", "torch computes the answer"),
    ],
)
def test_a_part_that_torch_computes_is_found(call: str, rule: str) -> None:
    verdict = judged(PROGRAM.replace(CALL, call))
    assert (verdict.status, verdict.rule) == (Status.cheating, rule)


def test_wrong_gradients_of_the_whole_are_found() -> None:
    verdict = judged(PROGRAM.replace("dy * 2.0, 0.0", "dy * 2.5, 0.0"))
    assert verdict.status is Status.incorrect_gradient


def test_a_second_derivative_that_a_part_drops_in_silence_is_found() -> None:
    verdict = judged(PROGRAM.replace("PartGradients.apply(dy, x)", "PartGradients.forward(ctx, dy, x)"))
    assert verdict.status is Status.incorrect_gradient
    assert "In a double backward" in verdict.evidence[0].message


@pytest.mark.parametrize("kept", few(["0", "tuple(x.shape)"], ["tuple(x.shape)"]))
def test_a_part_that_keeps_its_answer_is_found(kept: str) -> None:
    keeps = f"ctx.save_for_backward(x); y = _KEPT.setdefault({kept}, y)"
    verdict = judged(PROGRAM.replace("ctx.save_for_backward(x)", keeps) + "\n\n_KEPT = {}\n")
    assert verdict.status is Status.incorrect_values, verdict
