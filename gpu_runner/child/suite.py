"""The role that runs a repository's tests or scripts, in a process of its own below the child."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from gpu_runner.child.handlers import ChildState, Handler

if TYPE_CHECKING:
    import torch


def run(
    state: ChildState, meta: dict[str, Any], tensors: list[torch.Tensor]
) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """Run ``python -m MODULE`` or a script, its output going to the session's log."""
    roots = [path for path in sys.path if path.startswith(str(state.work))]
    environment = os.environ | {"PYTHONPATH": ":".join([*roots, os.environ.get("PYTHONPATH", "")])}
    if meta["stands_in"] and not state.gpu:
        environment["KERNELSMITH_INTERPRETED"] = " ".join(meta["stands_in"])
    arguments = list(meta["arguments"])
    if meta["module"] in ("pytest", "imports"):
        environment["KERNELSMITH_REPORT"] = str(state.work / meta["report"])
    if meta["module"] == "pytest":
        # A plugin that opens a socket as it loads would end the run where there is no network at all.
        plugins = ["-p", "gpu_runner.child.suite_report", "-p", "no:cacheprovider", "-p", "no:rerunfailures"]
        command = ["-m", "pytest", *plugins, *arguments]
    elif meta["module"] == "imports":
        command = ["-m", "gpu_runner.child.suite_report", *arguments]
    elif meta["module"] == "benchmark":
        command = arguments
    else:
        command = ["-m", meta["module"], *arguments]
    done = subprocess.run([sys.executable, "-P", "-s", *command], cwd=state.work, env=environment, check=False)
    return {"exit_code": done.returncode if done.returncode >= 0 else 128 - done.returncode}, []


HANDLERS: dict[str, Handler] = {"run": run}
