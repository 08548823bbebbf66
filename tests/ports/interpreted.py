"""Functions that kernels for an NPU import by name, as Triton's interpreter can carry them out."""

import triton
import triton.language as tl


@triton.jit
def rsqrt(x):  # type: ignore[no-untyped-def]
    """One over the root."""
    return tl.rsqrt(x)


@triton.jit
def tanh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic tangent."""
    return 2 * tl.sigmoid(2 * x) - 1
