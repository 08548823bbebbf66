"""The one place where the runner reads the environment: a switch, and a short list of variables that a GPU's libraries need."""

from __future__ import annotations

import json
import os

from gpu_runner.contracts.envelope import Isolation, RunnerError

REQUIRE_ISOLATION = "KERNELSMITH_REQUIRE_ISOLATION"
# A child on a GPU host gets these and nothing else of the parent's environment; none of them is a secret.
PASSED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_HOME",
    "CUDA_PATH",
    "LD_LIBRARY_PATH",
    "TRITON_LIBCUDA_PATH",
    "TRITON_PTXAS_PATH",
    "OMP_NUM_THREADS",
)


def required_isolation() -> tuple[Isolation, ...]:
    """The levels required where a request names none: a JSON list; empty means any one that isolates a child.

    Raises:
        RunnerError: it is no list of levels.
    """
    text = os.environ.get(REQUIRE_ISOLATION, "").strip()
    try:
        return tuple(Isolation(name) for name in json.loads(text or "[]"))
    except (ValueError, TypeError) as error:
        known = ", ".join(f'"{level}"' for level in Isolation)
        raise RunnerError(f"{REQUIRE_ISOLATION} is no JSON list of levels ({known})") from error


def passed_variables() -> dict[str, str]:
    """Variables of this process that a child on a GPU host gets."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}


def forks_children() -> bool:
    """Whether children may be forked from a process that has imported torch: not with ``KERNELSMITH_FORK_CHILDREN=false``."""
    return os.environ.get("KERNELSMITH_FORK_CHILDREN", "true").strip().lower() not in ("false", "0", "no", "off")


def ascend_home() -> str | None:
    """Where CANN says that it is, once its `set_env.sh` was sourced."""
    return os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME") or None


def visible(variable: str | None) -> str:
    """The first of ``CUDA_VISIBLE_DEVICES``: an index, or the beginning of a UUID; the first GPU where it is not set."""
    first = (variable or "").split(",")[0].strip()
    return first or "0"
