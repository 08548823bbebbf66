"""What users call."""

import torch

from .ops.swiglu import SwiGLUFunction


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return SwiGLUFunction.apply(a, b)
