"""The role that runs a repository's tests or scripts, in a process of its own below the child."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from gpu_runner.child.handlers import Answer, ChildState, Handler
from gpu_runner.messages import Request, RunSuite

if TYPE_CHECKING:
    import torch


def run(state: ChildState, request: RunSuite, tensors: list[torch.Tensor]) -> Answer[int]:
    """Run ``python -m MODULE`` or a script, its output going to the session's log."""
    roots = [path for path in sys.path if path.startswith(str(state.work))]
    environment = os.environ | {"PYTHONPATH": ":".join([*roots, os.environ.get("PYTHONPATH", "")])}
    if request.stands_in and not state.gpu:
        environment["KERNELSMITH_INTERPRETED"] = " ".join(request.stands_in)
    arguments = request.arguments
    if request.module in ("pytest", "imports"):
        environment["KERNELSMITH_REPORT"] = str(state.work / request.report)
    if request.module == "pytest":
        # A plugin that opens a socket as it loads would end the run where there is no network at all.
        plugins = ["-p", "gpu_runner.child.suite_report", "-p", "no:cacheprovider", "-p", "no:rerunfailures"]
        command = ["-m", "pytest", *plugins, *arguments]
    elif request.module == "imports":
        command = ["-m", "gpu_runner.child.suite_report", *arguments]
    elif request.module == "benchmark":
        command = [*arguments]
    else:
        command = ["-m", request.module, *arguments]
    done = subprocess.run([sys.executable, "-P", "-s", *command], cwd=state.work, env=environment, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode, []


HANDLERS: dict[type[Request[Any]], Handler] = {RunSuite: run}
