"""Kernels as arithmetic: what honest and faulty ones compute, step by step in float32 and the halves, for many seeds at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from gpu_runner.child.lift import lifted
from gpu_runner.numerics.compare import Truth

Tensors = tuple[torch.Tensor, ...]
Compute = Callable[..., torch.Tensor]
LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Operation:
    """A reference as people write it, and honest kernels for it; inputs are rows of random scale."""

    reference: Compute
    shapes: tuple[str, ...]  # of each input: rows x columns (rc), columns (c)
    honest: dict[str, Compute] = field(default_factory=dict)


def inputs(operation: Operation, rows: int, columns: int, dtype: torch.dtype, seed: int) -> Tensors:
    stream = torch.Generator().manual_seed(seed)
    made = []
    for shape in operation.shapes:
        scale = 2.0 ** (torch.rand((), generator=stream).item() * 4 - 2)
        size = (rows, columns) if shape == "rc" else (columns,)
        made.append((scale * torch.randn(size, generator=stream)).to(dtype))
    return tuple(made)


def truth_of(operation: Operation, given: Tensors) -> Truth:
    own = operation.reference(*given)

    def exact(step: float) -> torch.Tensor:
        stream = torch.Generator().manual_seed(0)
        wide = [x.double() * (1 + step * (torch.randint(0, 2, x.shape, generator=stream) * 2 - 1)) for x in given]
        with lifted():
            return operation.reference(*wide)

    step = 2.0**-22
    shaken = () if own.dtype == torch.float32 else (exact(step), exact(-step))
    return Truth(exact(0.0), own, shaken=shaken)


def approximate(values: torch.Tensor, ulps: float = 2.0) -> torch.Tensor:
    """Float32 values as a fast approximation gives them, off by up to so many steps, in a pattern of its own."""
    pattern = torch.sin(values.double().clamp(max=1e30) * 12345.678)
    return (values.double() * (1 + ulps * 2.0**-23 * pattern)).float()


def blocked(terms: torch.Tensor, block: int = 64) -> torch.Tensor:
    """Sum of rows as a kernel takes it: blocks are added to an accumulator one by one, and that at the end."""
    total = torch.zeros(*terms.shape[:-1], block, dtype=terms.dtype)
    padded = F.pad(terms, (0, -terms.shape[-1] % block))
    for start in range(0, padded.shape[-1], block):
        total = total + padded[..., start : start + block]
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = total[..., :half] + total[..., half:]
    return total


def _softmax_exp2(x: torch.Tensor) -> torch.Tensor:
    h = x.float() * LOG2E
    p = approximate(torch.exp2(h - h.amax(-1, keepdim=True)))
    return (p * (1.0 / blocked(p))).to(x.dtype)


def _softmax_online(x: torch.Tensor) -> torch.Tensor:
    h = x.float()
    top = torch.full((len(h), 1), -torch.inf)
    total = torch.zeros(len(h), 1)
    for start in range(0, h.shape[1], 32):
        part = h[:, start : start + 32]
        new = torch.maximum(top, part.amax(-1, keepdim=True))
        total = total * torch.exp(top - new) + torch.exp(part - new).sum(-1, keepdim=True)
        top = new
    return (torch.exp(h - top) / total).to(x.dtype)


def _softmax_gradient(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(F.softmax(leaf, -1), leaf, dy.to(leaf.dtype))[0]


def _softmax_gradient_saved(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    y = F.softmax(x, -1).float()
    return (y * (dy.float() - blocked(y * dy.float()))).to(x.dtype)


def _softmax_gradient_again(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    y = _softmax_exp2(x.float())
    return (y * (dy.float() - blocked(y * dy.float()))).to(x.dtype)


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def _rms_norm_cast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x.float()
    rstd = approximate(torch.rsqrt(blocked(h * h) / h.shape[-1] + 1e-6))
    return w * (h * rstd).to(x.dtype)


def _rms_norm_once(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x.float()
    return (h * torch.rsqrt(blocked(h * h) / h.shape[-1] + 1e-6) * w.float()).to(x.dtype)


def _layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w, b)


def _layer_norm_two_passes(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = x.float()
    h = h - blocked(h) / h.shape[-1]
    rstd = torch.rsqrt(blocked(h * h) / h.shape[-1] + 1e-5)
    return (h * rstd * w.float() + b.float()).to(x.dtype)


def _layer_norm_one_pass(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h, n = x.float(), x.shape[-1]
    mean = blocked(h) / n
    rstd = torch.rsqrt(blocked(h * h) / n - mean * mean + 1e-5)
    return ((h - mean) * rstd * w.float() + b.float()).to(x.dtype)


def _layer_norm_welford(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = x.float()
    mean, square = torch.zeros(len(h), 1), torch.zeros(len(h), 1)
    for count in range(h.shape[1]):
        value = h[:, count : count + 1]
        step = value - mean
        mean = mean + step / (count + 1)
        square = square + step * (value - mean)
    return ((h - mean) * torch.rsqrt(square / h.shape[1] + 1e-5) * w.float() + b.float()).to(x.dtype)


def _swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(a) * b


def _swiglu_cast(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = a.float()
    return approximate(h * approximate(1 / (1 + torch.exp(-h)))).to(b.dtype) * b


def _swiglu_once(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = a.float()
    return (h / (1 + torch.exp2(-h * LOG2E)) * b.float()).to(b.dtype)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


def _gelu_by_exp(x: torch.Tensor) -> torch.Tensor:
    h = x.float()
    inner = 0.7978845608028654 * (h + 0.044715 * h * h * h)
    tanh = 1 - 2 / (approximate(torch.exp(2 * inner)) + 1)
    return (0.5 * h * (1 + tanh)).to(x.dtype)


def _row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


def _row_sum_float32(x: torch.Tensor) -> torch.Tensor:
    return blocked(x.float())[:, 0].to(x.dtype)


def _column_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def _column_sum_one_by_one(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[1])
    for row in x.float():
        total = total + row
    return total.to(x.dtype)


def _log_softmax(x: torch.Tensor) -> torch.Tensor:
    return F.log_softmax(x, -1)


def _log_softmax_exp2(x: torch.Tensor) -> torch.Tensor:
    h = x.float()
    top = h.amax(-1, keepdim=True)
    return (h - (top + approximate(torch.log(blocked(torch.exp2((h - top) * LOG2E)))))).to(x.dtype)


def _log_sum_exp(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x.float(), -1)


def _log_sum_exp_exp2(x: torch.Tensor) -> torch.Tensor:
    h = x.float() * LOG2E
    top = h.amax(-1, keepdim=True)
    return ((top + torch.log2(blocked(torch.exp2(h - top)))) / LOG2E)[:, 0]


OPERATIONS = {
    "softmax": Operation(lambda x: F.softmax(x, -1), ("rc",), {"exp2": _softmax_exp2, "online": _softmax_online}),
    "softmax backward": Operation(
        _softmax_gradient, ("rc", "rc"), {"saved": _softmax_gradient_saved, "again": _softmax_gradient_again}
    ),
    "rms_norm": Operation(_rms_norm, ("rc", "c"), {"casts as eager": _rms_norm_cast, "rounds once": _rms_norm_once}),
    "layer_norm": Operation(
        _layer_norm,
        ("rc", "c", "c"),
        {"two passes": _layer_norm_two_passes, "one pass": _layer_norm_one_pass, "welford": _layer_norm_welford},
    ),
    "swiglu": Operation(_swiglu, ("rc", "rc"), {"casts as eager": _swiglu_cast, "rounds once": _swiglu_once}),
    "gelu": Operation(_gelu, ("rc",), {"tanh by exp": _gelu_by_exp}),
    "row sum": Operation(_row_sum, ("rc",), {"float32": _row_sum_float32}),
    "column sum": Operation(_column_sum, ("rc",), {"one by one": _column_sum_one_by_one}),
    "log_softmax": Operation(_log_softmax, ("rc",), {"exp2": _log_softmax_exp2}),
    "log_sum_exp": Operation(_log_sum_exp, ("rc",), {"exp2": _log_sum_exp_exp2}),
}


def _truncated(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Float32 values with the last bits of their mantissa cleared."""
    return (values.view(torch.int32) & -(1 << bits)).view(torch.float32)


def _rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    return ((values.view(torch.int32) + (1 << (bits - 1))) & -(1 << bits)).view(torch.float32)


def randomly_rounded(values: torch.Tensor, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Values in a half precision, each rounded up or down by chance in the ratio of the distances."""
    near = values.to(dtype)
    off = values.double() - near.double()
    other = torch.where(
        off > 0, torch.nextafter(near, near.new_tensor(torch.inf)), torch.nextafter(near, near.new_tensor(-torch.inf))
    )
    gap = (other.double() - near.double()).abs()
    drawn = torch.rand(values.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.where(drawn < off.abs() / gap, other, near)


def one_wrong_a_row(values: torch.Tensor, factor: float) -> torch.Tensor:
    got = values.clone()
    got[..., -2] = (got[..., -2].double() * factor).to(got.dtype)
    return got


FAULTS: dict[str, tuple[tuple[torch.dtype, ...], Callable[[torch.Tensor, torch.dtype], torch.Tensor]]] = {
    # What becomes of the truth: an otherwise exact kernel, with one fault.
    "half of the mantissa cut off": ((torch.float32,), lambda exact, dtype: _truncated(exact.float(), 12)),
    "rounded as tf32": ((torch.float32,), lambda exact, dtype: _rounded(exact.float(), 13)),
    "rounded as bfloat16": ((torch.float32,), lambda exact, dtype: exact.bfloat16().float()),
    "half a percent too large": (
        (torch.float32, torch.float16, torch.bfloat16),
        lambda exact, dtype: (exact * 1.005).to(dtype),
    ),
    "half a percent too small": (
        (torch.float32, torch.float16, torch.bfloat16),
        lambda exact, dtype: (exact * 0.995).to(dtype),
    ),
    "random rounding": (
        (torch.float16, torch.bfloat16),
        lambda exact, dtype: randomly_rounded(exact.float(), dtype, 5),
    ),
    "one element a row off by 2%": (
        (torch.float16, torch.bfloat16),
        lambda exact, dtype: one_wrong_a_row(exact.to(dtype), 1.02),
    ),
    "one element a row off by 1e-4": ((torch.float32,), lambda exact, dtype: one_wrong_a_row(exact.float(), 1.0001)),
    "mantissa cut to six bits": ((torch.float16,), lambda exact, dtype: _truncated(exact.float(), 18).half()),
}


def _softmax_bf16_sum(x: torch.Tensor) -> torch.Tensor:
    h = x.float()
    p = torch.exp(h - h.amax(-1, keepdim=True))
    return (p / blocked(p.to(x.dtype)).float()).to(x.dtype)


def _rms_norm_bf16_sum(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    square = blocked(x * x).float() / x.shape[-1]
    return w * (x.float() * torch.rsqrt(square + 1e-6)).to(x.dtype)


def _layer_norm_bf16_sum(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    h = x.float() - blocked(x).float() / x.shape[-1]
    rstd = torch.rsqrt(blocked((h * h).to(x.dtype)).float() / x.shape[-1] + 1e-5)
    return (h * rstd * w.float() + b.float()).to(x.dtype)


def _row_sum_bf16(x: torch.Tensor) -> torch.Tensor:
    return blocked(x)[:, 0]


def _column_sum_bf16(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[1], dtype=x.dtype)
    for row in x:
        total = total + row
    return total


HALF_SUMS: dict[str, Compute] = {
    "softmax": _softmax_bf16_sum,
    "rms_norm": _rms_norm_bf16_sum,
    "layer_norm": _layer_norm_bf16_sum,
    "row sum": _row_sum_bf16,
    "column sum": _column_sum_bf16,
}
