"""The one place where the runner reads the environment: a switch, and a short list of variables that a GPU's libraries need."""

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
    "OMP_NUM_THREADS",
)


def passed_variables() -> dict[str, str]:
    """Give the variables of this process that a child on a GPU host gets."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}


def forks_children() -> bool:
    """Tell whether children may be forked from a process that has imported torch: not with ``KERNELSMITH_FORK_CHILDREN=false``."""
    return os.environ.get("KERNELSMITH_FORK_CHILDREN", "true").strip().lower() not in ("false", "0", "no", "off")


def visible(variable: str | None) -> str:
    """Give the first of ``CUDA_VISIBLE_DEVICES``: an index, or the beginning of a UUID; the first GPU where it is not set."""
    first = (variable or "").split(",")[0].strip()
    return first or "0"
