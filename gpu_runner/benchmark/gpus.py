"""What named GPUs can do by their makers' data sheets, for predictions where no GPU is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

# A copy reaches less than the data sheet's peak: 4.24 of 4.8 TB/s were measured on an H200 (docs/measurements).
COPY_SHARE = 0.88


@dataclass(frozen=True)
class Gpu:
    """Peaks of one GPU. Units: GB/s and bytes are decimal and binary as the data sheets give them."""

    name: str
    bandwidth_gbps: float
    bf16_tflops: float  # dense matrix rate
    l2_bytes: int
    source: str

    @property
    def copy_gbps(self) -> float:
        """Give the bandwidth that a copy can be expected to reach."""
        return self.bandwidth_gbps * COPY_SHARE


GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("NVIDIA H200", 4800.0, 989.0, 50 * 2**20, "NVIDIA H200 Tensor Core GPU data sheet (SXM)"),
        Gpu("NVIDIA H100", 3350.0, 989.0, 50 * 2**20, "NVIDIA H100 Tensor Core GPU data sheet (SXM)"),
        Gpu("NVIDIA A100", 2039.0, 312.0, 40 * 2**20, "NVIDIA A100 80GB data sheet (SXM)"),
        Gpu("NVIDIA B200", 8000.0, 2250.0, 126 * 2**20, "NVIDIA DGX B200 data sheet, per GPU"),
        Gpu("NVIDIA L4", 300.0, 121.0, 48 * 2**20, "NVIDIA L4 Tensor Core GPU data sheet"),
        Gpu("NVIDIA GeForce RTX 4090", 1008.0, 165.2, 72 * 2**20, "NVIDIA Ada GPU architecture white paper"),
    )
}
DEFAULT = GPUS["NVIDIA H200"]
