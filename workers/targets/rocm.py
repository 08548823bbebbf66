"""The target `rocm`: Triton on GPUs of AMD, in an implementation of its own next to Liger-Kernel's default operators. Pure."""

from __future__ import annotations

from workers.layouts.liger import paths
from workers.targets.backend import Backend

ROCM = Backend(
    name="rocm",
    language="Triton on ROCm",
    inside="backends/_rocm/ops",
    schedules="gpu",
    helpers=tuple((name, f"{paths.PACKAGE}.ops.utils") for name in ("calculate_settings", "device_context")),
    impossible_here=(
        "Values and gradients were verified in Triton's interpreter, not on an AMD GPU.",
        "A warp has 64 threads there: the library's `calculate_settings` gives at most 16 warps, and so does the port.",
        "Loops are not pipelined, since 64 KiB of shared memory cannot hold a second stage of most tiles. Times need the GPU.",
    ),
    since="The registry of implementations is part of liger-kernel since 0.8",
    device="cuda",
    # The device is called `cuda` on both vendors' GPUs: the implementation is there where torch is built for AMD's.
    guard=("import torch", "torch.version.hip is not None"),
    prepare='torch.version.hip = torch.version.hip or "6.0"',
    has_settings=False,
)
