"""A matrix product by persistent programs, as many as there are multiprocessors."""

import torch
import triton
import triton.language as tl


@triton.jit
def _tile(pid, num_n):
    return pid // num_n, pid % num_n


@triton.jit
def _matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    num_n = tl.cdiv(N, BLOCK_N)
    num_tiles = tl.cdiv(M, BLOCK_M) * num_n
    ks = tl.arange(0, BLOCK_K)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        pid_m, pid_n = _tile(tile, num_n)
        rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            inner = k + ks
            a_mask = (rows < M)[:, None] & (inner < K)[None, :]
            b_mask = (inner < K)[:, None] & (cols < N)[None, :]
            a = tl.load(a_ptr + rows[:, None] * am + inner[None, :] * ak, mask=a_mask, other=0.0)
            b = tl.load(b_ptr + inner[:, None] * bk + cols[None, :] * bn, mask=b_mask, other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        out = (rows < M)[:, None] & (cols < N)[None, :]
        tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=out)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty(m, n)
    tiles = triton.cdiv(m, 64) * triton.cdiv(n, 64)
    programs = 3
    if a.is_cuda:
        programs = torch.cuda.get_device_properties(a.device).multi_processor_count
    _matmul[(min(tiles, programs),)](a, b, c, m, n, k, *a.stride(), *b.stride(), BLOCK_M=64, BLOCK_N=64, BLOCK_K=32)
    return c


class MatMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        assert a.shape[1] == b.shape[0], "inner dimensions differ"
        ctx.save_for_backward(a, b)
        return matmul(a, b)

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        da = matmul(dc, b.t()) if ctx.needs_input_grad[0] else None
        db = matmul(a.t(), dc) if ctx.needs_input_grad[1] else None
        return da, db


def candidate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return MatMul.apply(a, b)
