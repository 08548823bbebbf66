"""Create jobs in memory, and kernels written by hand as a model would: right ones, and wrong ones that look right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_runner.contracts import CaptureResult, Evidence, Status, Verdict
from tests.recorded.libraries import PLAIN, REGLU
from tests.workers.authors.llm.briefs import PLAN
from tests.workers.compiler.captured import captured
from tests.workers.stages.answers import TESTS_PASS, benchmark
from tests.workers.stages.context import Answers, FakeContext, Said, Spoken, packed
from workers.contracts import JobOptions, JobRequest, Origin, ProblemKind, ProblemText, Verb
from workers.tree import Tree

RIGHT = '''\
import torch
import triton
import triton.language as tl


@triton.jit
def _reglu_forward_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK_SIZE: tl.constexpr):
    """c = a * b where a is positive"""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(c_ptr + offsets, tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL) * b, mask=mask)


@triton.jit
def _reglu_backward_kernel(a_ptr, b_ptr, dc_ptr, da_ptr, db_ptr, n, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    a = tl.load(a_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dc = tl.load(dc_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(da_ptr + offsets, tl.where(a > 0, dc * b, 0.0), mask=mask)
    tl.store(db_ptr + offsets, dc * tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=mask)


def reglu_forward(a, b):
    a, b = a.contiguous(), b.contiguous()
    c = torch.empty_like(a)
    n = a.numel()
    _reglu_forward_kernel[(triton.cdiv(n, 1024),)](a, b, c, n, BLOCK_SIZE=1024)
    return c


def reglu_backward(dc, a, b):
    dc, a, b = dc.contiguous(), a.contiguous(), b.contiguous()
    da, db = torch.empty_like(a), torch.empty_like(b)
    n = a.numel()
    _reglu_backward_kernel[(triton.cdiv(n, 1024),)](a, b, dc, da, db, n, BLOCK_SIZE=1024)
    return da, db


class ReGLUFunction(torch.autograd.Function):
    """Gates b by the positive part of a."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return reglu_forward(a, b)

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        return reglu_backward(dc, a, b)
'''
# The gradient of a is let through where a is negative too.
WRONG = RIGHT.replace("tl.where(a > 0, dc * b, 0.0)", "dc * b")
# Other code that computes the same, so that it is no duplicate.
OTHER = RIGHT.replace("1024", "512")
BROKEN_STYLE = RIGHT + "\n\nNOWHERE = not_defined_anywhere\n"
WORDS = "A gated unit: b where a is positive times a, else nothing."
PASSED = Verdict(Status.passed, seeds=3, interpreted=True)
OFF = Verdict(
    Status.incorrect_gradient,
    (Evidence("gradients", "the gradient of a is off", "T=7 I=129 float32", "gradient of a", (0, 3), 0.5, 0.0),),
)


def kernel(source: str = RIGHT, replies: tuple[str, ...] = ()) -> dict[str, Any]:
    """Give what a model answers to a kernel question, with a reply to each remark."""
    told = [{"number": number, "text": text} for number, text in enumerate(replies, 1)]
    return {"source": source, "plan": dict(PLAN), "replies": told}


def problem(source: str = REGLU, assumptions: tuple[str, ...] = (), replies: tuple[str, ...] = ()) -> dict[str, Any]:
    """Give what a model answers to a problem question."""
    told = [{"number": number, "text": text} for number, text in enumerate(replies, 1)]
    return {"source": source, "assumptions": list(assumptions), "replies": told}


def by_source(request: Any) -> Verdict:
    """Judge a candidate as the runner would: the gradient of the wrong one is off."""
    text = "\n".join(file.text for file in request.candidate.files)
    return OFF if "da_ptr + offsets, dc * b, mask" in text else PASSED


def answers(**more: Any) -> Answers:
    """Give the runner's answers to a create of reglu, in which the wrong kernel is found out."""
    plain: Answers = {
        "capture": CaptureResult(captured("reglu")[1]),
        "verify": by_source,
        "benchmark": benchmark(predicted=True),
        "tests": TESTS_PASS,
    }
    return plain | more


def creating(
    speaks: list[Said] | Spoken | None,
    made: Answers | None = None,
    given: ProblemText | None = None,
    name: str = "reglu",
    files: dict[str, bytes] | None = None,
    **options: Any,
) -> FakeContext:
    """Give the context of ``/kernel create`` on a small library; ``speaks`` None where no model is configured."""
    request = JobRequest(
        "comment/1",
        Verb.create,
        name,
        Origin("acme/kernels", 7, "maintainer", 11),
        "main",
        "a" * 40,
        "",
        given or ProblemText(ProblemKind.block, REGLU),
        JobOptions(**options),
    )
    context = FakeContext(made or answers(), request, speaks=speaks)
    context.request = replace(request, snapshot=context.put(packed(Tree(PLAIN | (files or {})))))
    return context
