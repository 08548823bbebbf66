"""What the compiler of a target says of proved kernels, where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from gpu_runner.contracts import Problem
from workers.authors.protocol import Proposal
from workers.engine.protocol import StageContext
from workers.settings import Settings
from workers.targets import amd, cutedsl, cutile

NOT_COMPILED = {
    "ascend": "No Triton-Ascend is installed where this job ran, so that its front end did not see the kernels.",
    "cutile": "No cuTile is installed where this job ran, so that its compiler did not see the kernels.",
    "cutedsl": "No CuTe DSL is installed where this job ran, so that its compiler did not see the kernels.",
    "rocm": "No Triton is installed where this job ran, so that its compiler for AMD did not see the kernels.",
}
NO_COMPILER = "The target's compiler did not see the kernels: it comes with the Triton of its device."
PACKAGES = {"cutile": "cuda", "cutedsl": "cutlass"}  # by target, what its compiler is imported as


def compiled_by_target(to: str, context: StageContext, proposals: Sequence[tuple[Problem, Proposal]]) -> str:
    """What the target's compiler says of the kernels, a sentence; empty where it is not installed.

    Raises:
        UserFacingError: it refuses a kernel, or is not whole.
    """

    def ask() -> str:
        if to == "rocm":
            context.note("compiling the kernels for GPUs of AMD")
            return amd.compiled(proposals) if importlib.util.find_spec("triton") else ""
        settings = Settings()
        own = {"cutile": settings.cutile_python, "cutedsl": settings.cutedsl_python}[to]
        python = own or (sys.executable if importlib.util.find_spec(PACKAGES[to]) else None)
        if python is None:
            return ""
        context.note(f"compiling the kernels for {to}")
        for problem, proposal in proposals:
            compiled_for(to, problem, proposal, python)
        return f"Compiled for {ARCHITECTURES[to]} in {' and '.join(cutile.DTYPES)}."

    return str(context.memo("compiled", ask))


ARCHITECTURES = {
    "cutile": cutile.ARCHITECTURE,
    "cutedsl": cutedsl.ARCHITECTURE,
    "rocm": " and ".join(amd.ARCHITECTURES),
}


def compiled_for(to: str, problem: Problem, proposal: Proposal, python: str | None = None) -> str:
    """What the target's compiler says of the kernels of a proposal, a sentence.

    Raises:
        UserFacingError: it refuses a kernel, or is missing or another one.
    """
    if to == "cutedsl":
        return cutedsl.compiled(proposal.source, cutedsl.launch_requests(problem, proposal), python)
    return cutile.compiled(proposal.source, cutile.kernel_requests(problem, proposal), python)
