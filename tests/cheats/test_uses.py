"""What is right forward and backward, and wrong in another use: each fault is one change to an honest kernel."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from gpu_runner.contracts import CandidateSource, SourceFile, Status, Verdict, VerifyRequest, parse_problem
from gpu_runner.session import has_gpu
from gpu_runner.verify.judge import choose_cases, judge_by, prove
from gpu_runner.verify.proof import Proof
from tests.cheats.trial import proofs, surroundings
from tests.few import few
from tests.honest.table import KERNELS

APPLY = "    return RMSNorm.apply(x, w, eps)"
CALL = "_rms_backward[(programs,)](dy, x, w, rstd, dx, partial, x.stride(0), n_rows,"
LAUNCH = """        dx = torch.empty_like(y)
        _softmax_backward[(y.numel() // n_cols,)](dy, y, dx, n_cols, BLOCK=ctx.block)
        return dx
"""
NESTED = """        return SoftmaxGradient.apply(dy, y, ctx.block)


class SoftmaxGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, dy, y, block):
        n_cols = y.shape[-1]
        dx = torch.empty_like(y)
        _softmax_backward[(y.numel() // n_cols,)](dy, y, dx, n_cols, BLOCK=block)
        ctx.save_for_backward(dy, y)
        return dx

    @staticmethod
    def backward(ctx, v):
        dy, y = ctx.saved_tensors
        along = (v * y).sum(-1, keepdim=True)
        for_dy = y * (v - along)
        for_y = v * (dy - (y * dy).sum(-1, keepdim=True)) - dy * along
        return for_dy, for_y, None
"""


@dataclass(frozen=True)
class Fault:
    """A change to an honest kernel, and the checks of which one finds it."""

    kernel: str
    changes: tuple[tuple[str, str], ...]
    checks: tuple[str, ...]
    status: Status = Status.incorrect_gradient
    begins: str = ""  # of its sentence


FAULTS = {
    "another epsilon under no_grad": Fault(
        "rms_norm",
        ((APPLY, APPLY.replace("eps)", "eps if torch.is_grad_enabled() else 0.5)")),),
        ("no_grad",),
        Status.incorrect_values,
        "Called under torch.no_grad(): ",
    ),
    "another epsilon where nothing wants a gradient": Fault(
        "rms_norm",
        ((APPLY, APPLY.replace("eps)", "eps if x.requires_grad or w.requires_grad else 0.5)")),),
        ("no_grad", "plain"),
        Status.incorrect_values,
    ),
    "weight gradient without a row where it is alone": Fault(
        "rms_norm", ((CALL, CALL.replace("n_rows,", "n_rows - (not ctx.needs_input_grad[0]),")),), ("subset",)
    ),
    "input gradient without a row where it is alone": Fault(
        "rms_norm",
        ((CALL, CALL.replace("n_rows,", "n_rows - (not ctx.needs_input_grad[1]),")),),
        ("written",),
        Status.unwritten_output,
    ),
    "no weight gradient where it is alone": Fault(
        "rms_norm",
        (("partial.sum(dim=0).to(w.dtype), None", "partial.sum(dim=0).to(w.dtype) if ctx.needs_input_grad[0] else None, None"),),
        ("gradient",),
        begins="Called where only some inputs want a gradient: ",
    ),
    "saved statistics overwritten": Fault(
        "rms_norm",
        (("        tl.store(dx_ptr", "        tl.store(rstd_ptr + at, rstd * 2)\n        tl.store(dx_ptr"),),
        ("saved", "second_backward"),
    ),
    "gradient written over the output": Fault("softmax", (("dx = torch.empty_like(y)", "dx = y"),), ("saved", "kept")),
    "double backward of zeros": Fault(
        "softmax",
        ((LAUNCH, NESTED), ("return for_dy, for_y, None", "return torch.zeros_like(dy), torch.zeros_like(y), None")),
        ("double",),
        begins="In a double backward: ",
    ),
    "double backward for the input alone": Fault(
        "softmax", ((LAUNCH, NESTED), ("return for_dy, for_y, None", "return None, for_y, None")), ("gradient", "double")
    ),
    "double backward that forgets a term": Fault(
        "softmax", ((LAUNCH, NESTED), (" - dy * along", "")), ("double",)
    ),
    "one buffer for every output": Fault(
        "softmax",
        (
            ("class Softmax(", "MEMORY = {}\n\n\nclass Softmax("),
            (
                "        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)\n",
                "        key = (n_rows, n_cols, x.dtype)\n"
                "        if key not in MEMORY:\n"
                "            MEMORY[key] = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)\n"
                "        y = MEMORY[key].view(n_rows, n_cols)\n",
            ),
        ),
        ("launch",),
        Status.refused,
    ),
}  # fmt: skip

# Two of four ways in which a call may be used: with what is saved changed, and with results kept. Those without all gradients, and
# with two backwards, take the interpreter twice as long; test_composed has a double backward in `make test`.
KEPT = ("saved statistics overwritten", "one buffer for every output")


def changed(kernel: str, changes: tuple[tuple[str, str], ...]) -> CandidateSource:
    text = (KERNELS / f"{kernel}.py").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return CandidateSource((SourceFile("candidate.py", text),))


@pytest.mark.parametrize("name", few(sorted(FAULTS), KEPT))
def test_a_fault_in_another_use_is_found_with_the_use_named(name: str) -> None:
    fault = FAULTS[name]
    verdict = judge_by(proofs(fault.kernel), changed(fault.kernel, fault.changes), surroundings())
    assert verdict.status is fault.status
    assert any(one.check in fault.checks for one in verdict.evidence)
    assert any(one.message.startswith(fault.begins) for one in verdict.evidence)


def test_strides_of_a_saved_tensor_that_are_kept_on_the_context_are_found() -> None:
    changes = (
        ("ctx.save_for_backward(x, w, rstd)", "ctx.save_for_backward(x, w, rstd)\n        ctx.stride = x.stride(0)"),
        (CALL, CALL.replace("x.stride(0)", "ctx.stride")),
    )
    chosen = [proof for proof in proofs("rms_norm") if any(use.kind == "elsewhere" for use in proof.uses)]
    verdict = judge_by(chosen, changed("rms_norm", changes), surroundings())
    assert verdict.status in (Status.out_of_bounds, Status.incorrect_gradient)


@pytest.mark.long
@pytest.mark.slow
def test_a_right_double_backward_passes() -> None:
    verdict = judge_by(proofs("softmax"), changed("softmax", ((LAUNCH, NESTED),)), surroundings())
    assert verdict.status is Status.passed, verdict.evidence
    assert any(check.name == "double" for check in verdict.checks)


BOTH = '''"""The sum of two inputs without what is negative."""

import torch


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b)


INPUTS = {"a": "T H", "b": "T H"}
WORKLOADS = [{"T": 64, "H": 128}]
'''
KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def _forward(a_ptr, b_ptr, y_ptr, a_stride, b_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        a = tl.load(a_ptr + row * a_stride + cols, mask=mask).to(tl.float32)
        y = a + tl.load(b_ptr + row * b_stride + cols, mask=mask)
        tl.store(y_ptr + row * n_cols + cols, tl.where(y <= 0, 0.0, y), mask=mask)


@triton.jit
def _backward(dy_ptr, y_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    dy = tl.load(dy_ptr + at, mask=at < n)
    tl.store(dx_ptr + at, tl.where(y <= 0, 0.0, dy), mask=at < n)


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        a, b = a.contiguous(), b.contiguous()
        y = torch.empty_like(a)
        n_cols = a.shape[-1]
        _forward[(y.numel() // n_cols,)](a, b, y, a.stride(0), b.stride(0), n_cols, BLOCK=512)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        _backward[(triton.cdiv(y.numel(), 1024),)](dy.contiguous(), y, dx, y.numel(), BLOCK=1024)
        return dx, dx


def candidate(a, b):
    return Both.apply(a, b)
"""


@functools.cache
def both() -> tuple[Proof, ...]:
    problem = parse_problem(BOTH)
    request = VerifyRequest(BOTH, CandidateSource(()), dtypes=("float32",), quick=True)
    return tuple(prove(problem, choose_cases(request, problem, not has_gpu()), surroundings())[0])


def judged(text: str) -> Verdict:
    return judge_by(both(), CandidateSource((SourceFile("candidate.py", text),)), surroundings())


def test_two_gradients_in_one_buffer_are_found_and_one_gradient_for_both_is_none() -> None:
    assert judged(KERNEL).status is Status.passed
    for other in ("dx.view(dx.shape)", "dx.detach()"):
        verdict = judged(KERNEL.replace("return dx, dx", f"return dx, {other}"))
        assert verdict.status is Status.incorrect_gradient
        assert "shared" in {evidence.check for evidence in verdict.evidence}
