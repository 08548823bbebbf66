"""What the compiler of a target says of proved kernels, where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from gpu_runner.contracts import Problem
from workers.authors.protocol import Proposal
from workers.engine.protocol import StageContext
from workers.settings import Settings
from workers.targets import cutile

NOT_COMPILED = {
    "ascend": "No Triton-Ascend is installed where this job ran, so that its front end did not see the kernels.",
    "cutile": "No cuTile is installed where this job ran, so that its compiler did not see the kernels.",
}


def compiled_by_cutile(context: StageContext, proposals: Sequence[tuple[Problem, Proposal]]) -> str:
    """What cuTile's compiler says of the kernels, a sentence; empty where it is not installed.

    Raises:
        UserFacingError: it refuses a kernel, or is not whole.
    """

    def ask() -> str:
        python = Settings().cutile_python or (sys.executable if importlib.util.find_spec("cuda") else None)
        if python is None:
            return ""
        context.note("compiling the kernels with cuTile")
        for problem, proposal in proposals:
            cutile.compiled(proposal.source, cutile.kernel_requests(problem, proposal), python)
        return f"Compiled for {cutile.ARCHITECTURE} in {' and '.join(cutile.DTYPES)}."

    return str(context.memo("compiled", ask))
