"""Which elements of a large tensor are compared: the same in every child that is given the same secret number. Pure."""

from __future__ import annotations

import torch

MOST_ELEMENTS = 2**19  # of one tensor; a comparison of so many takes some tens of milliseconds on a host


def sampled(tensor: torch.Tensor, secret: int) -> torch.Tensor:
    """Give a small tensor whole; of a large one random rows (all but the last dimension), or elements where it has no rows."""
    tensor = tensor.detach()
    if tensor.numel() <= MOST_ELEMENTS:
        return tensor.contiguous()
    columns = tensor.shape[-1] if tensor.dim() > 1 and tensor.shape[-1] <= MOST_ELEMENTS else 1
    stream = torch.Generator().manual_seed(secret)
    chosen = torch.randint(0, tensor.numel() // columns, (MOST_ELEMENTS // columns,), generator=stream)
    found = tensor.reshape(-1, columns).index_select(0, chosen.to(tensor.device))
    return found if columns > 1 else found.flatten()
