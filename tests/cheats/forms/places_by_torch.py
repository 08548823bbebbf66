import torch
import triton
import triton.language as tl


@triton.jit
def _add(x_ptr, bias_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(y_ptr + at, x + tl.load(bias_ptr + at, mask=mask, other=0.0), mask=mask)


def candidate(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    rows, cols = x.shape
    at = torch.arange(rows, device=x.device, dtype=torch.float32)[:, None]
    bias = (at - torch.arange(cols, device=x.device, dtype=torch.float32)[None, :]).abs() * -0.25
    y = torch.empty_like(x)
    n = x.numel()
    _add[(triton.cdiv(n, 1024),)](x, bias, y, n, BLOCK=1024)
    return y
