"""The one place where the runner reads the environment: a short list of variables that a GPU's libraries need."""

from __future__ import annotations

import os

# A child on a GPU host gets these and nothing else of the parent's environment; none of them holds a secret.
PASSED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "CUDA_PATH",
    "LD_LIBRARY_PATH",
    "TRITON_LIBCUDA_PATH",
    "TRITON_PTXAS_PATH",
)


def passed_variables() -> dict[str, str]:
    """Give the variables of this process that a child on a GPU host gets."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}
