"""Triton's own compiler for GPUs of AMD on the kernels of a port, in a process of its own; it needs no GPU."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence

from gpu_runner.contracts import Problem
from workers.authors.protocol import Proposal
from workers.contracts import Failure, FailureCode, UserFacingError
from workers.targets.backend import rows_and_columns
from workers.targets.cutile import kernels_by
from workers.targets.lowering import kernel_requests
from workers.targets.module import CallVariant

ARCHITECTURES = ("gfx90a", "gfx942")  # MI200, MI300
SCRIPT = "amd_compiling.py"
FIX = "Run: pip install 'kernelsmith[gpu]'"
SHARED_BYTES = 65_536  # LDS of a compute unit. Source: AMD, CDNA 2 and CDNA 3 instruction set architecture
WIDEST = 32_768  # columns of a block at most
TILE_ELEMENTS = 4096  # at least, of rows that share a block
WARPS = ((8192, 16), (2048, 8), (1, 4))  # by the columns of a block, as the library's `calculate_settings` has it


def requests(problem: Problem, proposal: Proposal) -> list[dict[str, object]]:
    """Each kernel in bfloat16 with the block of the widest rows of the workloads, or that its launch writes as a number."""
    columns = max((rows_and_columns(problem, workload)[1] for workload in problem.workloads), default=TILE_ELEMENTS)
    block = min(WIDEST, 1 << (columns - 1).bit_length())
    made = kernel_requests(proposal.source, (CallVariant("", problem, proposal),), ())
    written = _written(proposal.source)
    for request in made:
        own = written.get(str(request["name"]), {})
        size = own.get("BLOCK_SIZE", block)
        usual = {"BLOCK_SIZE": size, "BLOCK_ROWS": max(1, TILE_ELEMENTS // size), "NUM_STAGES": 1}
        constants = request["constants"]
        assert isinstance(constants, dict)
        request["constants"] = {name: own.get(name, usual.get(name, known)) for name, known in constants.items()}
        request["warps"] = own.get("num_warps", next(warps for least, warps in WARPS if size >= least))
    return made


def _written(source: str) -> dict[str, dict[str, int]]:
    """By kernel the settings that its launch writes as numbers."""
    launches = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return {
        ast.unparse(node.func.value): {
            keyword.arg: keyword.value.value
            for keyword in node.keywords
            if keyword.arg and isinstance(keyword.value, ast.Constant) and type(keyword.value.value) is int
        }
        for node in launches
        if isinstance(node.func, ast.Subscript)
    }


def compiled(proposals: Sequence[tuple[Problem, Proposal]], python: str | None = None) -> str:
    """Compiles every kernel for ``ARCHITECTURES``, and gives a sentence on registers, spills and shared memory.

    Raises:
        UserFacingError: Triton has no compiler for AMD, or a kernel does not compile or fit; with the compiler's words.
    """
    kernels = list[dict[str, object]]()
    for problem, proposal in proposals:
        request = {
            "source": proposal.source,
            "kernels": requests(problem, proposal),
            "architectures": ARCHITECTURES,
            "architecture": " and ".join(ARCHITECTURES),
        }
        kernels += kernels_by("Triton for AMD", SCRIPT, request, python or sys.executable, FIX)
    return told(kernels)


def told(kernels: Sequence[dict[str, object]]) -> str:
    """What was compiled, a sentence.

    Raises:
        UserFacingError: a kernel takes more shared memory than a compute unit has.
    """
    large = [one for one in kernels if int(str(one["shared_bytes"])) > SHARED_BYTES]
    if large:
        message = f"`{large[0]['name']}` takes {large[0]['shared_bytes']:,} bytes of shared memory on {large[0]['architecture']}"
        fix = f"A compute unit has {SHARED_BYTES:,}. Nothing was pushed."
        raise UserFacingError(Failure(FailureCode.verdict, message, fix))
    most = {name: max(int(str(one[name])) for one in kernels) for name in ("registers", "shared_bytes")}
    spilling = dict.fromkeys(
        f"`{one['name']}` ({one['spilled']}, {one['architecture']})" for one in kernels if one["spilled"]
    )
    spills = f"spilled registers: {', '.join(spilling)}" if spilling else "no register is spilled"
    return (
        f"Compiled by Triton for {' and '.join(ARCHITECTURES)} in bfloat16: at most {most['registers']} vector registers a thread "
        f"and {most['shared_bytes']:,} of {SHARED_BYTES:,} bytes of shared memory; {spills}."
    )
