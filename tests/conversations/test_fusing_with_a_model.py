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

PART = "relu_mul_flip_aae7ec"
WRITTEN = '''\
import torch
import triton
import triton.language as tl


@triton.jit
def _PART_kernel(x_ptr, given_ptr, made_ptr, n_rows, n_cols, BACKWARD: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = place < n_rows * n_cols
    other = place // n_cols * n_cols + (n_cols - 1 - place % n_cols)
    if BACKWARD:
        x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
        given = tl.load(given_ptr + other, mask=mask, other=0.0).to(tl.float32)
        tl.store(made_ptr + place, tl.where(x > 0, given * 2.0, 0.0), mask=mask)
    else:
        x = tl.load(x_ptr + other, mask=mask, other=0.0).to(tl.float32)
        tl.store(made_ptr + place, tl.where(x < 0, 0.0, x) * 2.0, mask=mask)


def PART_forward(x0):
    x0 = x0.contiguous()
    v2 = torch.empty_like(x0)
    n = x0.numel()
    _PART_kernel[(triton.cdiv(n, 256),)](x0, x0, v2, n // 48, 48, BACKWARD=False, BLOCK_SIZE=256)
    return v2


def PART_backward(dv2, x0):
    dv2, x0 = dv2.contiguous(), x0.contiguous()
    dx0 = torch.empty_like(x0)
    n = x0.numel()
    _PART_kernel[(triton.cdiv(n, 256),)](x0, dv2, dx0, n // 48, 48, BACKWARD=True, BLOCK_SIZE=256)
    return dx0


class _PART_Gradient(torch.autograd.Function):
    """The gradient, which has no derivative."""

    @staticmethod
    def forward(ctx, dv2, x0):
        return PART_backward(dv2, x0)

    @staticmethod
    def backward(ctx, dd):
        raise RuntimeError("there is no second derivative")


class CAMELFunction(torch.autograd.Function):
    """Relu, doubled, the columns in the opposite order."""

    @staticmethod
    def forward(ctx, x0):
        ctx.save_for_backward(x0)
        return PART_forward(x0)

    @staticmethod
    def backward(ctx, dv2):
        (x0,) = ctx.saved_tensors
        return _PART_Gradient.apply(dv2, x0)


def PART(x0):
    return CAMELFunction.apply(x0)
'''.replace("PART", PART).replace("CAMEL", "ReluMulFlipAae7ec")
MEETS_OTHERS = WRITTEN.replace(f"_{PART}_kernel", "_kernel")
DERIVED = WRITTEN.replace(f"_{PART}_Gradient.apply(dv2, x0)", f"{PART}_backward(dv2, x0)")


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
        ["1. `relu_mul_flip_aae7ec`, relu, mul, flip: proved", "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved"]
    )
    (asked,) = asking.line.prompts()
    assert f"`_{PART}_`" in asked
    assert "it has no way to express `flip` yet" in asked
    assert f"{PART}(linear)" in composed(asking)


def test_a_part_that_no_model_gives_is_the_compilers_as_far_as_that_can(ask_models: Ask) -> None:
    asking = ask_models()
    asking.line.answer(kernel(MEETS_OTHERS), kernel(DERIVED))
    assert fused(asking, "--candidates 1 --repairs 1") == snapshot(
        [
            "1. `relu_mul_069fae`, relu, mul: proved",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "3. `relu_mul_flip_aae7ec`, relu, mul, flip: stays with torch: none of 2 kernels of the model is proved; the one that came furthest ended as \\`names\\`: \\`ReluMulFlipAae7ecFunction.backward\\` applies no \\`torch.autograd.Function…",
        ]
    )
    assert "torch.ops.aten.flip.default" in composed(asking)


def test_a_budget_that_is_spent_leaves_the_part_to_the_compiler(ask_models: Ask) -> None:
    asking = ask_models(model_tokens_per_job=1)
    assert fused(asking) == snapshot(
        [
            "1. `relu_mul_069fae`, relu, mul: proved",
            "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved",
            "3. `relu_mul_flip_aae7ec`, relu, mul, flip: stays with torch: the model budget of this job is reached: 0 tokens of 1 tokens are used, and the next request is likely to take MANY tokens",
        ]
    )
    assert asking.line.prompts() == []


def test_the_compiler_alone_asks_no_model(ask_models: Ask) -> None:
    asking = ask_models()
    assert fused(asking, "--author compiler") == snapshot(
        ["1. `relu_mul_069fae`, relu, mul: proved", "2. `sigmoid_mul_dbba4a`, sigmoid, mul: proved"]
    )
    assert asking.line.prompts() == []


def test_without_a_model_its_author_is_refused(open_talk: Open) -> None:
    talk = open_talk()
    talk.skip_all(talk.ask(fuse(FLIPPED, "--auto --author llm")))
    failure = talk.job().failure
    assert failure is not None
    assert failure.code is FailureCode.model
