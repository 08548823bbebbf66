"""The mean of everything by a persistent grid; the gradient is filled by a kernel from one number."""

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
        acc += tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(acc, axis=0))


@triton.jit
def _fill(dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(dy_ptr) / n
    tl.store(dx_ptr + i, tl.full((BLOCK,), 1.0, tl.float32) * value, mask=i < n)


class MeanAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        blocks = triton.cdiv(x.numel(), 1024)
        programs = num_programs(x.device, blocks)
        partial = torch.empty(programs, dtype=torch.float32, device=x.device)
        _sum_blocks[(programs,)](x, partial, x.numel(), blocks, BLOCK=1024)
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return partial.sum() / x.numel()

    @staticmethod
    def backward(ctx, dy):
        dx = torch.empty(ctx.shape, dtype=ctx.dtype, device=dy.device)
        _fill[(triton.cdiv(dx.numel(), 1024),)](dy, dx, dx.numel(), BLOCK=1024)
        return dx


def candidate(x: torch.Tensor) -> torch.Tensor:
    return MeanAll.apply(x)
