import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, m_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    m = tl.load(m_ptr + at, mask=at < n, other=0)
    y = tl.where(m != 0, x, 0.0)
    tl.store(y_ptr + at, y, mask=at < n)


def candidate(x, kept):
    x, kept = x.contiguous(), kept.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _kernel[(triton.cdiv(x.numel(), 1024),)](x, kept, y, x.numel(), BLOCK=1024)
    return y
