"""The bit patterns that mark memory which nobody wrote, and memory which nobody may read. Both are NaN in floating point."""

from __future__ import annotations

import torch

GUARD_ELEMENTS = 512  # keeps every alignment that a kernel may count on

# Arithmetic gives the canonical NaN, so an element that holds one of these was left, or copied, as it was.
_UNWRITTEN = {
    torch.float64: 0x7FF85A5A5A5A5A5A,
    torch.float32: 0x7FC5A5A5,
    torch.float16: 0x7E5A,
    torch.bfloat16: 0x7FDA,
    torch.int64: 0x5A5A5A5A5A5A5A5A,
    torch.int32: 0x5A5A5A5A,
    torch.int16: 0x5A5A,
    torch.int8: 0x5A,
    torch.uint8: 0x5A,
}
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Give a tensor's elements as whole numbers of the same width."""
    dense = tensor.contiguous()
    return (dense if dense.dim() else dense.reshape(1)).view(_WHOLE[tensor.element_size()])


def bits_equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Say whether two tensors hold the same bits, NaN and negative zero included."""
    same_form = left.dtype == right.dtype and left.shape == right.shape
    return same_form and bool(torch.equal(bits(left), bits(right)))


def fill_unwritten(flat: torch.Tensor) -> None:
    """Mark every element of a dense one-dimensional tensor as unwritten."""
    pattern = _UNWRITTEN.get(flat.dtype)
    if pattern is not None:
        flat.view(_WHOLE[flat.element_size()]).fill_(pattern)


def unwritten(tensor: torch.Tensor) -> torch.Tensor:
    """Give where a tensor still holds the mark, as a one-dimensional truth value per element."""
    pattern = _UNWRITTEN.get(tensor.dtype)
    if pattern is None:
        return torch.zeros(tensor.numel(), dtype=torch.bool, device=tensor.device)
    return bits(tensor).flatten() == pattern
