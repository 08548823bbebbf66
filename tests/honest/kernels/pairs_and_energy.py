import torch
import triton
import triton.language as tl


@triton.jit
def _energy(x_ptr, s_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, D, BLOCK):
        k = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * D + k, mask=k < D, other=0.0).to(tl.float32)
        total += x * x
    tl.store(s_ptr + row, tl.sum(total, axis=0))


@triton.jit
def _scores(x_ptr, z_ptr, y_ptr, T, S, D, M: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * M + tl.arange(0, M)
    cols = tl.program_id(1).to(tl.int64) * M + tl.arange(0, M)
    total = tl.zeros((M, M), tl.float32)
    for start in range(0, D, K):
        k = start + tl.arange(0, K)
        a = tl.load(x_ptr + rows[:, None] * D + k[None, :], mask=(rows[:, None] < T) & (k[None, :] < D), other=0.0)
        b = tl.load(z_ptr + cols[None, :] * D + k[:, None], mask=(cols[None, :] < S) & (k[:, None] < D), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(y_ptr + rows[:, None] * S + cols[None, :], total, mask=(rows[:, None] < T) & (cols[None, :] < S))


def candidate(x, z):
    x, z = x.contiguous(), z.contiguous()
    T, D = x.shape
    S = z.shape[0]
    y = torch.zeros((T, S), dtype=x.dtype, device=x.device)
    energy = torch.zeros(T, dtype=torch.float32, device=x.device)
    if x.numel():
        _energy[(T,)](x, energy, D, BLOCK=128)
        _scores[(triton.cdiv(T, 32), triton.cdiv(S, 32))](x, z, y, T, S, D, M=32, K=32)
    return y, energy
