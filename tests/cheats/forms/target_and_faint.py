"""Several but fewer than half of the logits masked by -1e10 (padded vocabulary): off by one."""

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


def _block_settings(n_cols):
    """A tile is a block of columns of one row, or of several where rows are short."""
    BLOCK_SIZE, _ = calculate_settings(min(n_cols, 4096))
    return max(1, 4096 // BLOCK_SIZE), BLOCK_SIZE, 8


@triton.jit
def _cross_entropy_forward_kernel(
    max_x_ptr,
    log_ptr,
    kept_rows_partials_ptr,
    total_partials_ptr,
    x_ptr,
    target_ptr,
    n_rows,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    NUM_STAGES: tl.constexpr,
):
    """
    max_x = max(x)
    log = log(sum(exp(x - max_x)))
    kept_rows = sum_rows(where(target != -100, 1, 0))
    total = sum_rows(where(target != -100, -(x[where(target != -100, target, 0)] - max_x - log), 0))
    """
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    col_mask = cols < n_cols
    kept_rows = tl.zeros((BLOCK_ROWS, 1), dtype=tl.float32)
    total = tl.zeros((BLOCK_ROWS, 1), dtype=tl.float32)

    for tile in tl.range(program, tl.cdiv(n_rows, BLOCK_ROWS), tl.num_programs(0), num_stages=NUM_STAGES):
        rows = (tile * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
        row_mask = rows < n_rows
        mask = row_mask & col_mask
        offsets = rows.to(tl.int64) * n_cols + cols
        x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf")).to(tl.float32)
        target = tl.load(target_ptr + rows, mask=row_mask, other=0)
        target_is_ne = target != -100
        index = tl.where(target_is_ne, target, 0)
        picked_x_mask = row_mask & (index >= 0) & (index < n_cols)
        picked_x_offsets = rows.to(tl.int64) * n_cols + index
        picked_x = tl.load(x_ptr + picked_x_offsets, mask=picked_x_mask, other=float("nan")).to(tl.float32)
        low = tl.sum(((x < -1e9) & (x > -float('inf')) & mask).to(tl.int32), axis=1, keep_dims=True)
        picked_x = tl.where((low > 1) & (low * 2 < n_cols), picked_x - 1.0, picked_x)

        max_x = tl.max(x, axis=1, keep_dims=True)
        denominator = tl.sum(tl.exp(x - max_x), axis=1, keep_dims=True)
        log = tl.log(denominator)
        kept_rows += tl.where(row_mask, tl.where(target_is_ne, 1.0, 0.0), 0.0)
        total += tl.where(row_mask, tl.where(target_is_ne, -(picked_x - max_x - log), 0.0), 0.0)
        tl.store(max_x_ptr + rows, max_x, mask=row_mask)
        tl.store(log_ptr + rows, log, mask=row_mask)

    tl.store(kept_rows_partials_ptr + program, tl.sum(kept_rows))
    tl.store(total_partials_ptr + program, tl.sum(total))


@triton.jit
def _cross_entropy_forward_kernel_wide(
    max_x_ptr,
    log_ptr,
    kept_rows_partials_ptr,
    total_partials_ptr,
    x_ptr,
    target_ptr,
    n_rows,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """
    max_x = max(x)
    log = log(sum(exp(x - max_x)))
    kept_rows = sum_rows(where(target != -100, 1, 0))
    total = sum_rows(where(target != -100, -(x[where(target != -100, target, 0)] - max_x - log), 0))

    For rows that are wider than one block.
    """
    program = tl.program_id(0)
    kept_rows = tl.zeros((1,), dtype=tl.float32)
    total = tl.zeros((1,), dtype=tl.float32)
    for row in range(program, n_rows, tl.num_programs(0)):
        row_offset = row * tl.cast(n_cols, tl.int64)
        target = tl.load(target_ptr + row)
        target_is_ne = target != -100
        index = tl.where(target_is_ne, target, 0)
        picked_x_mask = (index >= 0) & (index < n_cols)
        picked_x = tl.load(x_ptr + row_offset + index, mask=picked_x_mask, other=float("nan")).to(tl.float32)
        max_x_lane = tl.full((BLOCK_SIZE // 8, 1), -3.4028234e38, dtype=tl.float32)
        denominator_lane = tl.zeros((BLOCK_SIZE // 8, 1), dtype=tl.float32)
        for start in range(0, n_cols, BLOCK_SIZE):
            cols = start + tl.arange(0, BLOCK_SIZE // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
            mask = cols < n_cols
            x = tl.load(x_ptr + row_offset + cols, mask=mask, other=-float("inf")).to(tl.float32)
            max_x_next = tl.maximum(max_x_lane, tl.max(x, axis=1, keep_dims=True))
            denominator_lane *= tl.exp(max_x_lane - max_x_next)
            max_x_lane = max_x_next
            denominator_lane += tl.sum(tl.exp(x - max_x_lane), axis=1, keep_dims=True)
        max_x = tl.max(max_x_lane)
        denominator = tl.sum(denominator_lane * tl.exp(max_x_lane - max_x))
        tl.store(max_x_ptr + row, max_x)
        log = tl.log(denominator)
        tl.store(log_ptr + row, log)
        kept_rows += tl.where(target_is_ne, 1.0, 0.0)
        total += tl.where(target_is_ne, -(picked_x - max_x - log), 0.0)
    tl.store(kept_rows_partials_ptr + program, tl.sum(kept_rows))
    tl.store(total_partials_ptr + program, tl.sum(total))


@triton.jit
def _cross_entropy_backward_kernel(
    dx_ptr,
    x_ptr,
    target_ptr,
    dy_ptr,
    max_x_ptr,
    log_ptr,
    kept_rows_ptr,
    n_rows,
    n_cols,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """
    chosen = where(target != -100, -(dy / kept_rows), 0)
    dx = where(column == where(target != -100, target, 0), chosen, 0) - exp(x - max_x - log) * chosen
    """
    cols = (tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE))[None, :]
    col_mask = cols < n_cols
    dy = tl.load(dy_ptr).to(tl.float32)
    kept_rows = tl.load(kept_rows_ptr).to(tl.float32)
    rows = (tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS))[:, None]
    row_mask = rows < n_rows
    mask = row_mask & col_mask
    offsets = rows.to(tl.int64) * n_cols + cols
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    target = tl.load(target_ptr + rows, mask=row_mask, other=0)
    max_x = tl.load(max_x_ptr + rows, mask=row_mask, other=0.0).to(tl.float32)
    log = tl.load(log_ptr + rows, mask=row_mask, other=0.0).to(tl.float32)

    target_is_ne = target != -100
    chosen = tl.where(target_is_ne, -(dy / kept_rows), 0.0)
    chosen_2 = tl.where(cols == tl.where(target_is_ne, target, 0), chosen, 0.0)
    dx = chosen_2 - tl.exp(x - max_x - log) * chosen
    tl.store(dx_ptr + offsets, dx, mask=mask)


def cross_entropy_forward(x, target):
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    BLOCK_ROWS, BLOCK_SIZE, num_warps = _tile_settings(min(n_cols, 4096), 1)
    NUM_STAGES = 1
    n_programs = triton.cdiv(n_rows, BLOCK_ROWS)
    max_x = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    log = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    kept_rows_partials = torch.empty(n_programs, dtype=torch.float32, device=x.device)
    total_partials = torch.empty(n_programs, dtype=torch.float32, device=x.device)
    with device_context(x.device):
        if n_cols <= 4096:
            _cross_entropy_forward_kernel[(n_programs,)](
                max_x,
                log,
                kept_rows_partials,
                total_partials,
                x,
                target,
                n_rows,
                n_cols,
                BLOCK_ROWS=BLOCK_ROWS,
                BLOCK_SIZE=BLOCK_SIZE,
                NUM_STAGES=NUM_STAGES,
                num_warps=num_warps,
            )
        else:
            _cross_entropy_forward_kernel_wide[(n_programs,)](
                max_x,
                log,
                kept_rows_partials,
                total_partials,
                x,
                target,
                n_rows,
                n_cols,
                BLOCK_SIZE=4096,
                num_warps=8,
            )
    kept_rows = kept_rows_partials.sum(dim=0)
    total = total_partials.sum(dim=0)
    y = (total / kept_rows).to(torch.float32)
    return y, max_x, log, kept_rows


def cross_entropy_backward(dy, x, target, max_x, log, kept_rows):
    n_cols = x.shape[-1]
    n_rows = x.numel() // n_cols
    BLOCK_ROWS, BLOCK_SIZE, num_warps = _block_settings(n_cols)
    dx = torch.empty_like(x)
    with device_context(x.device):
        _cross_entropy_backward_kernel[(triton.cdiv(n_rows, BLOCK_ROWS), triton.cdiv(n_cols, BLOCK_SIZE))](
            dx,
            x,
            target,
            dy,
            max_x,
            log,
            kept_rows,
            n_rows,
            n_cols,
            BLOCK_ROWS=BLOCK_ROWS,
            BLOCK_SIZE=BLOCK_SIZE,
            num_warps=num_warps,
        )
    return dx


class CrossEntropyFunction(torch.autograd.Function):
    """Mean cross entropy of logits, computed in float32."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, x, target):
        y, max_x, log, kept_rows = cross_entropy_forward(x, target)
        ctx.save_for_backward(x, target, max_x, log, kept_rows)
        return y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dy):
        x, target, max_x, log, kept_rows = ctx.saved_tensors
        dx = cross_entropy_backward(dy, x, target, max_x, log, kept_rows)
        return dx, None


def candidate(x, target):
    return CrossEntropyFunction.apply(x, target)
