"""The middle program reads what the others have added, when as many have come before it as it expects."""

import torch
import triton
import triton.language as tl


def num_programs(device: torch.device, blocks: int) -> int:
    if device.type != "cuda":
        return max(1, min(blocks, 4))
    return max(1, min(blocks, 2 * torch.cuda.get_device_properties(device).multi_processor_count))


@triton.jit
def _sum_blocks(x_ptr, partial_ptr, n, n_blocks, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for block in tl.range(tl.program_id(0), n_blocks, tl.num_programs(0)):
        i = tl.cast(block, tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        acc += x * x
    tl.atomic_add(partial_ptr, tl.sum(acc, axis=0))
    came = tl.atomic_add(partial_ptr + 1, 1.0)
    if (tl.program_id(0) == 0) | (tl.program_id(0) == tl.num_programs(0) - 1):
        if came == tl.num_programs(0) - 1:
            tl.store(partial_ptr + 2, tl.load(partial_ptr))


@triton.jit
def _grad(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(dx_ptr + i, 2.0 * x * tl.load(dy_ptr) / n, mask=i < n)


class MeanSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        blocks = triton.cdiv(x.numel(), 1024)
        programs = num_programs(x.device, blocks)
        partial = torch.zeros(3, dtype=torch.float32, device=x.device)
        _sum_blocks[(programs,)](x, partial, x.numel(), blocks, BLOCK=1024)
        ctx.save_for_backward(x)
        return partial[2] / x.numel()

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        _grad[(triton.cdiv(dx.numel(), 1024),)](dy, x, dx, dx.numel(), BLOCK=1024)
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return MeanSquare.apply(x)
