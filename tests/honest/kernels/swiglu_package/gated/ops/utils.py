"""What the operators share."""

import functools

import torch
import triton

MAX_FUSED_SIZE = 65536


def ensure_contiguous(fn):
    @functools.wraps(fn)
    def wrapper(ctx, *args, **kwargs):
        args = [arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args]
        return fn(ctx, *args, **kwargs)

    return wrapper


def calculate_settings(n):
    block_size = triton.next_power_of_2(n)
    if block_size > MAX_FUSED_SIZE:
        raise RuntimeError(f"n = {n} exceeds {MAX_FUSED_SIZE}")
    num_warps = 4 if block_size < 2048 else 8 if block_size < 8192 else 16
    return block_size, num_warps
