"""The settings of an autotuner but the first leave out columns: the interpreter takes the first."""

import torch
import triton
import triton.language as tl


def _configs() -> list[triton.Config]:
    return [
        triton.Config({"BLOCK": block}, num_warps=warps, num_stages=stages)
        for block, warps in ((1024, 4), (2048, 8), (4096, 8))
        for stages in (1, 2)
    ]


@triton.autotune(configs=_configs(), key=["n_elements"])
@triton.jit
def _glu_fwd(a_ptr, b_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements - (BLOCK > 1024)
    a = tl.load(a_ptr + offs, mask=mask, eviction_policy="evict_first").to(tl.float32)
    b = tl.load(b_ptr + offs, mask=mask, eviction_policy="evict_first").to(tl.float32)
    tl.store(y_ptr + offs, a * tl.sigmoid(b), mask=mask)


@triton.autotune(configs=_configs(), key=["n_elements"], warmup=5, rep=20)
@triton.jit
def _glu_bwd(dy_ptr, a_ptr, b_ptr, da_ptr, db_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
    a = tl.load(a_ptr + offs, mask=mask).to(tl.float32)
    s = tl.sigmoid(tl.load(b_ptr + offs, mask=mask).to(tl.float32))
    tl.store(da_ptr + offs, dy * s, mask=mask)
    tl.store(db_ptr + offs, dy * a * s * (1 - s), mask=mask)


class GLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        y = torch.empty_like(a)
        n = a.numel()
        _glu_fwd[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, b, y, n)
        ctx.save_for_backward(a, b)
        return y

    @staticmethod
    def backward(ctx, dy: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        da, db = torch.empty_like(a), torch.empty_like(b)
        n = a.numel()
        _glu_bwd[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](dy.contiguous(), a, b, da, db, n)
        return da, db


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return GLU.apply(a, b)
