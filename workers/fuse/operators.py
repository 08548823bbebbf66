"""What is known of torch's operators: which only look at memory, which a library does best, and what each costs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

Shape = tuple[int, ...]


class OperatorKind(StrEnum):
    """What may become of an operator."""

    view = "view"  # another shape or strides for the same memory
    library = "library"  # torch has a library for it
    made = "made"  # it takes no tensor
    whole = "whole"  # whole numbers, whose range nobody states
    scalar = "scalar"  # it depends on a number of the call
    fusable = "fusable"


# Views that a tensor in one piece has as another one in one piece, so that a kernel takes either.
RESHAPES = frozenset(
    ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "view_as", "alias")
)
MOVES = ("transpose", "permute", "t", "movedim", "swapaxes", "swapdims", "expand", "expand_as", "detach", "as_strided")
COPIES = ("contiguous", "clone")
_PIECES = ("slice", "select", "split", "split_with_sizes", "chunk", "unbind", "getitem", "narrow", "diagonal", "unfold")
VIEWS = RESHAPES.union(MOVES, _PIECES)
_PRODUCT, _CONVOLUTION, _POOLING, _LOOKUP = "matrix product", "convolution", "pooling", "lookup"
LIBRARY = (
    dict.fromkeys(("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "dot", "mv", "bilinear"), _PRODUCT)
    | dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution"), _CONVOLUTION)
    | dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _CONVOLUTION)
    | dict.fromkeys(
        (f"{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)), _POOLING
    )
    | {"scaled_dot_product_attention": "attention", "multi_head_attention": "attention"}
    | dict.fromkeys(("embedding", "embedding_bag", "index", "gather", "index_select", "take"), _LOOKUP)
    | dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), "recurrence")
    | dict.fromkeys(("sort", "topk", "argsort", "unique", "nonzero"), "sorting")
)
ACTIVATIONS = frozenset(
    ("gelu", "relu", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "softplus", "hardswish", "mish")
)
# Norms whose backward is two kernels in torch, each of which reads the gradient and the input: one for the weights' gradients.
READ_TWICE = frozenset(("layer_norm",))
# Whose gradient is that of an operand as it stands, or a view of it; added up where the operand was broadcast.
PASSES_GRADIENT = frozenset(("add", "sub", "cat", *COPIES))
_ELEMENT_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}


def packet_of(op: str) -> str:
    """An operator's name without its overload, such as ``layer_norm``."""
    return op.removeprefix("aten.").partition(".")[0]


def bytes_of(shape: Shape, dtype: str) -> int:
    """Bytes of a tensor in one piece."""
    return math.prod(shape) * _ELEMENT_BYTES.get(dtype, 1)


def flops_of(packet: str, operands: Sequence[Shape], result: Shape) -> int:
    """Floating-point operations: of products exactly, of all else one an element; an estimate for recurrences.

    Source: Williams, Waterman and Patterson, Roofline (2009), for what is counted.
    """
    library = LIBRARY.get(packet)
    elements = math.prod(result)
    if library == _PRODUCT and len(operands) > 1:
        return 2 * elements * (operands[0][-1] if packet not in ("addmm", "baddbmm") else operands[1][-1])
    if library == _CONVOLUTION and len(operands) > 1:
        return 2 * elements * math.prod(operands[1][1:])
    if library == "attention" and len(operands) > 2:
        return 4 * math.prod(operands[0]) * operands[1][-2]
    if packet in VIEWS or library == _LOOKUP:
        return 0
    return max([elements, *map(math.prod, operands)])
