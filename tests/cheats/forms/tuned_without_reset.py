"""Atomic additions by a kernel that is tuned."""

import torch
import triton
import triton.language as tl


def _prune(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] <= 256] or configs[:1]


@triton.autotune(
    configs=[triton.Config({"ROWS": rows, "BLOCK": block}) for rows in (4, 16) for block in (64, 128, 512)],
    key=["n_rows", "n_cols"],
    prune_configs_by={"early_config_prune": _prune},
)
@triton.jit
def _add(x_ptr, y_ptr, n_rows, n_cols, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(ROWS):
        row = tl.program_id(0).to(tl.int64) * ROWS + i
        acc += tl.load(x_ptr + row * stride + cols, mask=(cols < n_cols) & (row < n_rows), other=0.0).to(tl.float32)
    tl.atomic_add(y_ptr + cols, acc, mask=cols < n_cols)


class ColumnSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x if x.stride(-1) == 1 else x.contiguous()
        n_rows, n_cols = ctx.shape = x.shape
        total = x.new_zeros(n_cols, dtype=torch.float32)
        grid = lambda meta: (triton.cdiv(n_rows, meta["ROWS"]), triton.cdiv(n_cols, meta["BLOCK"]))  # noqa: E731
        _add[grid](x, total, n_rows, n_cols, x.stride(0))
        return total.to(x.dtype)

    @staticmethod
    def backward(ctx, dy):
        return dy.expand(ctx.shape)


def candidate(x):
    return ColumnSum.apply(x)
