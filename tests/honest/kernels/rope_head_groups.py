import torch
import triton
import triton.language as tl

ROPE_GROUP_SIZE = 4


@triton.heuristics({"BACKWARD_PASS": lambda args: bool(args["BACKWARD_PASS"])})
@triton.jit
def _rope(
    Q,
    q_row_stride,
    COS,
    cos_stride,
    SIN,
    sin_stride,
    seqlen,
    head_dim: tl.constexpr,
    n_heads,
    BACKWARD_PASS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
):
    row = tl.program_id(0)
    group = tl.program_id(1)
    cols = tl.arange(0, BLOCK_SIZE)
    half = head_dim // 2
    mask = cols < half
    sin = tl.load(SIN + (row % seqlen) * sin_stride + cols, mask=mask, other=0)
    cos = tl.load(COS + (row % seqlen) * cos_stride + cols, mask=mask, other=0)
    if BACKWARD_PASS:
        sin = -sin
    head_start = group * GROUP
    head_end = min(head_start + GROUP, n_heads)
    for k in range(head_start, head_end):
        first = row * q_row_stride + k * head_dim + cols
        second = first + half
        q1 = tl.load(Q + first, mask=mask, other=0).to(sin.dtype)
        q2 = tl.load(Q + second, mask=mask, other=0).to(sin.dtype)
        tl.store(Q + first, q1 * cos - q2 * sin, mask=mask)
        tl.store(Q + second, q2 * cos + q1 * sin, mask=mask)


def _turn(q, cos, sin, backward):
    batch, seq, heads, dim = q.shape
    div, mod = divmod(heads, ROPE_GROUP_SIZE)
    groups = div + (mod != 0)
    if batch * seq:
        _rope[(batch * seq, groups)](
            q,
            heads * dim,
            cos,
            cos.stride(0),
            sin,
            sin.stride(0),
            seq,
            dim,
            heads,
            BACKWARD_PASS=backward,
            BLOCK_SIZE=triton.next_power_of_2(dim // 2),
            GROUP=ROPE_GROUP_SIZE,
        )
    return q


class FastRope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, cos, sin):
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return _turn(q.clone(memory_format=torch.contiguous_format), cos, sin, False)

    @staticmethod
    def backward(ctx, dy):
        return _turn(dy.clone(memory_format=torch.contiguous_format), *ctx.saved_tensors, True), None, None


def candidate(x, cos, sin):
    return FastRope.apply(x, cos, sin)
