"""A small number beside the squares, which faint weights are not larger than."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(v_ptr, g_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(v_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        squares += v * v
    scale = tl.load(g_ptr + row).to(tl.float32) * tl.rsqrt(tl.sum(squares, axis=0) + 1e-12)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(v_ptr + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * n + at, (v * scale).to(y_ptr.dtype.element_ty), mask=at < n)


def candidate(v, g):
    v = v.contiguous()
    y = torch.empty_like(v)
    if v.numel():
        _kernel[(v.shape[0],)](v, g, y, v.shape[1], BLOCK=512)
    return y
