"""Whether Triton's interpreter computes the same bits with the runner's shortcuts as without.

    TRITON_INTERPRET=1 python -m tests.gpu_runner.verify.spared

Needs torch, triton and numpy, and no GPU. Ends with 1 where a result differs, or a shortcut does not fit this version of Triton.
"""

from __future__ import annotations

import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl

from gpu_runner.child import interpreter

N = 64
WHOLE = ("int8", "int16", "int32", "int64", "uint8")
FLOATS = ("float16", "bfloat16", "float32", "float64")


@triton.jit
def _half(v):  # type: ignore[no-untyped-def]  # Triton's language
    return tl.where(v > 0, v * 0.5, v)


@triton.jit
def _nested(v):  # type: ignore[no-untyped-def]
    return _half(v) + _half(-v) + tl.sum(v, axis=0)


@triton.jit
def arithmetic(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, size)
    a, b = tl.load(x + at), tl.load(y + at, mask=at < size - 3, other=1)
    total = a + b * 2 - 1 + (3 - a) * 0
    total += tl.where(a < b, a, b) + tl.where(a == 1, 1, 0) + tl.where((a >= b) & (a != 2), 5, -a)
    total += tl.minimum(a, b) + tl.maximum(a, 3) + a * a - (b > a)
    tl.store(out + at, total)


@triton.jit
def halves(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, size)
    a, b = tl.load(x + at), tl.load(y + at)
    total = a / (b * b + 1.0) + 0.1 * a + a / 3.0 + 1.0 / (a * a + 1.0) + _nested(a)
    total += tl.where(1.0 / (b * -0.0) < 1.0 / (b * 0.0), 7.0, 1.0)  # both zeros are +0.0 in Triton
    tl.store(out + at, total + (a.to(tl.float32) * 1.5).to(a.dtype) + b.to(tl.float32))


@triton.jit
def mathematics(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, size)
    a, b = tl.load(x + at).to(tl.float32), tl.load(y + at).to(tl.float32)
    total = tl.exp(-a * a) + tl.log(a * a + 1) + tl.sqrt(b * b) + tl.sigmoid(a) + tl.abs(b) + tl.softmax(a)
    total += tl.cumsum(a, axis=0) + tl.sum(b) + tl.max(a, axis=0) - tl.min(b, axis=0) + tl.fma(a, b, a)
    total += tl.argmax(a, axis=0) + tl.clamp(a, -0.5, 0.5) + tl.math.rsqrt(b * b + 1e-6)
    tl.store(out + at, total)


@triton.jit
def numbers(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, size)
    a, b = tl.load(x + at).to(tl.int32), tl.load(y + at).to(tl.int32)
    total = (a // 3 + a % 5 + (a << 2) + (a >> 1) + (a ^ b) + (a | 4) - (a & b) + ~a) * 2147483647
    total += tl.cdiv(a, 4) + a.to(tl.int8).to(tl.int64) + (at * 40503).to(tl.uint8).to(tl.int32)
    total += (a > 0).to(tl.int32) + (a < b) + tl.sum((a > b).to(tl.int32)) + tl.program_id(0)
    tl.store(out + at, total)


@triton.jit
def tiles(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at, row = tl.arange(0, 16), tl.arange(0, 4)
    total = tl.zeros([4, 16], tl.float32)
    for step in range(2):
        a = tl.load(x + (row[:, None] * 16 + at[None, :] + step) % size)
        total += tl.where(row[:, None] > 1, a, 0.0) * (at[None, :] + step).to(tl.float32)
    for step in tl.static_range(2):
        total += tl.load(y + row + step)[:, None] * 0.25
    square = tl.dot(total, tl.trans(total).to(tl.float32))
    whole = tl.sum(tl.reshape(square, [16]), axis=0) + tl.sum(total, axis=1)[:, None] + tl.full([4, 16], 3, tl.float32)
    tl.store(out + row[:, None] * 16 + at[None, :], total + whole)
    tl.atomic_add(out + at, tl.expand_dims(tl.sum(total, axis=0), 0).reshape([16]), mask=at < 9)


@triton.jit
def too_large(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, size)
    tl.store(out + at, at.to(tl.int8) + 300)


@triton.jit
def of_pointers(x, y, out, size: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, size)
    tl.store(out + at, tl.load(x + at) + tl.load(x * y + at))


KERNELS = (
    (arithmetic, (*WHOLE, *FLOATS)),
    (halves, FLOATS),
    (mathematics, FLOATS),
    (numbers, WHOLE),
    (tiles, ("float32",)),
    (too_large, ("int8",)),
    (of_pointers, ("float32",)),
)


def results() -> Iterator[tuple[str, str]]:
    """What each kernel gives for each type of its inputs: a digest of its bits, or its error."""
    for kernel, dtypes in KERNELS:
        for dtype in dtypes:
            yield f"{kernel.__name__} {dtype}", _result(kernel, getattr(torch, dtype))


def _result(kernel: Callable[..., Any], dtype: torch.dtype) -> str:
    torch.manual_seed(1)
    x, y = ((torch.randn(N) * 8).abs().to(dtype) for _ in range(2))
    if dtype.is_floating_point:
        x[::2] *= -1
        y[3] = torch.nan
    out = torch.zeros(N, dtype=torch.int64 if kernel is numbers else dtype)
    try:
        for _ in range(2):  # the second time with whatever was kept
            kernel[(2,)](x, y, out, size=N)
    except Exception as error:
        error = error.__cause__ or error
        return f"{type(error).__name__}: {error}"
    return hashlib.sha256(out.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def main() -> int:
    """Compare, and print what differs."""
    warnings.simplefilter("ignore")  # of quotients by zero, which are meant
    hasten = interpreter.hasten_interpreter
    interpreter.hasten_interpreter = lambda: ()
    interpreter.teach_interpreter()
    interpreter.teach_maxima()
    begin = time.process_time()
    before = dict(results())
    middle = time.process_time()
    missed = hasten()
    hastened = time.process_time()
    after = dict(results())
    end = time.process_time()
    different = [name for name, result in before.items() if after[name] != result]
    for name in different:
        print(f"{name}: {before[name]} without shortcuts, {after[name]} with")
    for name in missed:
        print(f"this version of Triton has no {name} as known")
    print(f"torch {torch.__version__}, triton {triton.__version__}: {len(before)} results, {len(different)} differ")
    print(f"{middle - begin:.2f} s of CPU without shortcuts, {end - hastened:.2f} s with")
    return 1 if different or missed else 0


if __name__ == "__main__":
    sys.exit(main())
