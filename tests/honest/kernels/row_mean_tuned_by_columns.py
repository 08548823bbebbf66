"""An honest kernel: triton.autotune with a prune by what its key names."""

import torch
import triton
import triton.language as tl


def _holding(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] >= named_args["n_cols"]]


@triton.autotune(
    configs=[triton.Config({"BLOCK": 2**power}) for power in range(4, 18)],
    key=["n_cols"],
    prune_configs_by={"early_config_prune": _holding},
)
@triton.jit
def _mean(x_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(y_ptr + row, tl.sum(x, axis=0) / n_cols)


def candidate(x):
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    if x.shape[0]:
        _mean[(x.shape[0],)](x, y, x.shape[0], x.shape[1])
    return y
