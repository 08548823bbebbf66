"""`/kernel fuse` where the compiler refuses a part: a model writes it, under the same gates."""

# ruff: noqa: E501 (messages stand here as they are sent)

from __future__ import annotations

from inline_snapshot import snapshot

from tests.conversations.asking import Ask, Asking, ask_models, level
from tests.conversations.conftest import Open
from tests.conversations.optimizing import heard
from tests.conversations.talk import REPOSITORY
from tests.conversations.test_fusing import rows
from tests.recorded.libraries import FLIPPED, fuse
from tests.workers.stages.creating import kernel
from workers.contracts import FailureCode, JobState

__all__ = ["ask_models"]

PART = "add_relu_mul_15d2fa"
WRITTEN = '''\
import torch
import triton
import triton.language as tl


@triton.jit
def _PART_kernel(x_ptr, bias_ptr, given_ptr, made_ptr, n_rows, n_cols, BACKWARD: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = place < n_rows * n_cols
    other = place // n_cols * n_cols + (n_cols - 1 - place % n_cols)
    if BACKWARD:
        x = tl.load(x_ptr + place, mask=mask, other=0.0) + tl.load(bias_ptr + place % n_cols, mask=mask, other=0.0)
        given = tl.load(given_ptr + other, mask=mask, other=0.0)
        tl.store(made_ptr + place, tl.where(x <= 0, 0.0, given * 2.0), mask=mask)
    else:
        x = tl.load(x_ptr + other, mask=mask, other=0.0) + tl.load(bias_ptr + other % n_cols, mask=mask, other=0.0)
        tl.store(made_ptr + place, tl.where(x < 0, 0.0, x) * 2.0, mask=mask)


@triton.jit
def _PART_sum_kernel(dx_ptr, sum_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    total = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for row in range(n_rows):
        total += tl.load(dx_ptr + tl.cast(row, tl.int64) * n_cols + cols)
    tl.store(sum_ptr + cols, total)


def PART_forward(x0, x1):
    x0, x1 = x0.contiguous(), x1.contiguous()
    v3 = torch.empty_like(x0)
    n = x0.numel()
    _PART_kernel[(triton.cdiv(n, 256),)](x0, x1, x0, v3, n // 48, 48, BACKWARD=False, BLOCK_SIZE=256)
    return v3


def PART_backward(dv3, x0, x1):
    dv3, x0, x1 = dv3.contiguous(), x0.contiguous(), x1.contiguous()
    dx0, dx1 = torch.empty_like(x0), torch.empty_like(x1)
    n = x0.numel()
    _PART_kernel[(triton.cdiv(n, 256),)](x0, x1, dv3, dx0, n // 48, 48, BACKWARD=True, BLOCK_SIZE=256)
    _PART_sum_kernel[(3,)](dx0, dx1, n // 48, 48, BLOCK_SIZE=16)
    return dx0, dx1


class _PART_Gradient(torch.autograd.Function):
    """The gradient, which has no derivative."""

    @staticmethod
    def forward(ctx, dv3, x0, x1):
        return PART_backward(dv3, x0, x1)

    @staticmethod
    def backward(ctx, *dd):
        raise RuntimeError("there is no second derivative")


class CAMELFunction(torch.autograd.Function):
    """The bias, relu, doubled, the columns in the opposite order."""

    @staticmethod
    def forward(ctx, x0, x1):
        ctx.save_for_backward(x0, x1)
        return PART_forward(x0, x1)

    @staticmethod
    def backward(ctx, dv3):
        x0, x1 = ctx.saved_tensors
        return _PART_Gradient.apply(dv3, x0, x1)


def PART(x0, x1):
    return CAMELFunction.apply(x0, x1)
'''.replace("PART", PART).replace("CAMEL", "AddReluMul15d2fa")
MEETS_OTHERS = WRITTEN.replace(f"_{PART}_kernel", "_kernel")
DERIVED = WRITTEN.replace(f"_{PART}_Gradient.apply(dv3, x0, x1)", f"{PART}_backward(dv3, x0, x1)")


def composed(asking: Asking) -> str:
    """Give the composed program as the bot pushed it."""
    branch = asking.talk.job().branch
    assert branch is not None
    text = asking.talk.hub.read_file(REPOSITORY, branch, "small/kernels/fused/model/composed_kernel.py")
    assert text is not None
    return text.decode()


def fused(asking: Asking, options: str = "--candidates 1") -> list[str]:
    """Fuse the model to the end; what became of its parts."""
    number = asking.talk.ask(fuse(FLIPPED, f"--auto {options}"))
    texts = [level(text) for text in heard(asking.talk, number)]
    assert asking.talk.job().state is JobState.done, texts
    return next(found for found in map(rows, texts) if any("proved" in row for row in found))


def test_a_model_writes_what_the_compiler_refuses(ask_models: Ask) -> None:
    asking = ask_models()
    asking.line.answer(kernel(WRITTEN))
    assert fused(asking) == snapshot(
        [
            "1. `add_relu_mul_15d2fa`, add, relu, mul, flip: proved",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "3. `add_sigmoid_mul_297356`, add, sigmoid, mul: cut again: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
        ]
    )
    (asked,) = asking.line.prompts()
    assert f"`_{PART}_`" in asked
    assert "it has no way to express `flip` yet" in asked
    assert f"{PART}(*in_one_dtype(linear_product, " in composed(asking)


def test_a_part_that_no_model_gives_is_the_compilers_as_far_as_that_can(ask_models: Ask) -> None:
    asking = ask_models()
    asking.line.answer(kernel(MEETS_OTHERS), kernel(DERIVED))
    assert fused(asking, "--candidates 1 --repairs 1") == snapshot(
        [
            "1. `relu_mul_069fae`, relu, mul: proved",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "3. `add_relu_mul_15d2fa`, add, relu, mul, flip: cut again: none of 2 kernels of the model is proved; the one that came furthest ended as \\`names\\`: \\`AddReluMul15d2faFunction.backward\\` applies no \\`torch.autograd.Function\\`…",
            "4. `add_sigmoid_mul_297356`, add, sigmoid, mul: cut again: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
        ]
    )
    assert "torch.ops.aten.flip.default" in composed(asking)


def test_a_budget_that_is_spent_leaves_the_part_to_the_compiler(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_job=1)
    assert fused(asking) == snapshot(
        [
            "1. `relu_mul_069fae`, relu, mul: proved",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "3. `add_relu_mul_15d2fa`, add, relu, mul, flip: cut again: the model budget of this job is reached: 0 tokens of 1 tokens are used, and the next request is likely to take MANY tokens",
            "4. `add_sigmoid_mul_297356`, add, sigmoid, mul: cut again: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
        ]
    )
    assert asking.line.prompts() == []


def test_the_compiler_alone_asks_no_model(ask_models: Ask) -> None:
    asking = ask_models()
    assert fused(asking, "--author compiler") == snapshot(
        [
            "1. `relu_mul_069fae`, relu, mul: proved",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "3. `add_relu_mul_be3968`, add, relu, mul: cut again: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
            "4. `add_sigmoid_mul_297356`, add, sigmoid, mul: cut again: unproved: \\`8\\` was never the minimum, so what it does otherwise was never judged. Let inputs, dimensions or scalars of the problem reach it, or leave it out.",
        ]
    )
    assert asking.line.prompts() == []


def test_without_a_model_its_author_is_refused(open_talk: Open) -> None:
    talk = open_talk()
    talk.skip_all(talk.ask(fuse(FLIPPED, "--auto --author llm")))
    failure = talk.job().failure
    assert failure is not None
    assert failure.code is FailureCode.model
