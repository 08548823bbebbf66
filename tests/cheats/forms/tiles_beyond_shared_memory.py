import torch
import triton
import triton.language as tl


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        deep = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * k + deep[None, :], mask=(rows[:, None] < m) & (deep[None, :] < k), other=0.0)
        b = tl.load(b_ptr + deep[:, None] * n + cols[None, :], mask=(deep[:, None] < k) & (cols[None, :] < n), other=0.0)
        acc += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


def candidate(a, b):
    a, b = a.contiguous(), b.contiguous()
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    _product[(triton.cdiv(m, 128), triton.cdiv(n, 256))](a, b, c, m, n, k, M=128, N=256, K=128, num_stages=4, num_warps=8)
    return c
