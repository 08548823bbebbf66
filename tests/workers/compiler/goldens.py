"""Golden modules, in the style of a library with helpers of its own.

``python -m tests.workers.compiler.goldens`` writes them again.
"""

from __future__ import annotations

from pathlib import Path

from tests.workers.compiler.captured import proposal

GOLDEN_NAMES = (
    "reglu",
    "swiglu",
    "dyt",
    "rms_norm",
    "add_rms_norm",
    "layer_norm",
    "softmax",
    "position_scale",
    "chunked",
    "packed_bias",
    "cross_entropy",
    "group_norm",
    "rope_one",
    "poly_norm",
    "batch_norm",
    "middle_max",
    "middle_product",
    "running_product",
    "linear_gelu",
    "matmul_softmax",
    "convolution",
    "max_pool",
    "causal_attention",
)


def golden_path(name: str) -> Path:
    """Where a golden module is kept."""
    return Path(__file__).parent / "golden" / f"{name}.py.txt"


def golden_source(name: str) -> str:
    """The module as it is emitted now."""
    return proposal(name, liger=True, entry=None).source


if __name__ == "__main__":
    for each in GOLDEN_NAMES:
        golden_path(each).write_text(golden_source(each))
