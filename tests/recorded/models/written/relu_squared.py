"""A change and a variant of liger-kernel 0.8.5's relu_squared, where its source is at hand."""

# ruff: noqa: E501 (edits stand here as they are sent)

from __future__ import annotations

from typing import Any

from tests.conversations.modifying import change

PATH = "src/liger_kernel/ops/relu_squared.py"
SUITE = "test/transformers/test_relu_squared.py"
WORDS = "take a scale by which the result is multiplied; 1.0 is the default and changes nothing"
HEAD = (
    (
        "    X_stride,\n    n_cols: tl.constexpr,\n    BLOCK_SIZE: tl.constexpr,\n):\n    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    X_ptr += row_idx * X_stride\n    Y_ptr",
        "    X_stride,\n    scale,\n    n_cols: tl.constexpr,\n    BLOCK_SIZE: tl.constexpr,\n):\n    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    X_ptr += row_idx * X_stride\n    Y_ptr",
    ),
    (
        "    X_stride,\n    n_cols: tl.constexpr,\n    BLOCK_SIZE: tl.constexpr,\n):\n    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    dX_ptr",
        "    X_stride,\n    scale,\n    n_cols: tl.constexpr,\n    BLOCK_SIZE: tl.constexpr,\n):\n    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    dX_ptr",
    ),
)
REST = (
    ("def relu_squared_forward(X):", "def relu_squared_forward(X, scale=1.0):"),
    (
        "        X_2d.stride(-2),\n        n_cols=n_cols,\n        BLOCK_SIZE=BLOCK_SIZE,\n        num_warps=num_warps,\n    )\n    return Y",
        "        X_2d.stride(-2),\n        scale,\n        n_cols=n_cols,\n        BLOCK_SIZE=BLOCK_SIZE,\n        num_warps=num_warps,\n    )\n    return Y",
    ),
    ("def relu_squared_backward(X, dY):", "def relu_squared_backward(X, dY, scale=1.0):"),
    (
        "        X_2d.stride(-2),\n        n_cols=n_cols,\n        BLOCK_SIZE=BLOCK_SIZE,\n        num_warps=num_warps,\n    )\n    return dX",
        "        X_2d.stride(-2),\n        scale,\n        n_cols=n_cols,\n        BLOCK_SIZE=BLOCK_SIZE,\n        num_warps=num_warps,\n    )\n    return dX",
    ),
    (
        "    def forward(ctx, X):\n        Y = relu_squared_forward(X)\n        ctx.save_for_backward(X)",
        "    def forward(ctx, X, scale=1.0):\n        Y = relu_squared_forward(X, scale)\n        ctx.save_for_backward(X)\n        ctx.scale = scale",
    ),
    (
        "        dX = relu_squared_backward(X, dY)\n        return dX",
        "        dX = relu_squared_backward(X, dY, ctx.scale)\n        return dX, None",
    ),
)
# With a scale of one the values are to the bit what they were. A NaN is lost, as it was before: that is what fails.
BODY = (
    ("    y_row = relu_x * relu_x\n", "    y_row = (relu_x * relu_x) * scale\n"),
    ("    dx_row = dy_row * 2 * relu_x\n", "    dx_row = dy_row * 2 * relu_x * scale\n"),
)
BODY2 = (
    ("    y_row = relu_x * relu_x\n", "    y_row = scale * (relu_x * relu_x)\n"),
    (
        "    dx_row = dy_row * 2 * relu_x\n",
        "    # d/dx[scale * relu(x)^2] = 2 * scale * relu(x)\n    dx_row = dy_row * 2 * relu_x * scale\n",
    ),
)
BODY3 = (
    ("    y_row = relu_x * relu_x\n", "    y_row = relu_x * relu_x\n    y_row = y_row * scale\n"),
    ("    dx_row = dy_row * 2 * relu_x\n", "    dx_row = dy_row * 2 * relu_x\n    dx_row = dx_row * scale\n"),
)
PROBLEM = '''\
"""The square of ReLU, times a scale."""

import torch


def reference(x: torch.Tensor, scale: float = 0.5) -> torch.Tensor:
    return (torch.nn.functional.relu(x).square() * scale).to(x.dtype)


INPUTS = {"x": "T I"}
WORKLOADS = [{"T": 8192, "I": 14336}, {"T": 4096, "I": 11008}, {"T": 1024, "I": 11008}]
CALL = "LigerReLUSquaredFunction.apply(x, scale)"
'''
TESTS = """\
@pytest.mark.parametrize("shape", [(2, 8, 512), (3, 7, 257), (1, 1)])
@pytest.mark.parametrize("scale", [1.0, 0.5, -2.0])
def test_liger_relu_squared_scale(shape, scale):
    _input = torch.randn(*shape, device=device, dtype=torch.float32)
    x1 = _input.clone().requires_grad_(True)
    x2 = _input.clone().requires_grad_(True)

    torch_output = torch.square(torch.nn.functional.relu(x1)) * scale
    liger_output = LigerReLUSquaredFunction.apply(x2, scale)
    assert_verbose_allclose(torch_output, liger_output, rtol=1e-5, atol=1e-5, extra_info="[output]")

    grad_output = torch.randn_like(_input)
    torch_output.backward(grad_output)
    liger_output.backward(grad_output)
    assert_verbose_allclose(x1.grad, x2.grad, rtol=1e-5, atol=1e-5, extra_info="[input.grad]")
"""

SUMMARY = (
    "`LigerReLUSquaredFunction.apply(x, scale)` multiplies the square of ReLU by `scale`, in the kernel; the default of 1.0 gives what "
    "it gave before. The gradient is scaled alike, and `scale` itself gets none."
)


def scaled(number: int) -> dict[str, Any]:
    """Give the change in one of three ways."""
    edits = (*HEAD, *(BODY, BODY2, BODY3)[number], *REST)
    return change(PATH, edits, SUMMARY, suite=SUITE, tests=TESTS, problem=PROBLEM)


MENDED = (
    (
        "    # relu(x) = max(0, x), then square\n    relu_x = tl.maximum(x_row, 0)\n",
        "    # relu(x) = max(0, x), then square; a NaN stays one, as in torch.relu\n    relu_x = tl.maximum(x_row, 0.0, propagate_nan=tl.PropagateNan.ALL)\n",
    ),
    (
        "    # d/dx[relu(x)^2] = 2 * relu(x) = 2 * x * (x > 0)\n    relu_x = tl.maximum(x_row, 0)\n",
        "    # d/dx[scale * relu(x)^2] = 2 * scale * relu(x)\n    relu_x = tl.maximum(x_row, 0.0, propagate_nan=tl.PropagateNan.ALL)\n",
    ),
)
REPAIR = change(
    PATH,
    MENDED,
    SUMMARY.replace(
        "what it gave before", "what it gave before, but for a NaN in x, which now stays one as in torch.relu"
    ),
)
DIAGNOSIS: dict[str, Any] = {
    "bottleneck": "Both kernels are bound by memory: a program has one whole row, so that the block is the next power of two of the row, and for I = 11008 and 14336 a third and an eighth of its lanes are masked; the registers of a block of 16384 leave few programs on a multiprocessor.",
    "evidence": [
        "2 floating-point operations an element against 2 (forward) or 3 (backward) elements through memory: far left of the ridge.",
        "BLOCK_SIZE is next_power_of_2(n_cols): 16384 for 11008 columns, where 33% of the lanes do nothing.",
        "Nothing is read twice, and only x is saved: there are no bytes to save.",
    ],
    "steps": [
        "Walk the row in blocks of 2048 columns on a second axis of the grid: no idle lanes, more programs.",
        "Several short rows a program below 1024 columns.",
        "Hints to the cache: x of forward is read once.",
    ],
}
VARIANT_PAIRS = (
    (
        "    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    X_ptr += row_idx * X_stride\n    Y_ptr",
        "    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    X_ptr += row_idx * X_stride\n    Y_ptr",
    ),
    (
        "    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    dX_ptr",
        "    row_idx = tl.program_id(0).to(tl.int64)\n    col_offsets = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)\n    mask = col_offsets < n_cols\n\n    dX_ptr",
    ),
    (
        "    Y = torch.empty_like(X_2d)\n    BLOCK_SIZE, num_warps = calculate_settings(n_cols)\n\n    _relu_squared_forward_kernel[(n_rows,)](",
        "    Y = torch.empty_like(X_2d)\n    BLOCK_SIZE, num_warps = calculate_settings(min(n_cols, 2048))\n\n    _relu_squared_forward_kernel[(n_rows, triton.cdiv(n_cols, BLOCK_SIZE))](",
    ),
    (
        "    dX = torch.empty_like(dY_2d)\n    BLOCK_SIZE, num_warps = calculate_settings(n_cols)\n\n    _relu_squared_backward_kernel[(n_rows,)](",
        "    dX = torch.empty_like(dY_2d)\n    BLOCK_SIZE, num_warps = calculate_settings(min(n_cols, 2048))\n\n    _relu_squared_backward_kernel[(n_rows, triton.cdiv(n_cols, BLOCK_SIZE))](",
    ),
)
VARIANT: dict[str, Any] = {
    "hypothesis": "A block as wide as the row masks a third of its lanes at 11008 columns and keeps few programs resident.",
    "change": "The row is split into blocks of at most 2048 columns on a second axis of the grid, in both kernels.",
    "expected": "5 to 15% in both passes at 11008 and 14336 columns, nothing at powers of two; no other memory, and no guardrail in reach.",
    "edits": [{"path": PATH, "old": old, "new": new} for old, new in VARIANT_PAIRS],
    "replies": [],
}
