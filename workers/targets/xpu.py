"""The target `xpu`: Triton on GPUs of Intel, in an implementation of its own next to Liger-Kernel's default operators. Pure."""

from __future__ import annotations

from workers.layouts.liger import paths
from workers.targets.backend import Backend

XPU = Backend(
    name="xpu",
    language="Triton on XPU",
    inside="backends/_xpu/ops",
    schedules="gpu",
    helpers=tuple((name, f"{paths.PACKAGE}.ops.utils") for name in ("calculate_settings", "device_context")),
    impossible_here=(
        "Values and gradients were verified in Triton's interpreter, not on an Intel GPU.",
        "Rows are distributed over Xe cores (`gpu_subslice_count`), and loops are not pipelined. Times need the GPU.",
    ),
    since="The registry of implementations is part of liger-kernel since 0.8",
    device="xpu",
    guard=("", ""),
    has_settings=False,
    replaced=(
        ('device.type == "cuda"', 'device.type == "xpu"'),
        (
            "torch.cuda.get_device_properties(device).multi_processor_count",
            "torch.xpu.get_device_properties(device).gpu_subslice_count",
        ),
    ),
)
