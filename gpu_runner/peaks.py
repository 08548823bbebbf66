"""Peak rates of named GPUs by their data sheets: for predictions without a GPU, and to compare measurements with. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_runner.contracts.profiling import GpuPeaks

# A copy reaches less than the data sheet's peak: 4.24 of 4.8 TB/s were measured on an H200 (docs/measurements).
COPY_SHARE = 0.88
# The matrix units of every GPU of the table take float32 operands (as TF32) at half the rate of bfloat16.
# Source: the white papers of the Ampere, Ada, Hopper and Blackwell architectures, tables of peak rates.
FLOAT32_SHARE = 0.5
_MIB = 2**20


@dataclass(frozen=True)
class Gpu:
    """Peaks of one GPU. Units: GB/s and TFLOPS are decimal, bytes binary, as the data sheets give them; rates without sparsity."""

    name: str
    architecture: str
    bandwidth_gbps: float
    bf16_tflops: float  # matrix rate, sums in float32
    fp32_tflops: float  # outside of the matrix units
    l2_bytes: int
    multiprocessors: int
    source: str
    needs: str  # a pattern of torch's device name, without case
    lacks: str = r"(?!)"  # a pattern that it must not have

    @property
    def copy_gbps(self) -> float:
        """The bandwidth that a copy can be expected to reach."""
        return self.bandwidth_gbps * COPY_SHARE


# The first of an architecture represents it; of those that fit a device's name, the first is taken.
_TABLE = (
    Gpu("NVIDIA H200", "sm_90", 4800.0, 989.0, 67.0, 50 * _MIB, 132,
        "NVIDIA H200 Tensor Core GPU data sheet (SXM)", r"\bH200\b"),
    Gpu("NVIDIA H100", "sm_90", 3350.0, 989.0, 67.0, 50 * _MIB, 132,
        "NVIDIA H100 Tensor Core GPU data sheet (SXM)", r"\bH100\b", r"PCIe|NVL"),
    Gpu("NVIDIA H100 PCIe", "sm_90", 2000.0, 756.0, 51.0, 50 * _MIB, 114,
        "NVIDIA H100 Tensor Core GPU data sheet (PCIe)", r"\bH100 PCIe"),
    Gpu("NVIDIA A100", "sm_80", 2039.0, 312.0, 19.5, 40 * _MIB, 108,
        "NVIDIA A100 80GB data sheet (SXM)", r"\bA100\b", r"40GB|PCIe|PG509"),
    Gpu("NVIDIA A100 80GB PCIe", "sm_80", 1935.0, 312.0, 19.5, 40 * _MIB, 108,
        "NVIDIA A100 80GB data sheet (PCIe)", r"\bA100 80GB PCIe"),
    Gpu("NVIDIA A100 40GB", "sm_80", 1555.0, 312.0, 19.5, 40 * _MIB, 108,
        "NVIDIA A100 40GB data sheet", r"\bA100\b.*40GB"),
    Gpu("NVIDIA B200", "sm_100", 8000.0, 2250.0, 75.0, 126 * _MIB, 148,
        "NVIDIA DGX B200 data sheet, per GPU", r"\bB200\b"),
    Gpu("NVIDIA L4", "sm_89", 300.0, 121.0, 30.3, 48 * _MIB, 58,
        "NVIDIA L4 Tensor Core GPU data sheet", r"\bL4\b"),
    Gpu("NVIDIA L40S", "sm_89", 864.0, 362.0, 91.6, 96 * _MIB, 142,
        "NVIDIA L40S data sheet", r"\bL40S\b"),
    Gpu("NVIDIA A10", "sm_86", 600.0, 125.0, 31.2, 6 * _MIB, 72,
        "NVIDIA A10 Tensor Core GPU data sheet", r"\bA10\b"),
    Gpu("NVIDIA GeForce RTX 3090", "sm_86", 936.0, 71.0, 35.6, 6 * _MIB, 82,
        "NVIDIA Ampere GA102 GPU architecture white paper", r"\bRTX 3090\b", r"3090 Ti"),
    Gpu("NVIDIA GeForce RTX 4090", "sm_89", 1008.0, 165.2, 82.6, 72 * _MIB, 128,
        "NVIDIA Ada GPU architecture white paper", r"\bRTX 4090\b", r"4090 (D|Laptop)"),
    Gpu("NVIDIA GeForce RTX 5090", "sm_120", 1792.0, 209.5, 104.8, 96 * _MIB, 170,
        "NVIDIA RTX Blackwell GPU architecture white paper", r"\bRTX 5090\b", r"5090 (D|Laptop)"),
)  # fmt: skip
GPUS: dict[str, Gpu] = {gpu.name: gpu for gpu in _TABLE}
# Of another maker: nothing is measured on it, and host code may ask for it.
AMD = Gpu("AMD Instinct MI300X", "gfx942", 5300.0, 1307.4, 163.4, 4 * _MIB, 304,
          "AMD Instinct MI300X accelerator data sheet", r"\bMI300X\b")  # fmt: skip
DEFAULT = GPUS["NVIDIA H200"]


def find(name: str) -> Gpu | None:
    """The GPU of that name: the table's, torch's name of a device, a part such as ``H100 PCIe``, or an architecture."""
    wanted = name.strip()
    for gpu in _TABLE:
        if wanted.lower() in (gpu.name.lower(), gpu.architecture):
            return gpu
    for gpu in _TABLE:
        if re.search(gpu.needs, wanted, re.IGNORECASE) and not re.search(gpu.lacks, wanted, re.IGNORECASE):
            return gpu
    return None


def matrix_tflops(gpu: Gpu, dtype: str) -> float:
    """The matrix rate for operands of a dtype."""
    return gpu.bf16_tflops * (FLOAT32_SHARE if dtype == "float32" else 1.0)


def predicted(gpu: Gpu, dtype: str) -> GpuPeaks:
    """A named GPU's expected rates: its data sheet, with the bandwidth of a copy."""
    return GpuPeaks(
        gpu.name, gpu.copy_gbps, matrix_tflops(gpu, dtype), gpu.fp32_tflops, gpu.l2_bytes, gpu.multiprocessors,
        f"{gpu.source}, with {COPY_SHARE:.0%} of its bandwidth, as a copy achieves", measured=False,
    )  # fmt: skip


def measured(
    name: str,
    dtype: str,
    bandwidth_gbps: float,
    l2_bytes: int,
    matrix_rate_tflops: float | None = None,
    vector_rate_tflops: float | None = None,
) -> GpuPeaks:
    """A GPU's measured rates; those not measured are the data sheet's where the table has the GPU, else None."""
    gpu = find(name)
    source = "bandwidth measured by a copy in the same run"
    if gpu is not None and (matrix_rate_tflops is None or vector_rate_tflops is None):
        source += f"; rates from: {gpu.source}"
        matrix_rate_tflops = matrix_rate_tflops or matrix_tflops(gpu, dtype)
        vector_rate_tflops = vector_rate_tflops or gpu.fp32_tflops
    return GpuPeaks(
        name, bandwidth_gbps, matrix_rate_tflops, vector_rate_tflops,
        l2_bytes or (gpu.l2_bytes if gpu else 0),
        gpu.multiprocessors if gpu else None, source, measured=True,
    )  # fmt: skip
