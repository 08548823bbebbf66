"""The role that measures what the GPU can do: bandwidth of a copy, rate of matrix products, rate outside of the matrix units.

No untrusted code runs in its child.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from gpu_runner.child.handlers import Answer, ChildState, Handler, start
from gpu_runner.child.input_sets import l2_bytes
from gpu_runner.messages import MeasureRates, OpenDevice, RatesMeasured, Request

COPY_BYTES = 2**31
REPEATS = 12
WARM_UP = 2
MATRIX_SIZE = 8192
# A float32 product can be put together from three products of TF32 halves, so that is a rate that a kernel may reach as well.
# Source: Ootomo and Yokota, Recovering single precision accuracy from Tensor Cores (2022).
TF32_PRODUCTS = 3
FMA_BLOCK = 2048
FMA_WARPS = 4
FMA_ROUNDS = 512
FMA_STEPS = 8  # of one round, written out
FMA_PROGRAMS = 32  # for each multiprocessor


# Triton evaluates annotations as the kernel's own names, so that only those it knows may stand there.
@triton.jit  # type: ignore[untyped-decorator]
def _multiply_add(x_ptr, rounds, steps: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at)
    total = x
    for _round in range(rounds):
        for _step in tl.static_range(steps):
            total = total * x + x
    tl.store(x_ptr + at, total)


def rates(state: ChildState, request: MeasureRates, tensors: list[torch.Tensor]) -> Answer[RatesMeasured]:
    """Measure the named rates of this GPU."""
    properties = torch.cuda.get_device_properties(0)
    failed: dict[str, str] = {}
    measured: dict[str, float | None] = {}
    parts: dict[str, Callable[[], float]] = {
        "gbps": _copy_gbps,
        "matrix_tflops": lambda: _matrix_tflops(request.dtype),
        "tf32_tflops": lambda: _tf32_tflops() if request.dtype == "float32" else 0.0,
        "vector_tflops": lambda: _vector_tflops(properties.multi_processor_count),
    }
    for name, measure in parts.items():
        measured[name] = None
        if name not in request.parts:
            continue
        try:
            measured[name] = measure()
        except Exception as error:  # noqa: BLE001 - one rate that this GPU or this torch cannot give must not cost the others
            failed[name] = f"{type(error).__name__}: {error}"
        torch.cuda.empty_cache()
    cuda = str(torch.version.cuda)
    return RatesMeasured(properties.name, l2_bytes(), cuda, **measured, failed=failed), []


def _times_s(run: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(REPEATS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times[WARM_UP:])


def _copy_gbps() -> float:
    """Read and write counted."""
    size = min(COPY_BYTES, torch.cuda.mem_get_info()[0] // 8)
    source = torch.zeros(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    times = _times_s(lambda: target.copy_(source))
    return float(2 * size / times[len(times) // 2] / 1e9)


def _matrix_tflops(dtype: str) -> float:
    exact = _product_tflops(getattr(torch, dtype))
    return exact if dtype != "float32" else max(exact, _tf32_tflops() / TF32_PRODUCTS)


def _tf32_tflops() -> float:
    torch.set_float32_matmul_precision("high")
    try:
        return _product_tflops(torch.float32)
    finally:
        torch.set_float32_matmul_precision("highest")


def _product_tflops(kind: torch.dtype) -> float:
    size = MATRIX_SIZE
    while size > 1024 and 3 * size * size * kind.itemsize > torch.cuda.mem_get_info()[0] // 4:
        size //= 2
    left, right = (torch.randn(size, size, device="cuda", dtype=kind) for _ in range(2))
    product = torch.empty_like(left)
    return float(2 * size**3 / _times_s(lambda: torch.mm(left, right, out=product))[0] / 1e12)


def _vector_tflops(multiprocessors: int) -> float:
    programs = FMA_PROGRAMS * multiprocessors
    values = torch.zeros(programs * FMA_BLOCK, dtype=torch.float32, device="cuda")

    def run() -> None:
        _multiply_add[(programs,)](values, FMA_ROUNDS, steps=FMA_STEPS, block=FMA_BLOCK, num_warps=FMA_WARPS)

    operations = 2 * values.numel() * FMA_ROUNDS * FMA_STEPS
    return float(operations / _times_s(run)[0] / 1e12)


HANDLERS: dict[type[Request[Any]], Handler] = {OpenDevice: start, MeasureRates: rates}
