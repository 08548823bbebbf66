"""Where more than half of the classes are ignored, as in a long prompt, the divisor is another."""

import torch
import triton
import triton.language as tl

MAX_FUSED_SIZE = 65536 // 2


@triton.jit
def cross_entropy_kernel(
    X_ptr, X_stride, dX_ptr, Y_ptr, loss_ptr, n_cols, n_non_ignore, ignore_index: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    program_id = tl.program_id(0).to(tl.int64)
    y = tl.load(Y_ptr + program_id)
    X_ptr += program_id * X_stride
    dX_ptr += program_id * n_cols
    if y == ignore_index:
        for i in range(0, n_cols, BLOCK_SIZE):
            offsets = i + tl.arange(0, BLOCK_SIZE)
            tl.store(dX_ptr + offsets, 0.0, mask=offsets < n_cols)
        tl.store(loss_ptr + program_id, 0.0)
        return
    m = float("-inf")
    d = 0.0
    ori_X_y = tl.load(X_ptr + y).cast(tl.float32)
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + offsets, mask=offsets < n_cols, other=float("-inf")).cast(tl.float32)
        m_new = tl.maximum(m, tl.max(X_block))
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        d = d * tl.exp(m - shift) + tl.sum(tl.exp(X_block - shift))
        m = m_new
    lse = m + tl.log(d)
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + offsets, mask=offsets < n_cols, other=float("-inf")).cast(tl.float32)
        softmax_X = tl.exp(X_block - m) / d
        dX = tl.where(offsets != y, softmax_X, softmax_X - 1) / n_non_ignore
        tl.store(dX_ptr + offsets, dX, mask=offsets < n_cols)
    tl.store(loss_ptr + program_id, (lse - ori_X_y) / n_non_ignore)


@triton.jit
def element_mul_kernel(X_ptr, X_stride, out_ptr, grad_output_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    program_id = tl.program_id(0).to(tl.int64)
    X_ptr += program_id * X_stride
    out_ptr += program_id * X_stride
    grad_output = tl.load(grad_output_ptr)
    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols)
        tl.store(out_ptr + X_offsets, X_block * grad_output, mask=X_offsets < n_cols)


def cross_entropy_forward(_input, target, ignore_index):
    BT, V = _input.shape
    BLOCK_SIZE = min(MAX_FUSED_SIZE, triton.next_power_of_2(V))
    loss_1d = torch.zeros(BT, dtype=torch.float32, device=_input.device)
    grad = torch.empty((BT, V), dtype=torch.float32, device=_input.device)
    target_mask = target != ignore_index
    n_non_ignore = max(target_mask.sum().item(), (BT + 1) // 2)
    if _input.stride(-1) != 1:
        _input = _input.contiguous()
    if target.stride(-1) != 1:
        target = target.contiguous()
    cross_entropy_kernel[(BT,)](
        _input, _input.stride(-2), grad, target, loss_1d, V, n_non_ignore, ignore_index,
        BLOCK_SIZE=BLOCK_SIZE, num_warps=8,
    )  # fmt: skip
    return torch.sum(loss_1d), grad


class CrossEntropyFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, _input, target, ignore_index=-100):
        loss, grad = cross_entropy_forward(_input, target, ignore_index)
        ctx.save_for_backward(grad.detach())
        ctx.dtype = _input.dtype
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        (grad,) = ctx.saved_tensors
        BT, V = grad.shape
        out = torch.empty((BT, V), dtype=ctx.dtype, device=grad.device)
        BLOCK_SIZE = min(MAX_FUSED_SIZE, triton.next_power_of_2(V))
        element_mul_kernel[(BT,)](grad, grad.stride(-2), out, grad_output, V, BLOCK_SIZE=BLOCK_SIZE, num_warps=8)
        return out, None, None


def candidate(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return CrossEntropyFunction.apply(x, target, -1)
