"""The variance of wide rows is a difference of moments."""


import torch
import triton
import triton.language as tl


@triton.jit
def _layer_norm_fwd(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    Y += row * N
    X += row * stride
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < N
    x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    xc = tl.where(mask, x - mean, 0.0)
    if N > 1500:
        var = tl.sum(x * x, axis=0) / N - mean * mean
    else:
        var = tl.sum(xc * xc, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(B + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(Y + cols, xc * rstd * w + b, mask=mask)


@triton.jit
def _layer_norm_bwd(DX, DY, X, W, Mean, Rstd, DW, DB, stride, M, N, BLOCK_SIZE: tl.constexpr):
    program = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < N
    w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    db = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for r in range(program, M, tl.num_programs(0)):
        row = tl.cast(r, tl.int64)
        x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(Rstd + row)
        xhat = tl.where(mask, (x - tl.load(Mean + row)) * rstd, 0.0)
        wdy = w * dy
        c1 = tl.sum(xhat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        tl.store(DX + row * N + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
        dw += dy * xhat
        db += dy
    tl.store(DW + program * N + cols, dw, mask=mask)
    tl.store(DB + program * N + cols, db, mask=mask)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        x_arg = x.reshape(-1, x.shape[-1])
        if x_arg.stride(-1) != 1:
            x_arg = x_arg.contiguous()
        M, N = x_arg.shape
        y = torch.empty((M, N), dtype=x.dtype, device=x.device)
        mean = torch.empty((M,), dtype=torch.float32, device=x.device)
        rstd = torch.empty((M,), dtype=torch.float32, device=x.device)
        BLOCK_SIZE = triton.next_power_of_2(N)
        num_warps = min(max(BLOCK_SIZE // 256, 1), 8)
        _layer_norm_fwd[(M,)](
            x_arg, y, weight, bias, mean, rstd, x_arg.stride(0), N, eps, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
        )
        ctx.save_for_backward(x_arg, weight, mean, rstd)
        ctx.BLOCK_SIZE, ctx.num_warps = BLOCK_SIZE, num_warps
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        M, N = x.shape
        shape = dy.shape
        dy = dy.contiguous().view(M, N)
        dx = torch.empty((M, N), dtype=x.dtype, device=x.device)
        programs = min(M, 8)
        dw = torch.empty((programs, N), dtype=torch.float32, device=x.device)
        db = torch.empty((programs, N), dtype=torch.float32, device=x.device)
        _layer_norm_bwd[(programs,)](
            dx, dy, x, w, mean, rstd, dw, db, x.stride(0), M, N, BLOCK_SIZE=ctx.BLOCK_SIZE, num_warps=ctx.num_warps
        )
        return dx.view(shape), dw.sum(dim=0).to(w.dtype), db.sum(dim=0).to(w.dtype), None


def candidate(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return LayerNorm.apply(x, w, b, eps)
