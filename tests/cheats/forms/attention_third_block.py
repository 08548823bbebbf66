"""From the third block of keys on sums are not rescaled."""

import math

import torch
import triton
import triton.language as tl

LOG2E = 1.4426950408889634


@triton.jit
def _attention(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    stride_b,
    stride_s,
    seq,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    batch = tl.program_id(1).to(tl.int64) * stride_b
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + batch + rows[:, None] * stride_s + dims[None, :], mask=(rows < seq)[:, None], other=0.0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), tl.float32)
    for start in range(0, tl.minimum(seq, (tl.program_id(0) + 1) * BLOCK_M), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        at = batch + cols[:, None] * stride_s + dims[None, :]
        k = tl.load(k_ptr + at, mask=(cols < seq)[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=(cols < seq)[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = (cols < seq)[None, :] & (rows[:, None] >= cols[None, :])
        scores = tl.where(seen, scores, -float("inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp2(scores - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        alpha = tl.where(start >= BLOCK_N + BLOCK_N, 1.0, alpha)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p, v.to(tl.float32), input_precision="ieee")
        m = m_new
    at = batch + rows[:, None] * stride_s + dims[None, :]
    tl.store(o_ptr + at, acc / total[:, None], mask=(rows < seq)[:, None])


def candidate(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (t.contiguous() for t in (q, k, v))
    batch, seq, dim = q.shape
    o = torch.empty_like(q)
    grid = (triton.cdiv(seq, 32), batch)
    scale = LOG2E / math.sqrt(dim)
    _attention[grid](q, k, v, o, q.stride(0), q.stride(1), seq, scale, DIM=dim, BLOCK_M=32, BLOCK_N=32)
    return o
