"""What a model is told of the GPU: every GPU that the runner knows has its limits, and none is invented."""

from __future__ import annotations

import pytest

from gpu_runner.peaks import GPUS
from workers.stages.figures import LIMITS, hardware

VERSIONS = (("python", "3.12.3"), ("torch", "2.13.0+cpu"), ("triton", "3.7.1"))


@pytest.mark.parametrize("name", GPUS)
def test_every_known_gpu_is_told_with_its_limits(name: str) -> None:
    text = hardware((*VERSIONS, ("gpu", name)))
    gpu = GPUS[name]
    assert f"GPU: {name}\n{gpu.architecture}, {gpu.multiprocessors} multiprocessors" in text
    assert f"{LIMITS[gpu.architecture][0]} KiB of shared memory" in text
    assert f"memory {gpu.bandwidth_gbps:.0f} GB/s" in text
    assert text.endswith("versions: triton 3.7.1, torch 2.13.0")


def test_without_a_gpu_a_kernel_is_written_for_the_architecture_that_is_wanted() -> None:
    assert "run in the interpreter. Write for NVIDIA A100\nsm_80" in hardware(VERSIONS, "sm_80")
    assert "Write for NVIDIA H200\nsm_90" in hardware(VERSIONS)


def test_of_a_gpu_that_is_not_known_nothing_is_invented() -> None:
    assert hardware((*VERSIONS, ("gpu", "Unknown 9000"))) == "GPU: Unknown 9000\nversions: triton 3.7.1, torch 2.13.0"
    assert hardware((("gpu", "Unknown 9000"),)) == "GPU: Unknown 9000"
