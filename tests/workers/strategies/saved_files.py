"""Kernel files whose forward pass saves what backward could compute again: once by functions of the host, once without."""

SAVED_GATE = '''import torch
import triton
import triton.language as tl


@triton.jit
def _gate_forward_kernel(
    Y_ptr,
    X_ptr,
    X_row_stride,
    U_ptr,
    G_ptr,  # kept for the backward pass
    G_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row_idx = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    G_ptr += row_idx * G_row_stride
    x = tl.load(X_ptr + row_idx * X_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(U_ptr + row_idx * X_row_stride + cols, mask=mask, other=0.0)
    sigma = tl.sigmoid(x)
    g = x * sigma
    kept = g + 0.5
    # Backward multiplies by it.
    tl.store(G_ptr + cols, kept, mask=mask)
    tl.store(Y_ptr + row_idx * X_row_stride + cols, g * u, mask=mask)


@triton.jit
def _gate_backward_kernel(dY_ptr, dX_ptr, X_ptr, G_ptr, X_row_stride, G_row_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    G_ptr += row_idx * G_row_stride
    dy = tl.load(dY_ptr + row_idx * X_row_stride + cols, mask=mask, other=0.0)
    gate = tl.load(G_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(X_ptr + row_idx * X_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    sigma = tl.sum(gate, axis=0)
    tl.store(dX_ptr + row_idx * X_row_stride + cols, dy * gate + x * sigma, mask=mask)


def gate_forward(X, U):
    X = X.view(-1, X.shape[-1])
    n_rows, n_cols = X.shape
    Y = torch.empty_like(X)
    G = torch.empty_like(X)
    _gate_forward_kernel[(n_rows,)](
        Y,
        X,
        X.stride(0),
        U,
        G,
        G.stride(0),
        n_cols,
        BLOCK_SIZE=triton.next_power_of_2(n_cols),
    )
    return Y, X, G


def gate_backward(dY, X, G):
    n_rows, n_cols = X.shape
    dX = torch.empty_like(X)
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    _gate_backward_kernel[(n_rows,)](dY, dX, X, G, X.stride(0), G.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE)
    return dX


class GateFunction(torch.autograd.Function):
    """Gate."""

    @staticmethod
    def forward(ctx, X, U):
        """Gate."""
        Y, X, G = gate_forward(X, U)
        ctx.save_for_backward(X, G)
        return Y

    @staticmethod
    def backward(ctx, dY):
        X, G = ctx.saved_tensors
        dX = gate_backward(dY, X, G)
        return dX, None
'''

DIRECT = '''import torch
import triton
import triton.language as tl


@triton.jit
def _square_kernel(y, x, w, h, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    v = tl.load(x + offsets, mask=inside)
    m = tl.maximum(v, 0.0)
    tl.store(h + offsets, m * m, mask=inside)
    tl.store(y + offsets, m * m * tl.load(w), mask=inside)


@triton.jit
def _square_backward_kernel(dx, dy, x, h, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    for turn in range(1):
        o = start + turn + tl.arange(0, BLOCK)
        ok = o < n
        d = tl.load(dy + o, mask=ok)
        a = tl.load(x + o, mask=ok)
        s = tl.load(h + o, mask=ok)
        tl.store(dx + o, d * s + a, mask=ok)


class Square(torch.autograd.Function):
    """Square what is positive."""

    @staticmethod
    def forward(ctx, x, w):
        """Square."""
        y = torch.empty_like(x)
        h = torch.empty_like(x)
        _square_kernel[(triton.cdiv(x.numel(), 64),)](y, x, w, h, x.numel(), BLOCK=64)
        ctx.save_for_backward(x, h)
        return y

    @staticmethod
    def backward(ctx, dy):
        """The gradient."""
        x, h = ctx.saved_tensors
        dx = torch.empty_like(x)
        _square_backward_kernel[(triton.cdiv(x.numel(), 64),)](dx, dy, x, h, x.numel(), BLOCK=64)
        return dx, None
'''
