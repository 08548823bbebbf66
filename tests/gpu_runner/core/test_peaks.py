"""A GPU is found by the name that torch gives it, and what was measured goes before what a data sheet says."""

from __future__ import annotations

import pytest

from gpu_runner import peaks


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("H100", "NVIDIA H100"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA A10", "NVIDIA A10"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090"),
        ("nvidia geforce rtx 4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090"),
        ("sm_80", "NVIDIA A100"),
        ("sm_100", "NVIDIA B200"),
        ("sm_90", "NVIDIA H200"),
    ],
)
def test_a_gpu_is_found_by_its_names(name: str, expected: str) -> None:
    found = peaks.find(name)
    assert found is not None
    assert found.name == expected


@pytest.mark.parametrize(
    "name", ["NVIDIA A100X", "NVIDIA A10G", "NVIDIA L40", "NVIDIA H100 NVL", "NVIDIA GeForce RTX 3090 Ti", "", "sm_75"]
)
def test_a_gpu_that_is_like_another_is_not_that_one(name: str) -> None:
    assert peaks.find(name) is None


def test_every_gpu_of_the_table_finds_itself_and_names_its_source() -> None:
    for name, gpu in peaks.GPUS.items():
        assert peaks.find(name) is gpu
        assert gpu.source
        assert gpu.copy_gbps < gpu.bandwidth_gbps
        assert gpu.fp32_tflops < gpu.bf16_tflops


def test_what_was_measured_goes_before_the_data_sheet() -> None:
    found = peaks.measured("NVIDIA H200", "bfloat16", 4240.0, 52428800, matrix_rate_tflops=780.0)
    assert (found.bandwidth_gbps, found.matrix_tflops, found.vector_tflops, found.measured) == (
        4240.0,
        780.0,
        67.0,
        True,
    )
    assert "data sheet" in found.source


def test_of_an_unknown_gpu_only_what_was_measured_is_known() -> None:
    found = peaks.measured("Some GPU", "bfloat16", 500.0, 1024)
    assert (found.matrix_tflops, found.vector_tflops, found.multiprocessors) == (None, None, None)


def test_matrix_products_of_float32_run_at_half_the_rate() -> None:
    h200 = peaks.GPUS["NVIDIA H200"]
    assert peaks.predicted(h200, "float32").matrix_tflops == peaks.predicted(h200, "float16").matrix_tflops / 2  # type: ignore[operator]
