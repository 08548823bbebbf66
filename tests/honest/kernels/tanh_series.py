"""A hyperbolic tangent by exponentials, and by its series near zero."""

import torch
import triton
import triton.language as tl


@triton.jit
def _tanh(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    size = tl.abs(x)
    square = x * x
    series = 17.0 / 315.0 - square * (62.0 / 2835.0)
    near = x * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * series)))
    far = 1.0 - 2.0 / (tl.exp(2.0 * size) + 1.0)
    y = tl.where(size < 0.3, near, tl.where(x < 0.0, -far, far))
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=mask)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.numel()
    _tanh[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    return y
