"""CuTe DSL's own compiler on the kernels of a module, in a process of its own; it needs no GPU."""

from __future__ import annotations

import ast
from typing import Any

from gpu_runner.contracts import Problem
from workers.authors.compiler.schedules.cutedsl import BLOCK_SHAPE, ELEMENTS, FLAT_SHAPE, ROW_SHAPE
from workers.authors.protocol import Proposal
from workers.targets.cutile import DTYPES, ITEMSIZE, PYTHON, columns_of, compiled_by, dtypes_of, own_settings

ARCHITECTURE = "sm_90a"
SCRIPT = "cutedsl_compiling.py"
FIX = "Run: pip install 'kernelsmith[cutedsl]'"


def launch_requests(problem: Problem, proposal: Proposal) -> list[dict[str, object]]:
    """Each launcher that a module compiles, by dtype: its tensors, the types of its numbers, the vectors at the most columns."""
    requests: list[dict[str, object]] = []
    functions = [node for node in ast.parse(proposal.source).body if isinstance(node, ast.FunctionDef)]
    for host in functions:
        dtypes = dtypes_of(problem, proposal, host)
        for call in (node for node in ast.walk(host) if isinstance(node, ast.Call)):
            if ast.unparse(call.func) != "_compiled":
                continue
            launch, tensors, numbers, _ = call.args
            assert isinstance(launch, ast.Name) and isinstance(tensors, ast.Tuple) and isinstance(numbers, ast.Tuple)
            columns = columns_of(problem, proposal, launch.id.replace("_launch", "_kernel"))
            for dtype in DTYPES:
                shape = shape_of(host, columns, dtype)
                made = [_tensor(one, dtypes, dtype, shape[0]) for one in tensors.elts]
                kinds = [ast.unparse(number).removeprefix("cutlass.") for number in numbers.elts]
                requests.append(
                    {"name": launch.id, "dtype": dtype, "tensors": made, "numbers": kinds, "shape": list(shape)}
                )
    return requests


def shape_of(host: ast.FunctionDef, columns: int, dtype: str) -> tuple[int, int, int, int]:
    """The vectors that a launcher chooses for rows of so many columns."""
    line = next(node for node in host.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHAPE")
    tensors = {node.id for node in ast.walk(line) if isinstance(node, ast.Name)}
    scope: dict[str, Any] = dict.fromkeys(tensors) | {
        "n_cols": columns,
        "tuned": own_settings(host),
        "_vector": lambda most, *_: most,
        "_widest": lambda *_: 16 // ITEMSIZE[dtype],
    }
    exec("\n".join([BLOCK_SHAPE, FLAT_SHAPE, ROW_SHAPE, ast.unparse(line)]), scope)  # noqa: S102 - the compiler author's own lines
    found: tuple[int, int, int, int] = scope["SHAPE"]
    return found


def _tensor(text: ast.expr, dtypes: dict[str, str], dtype: str, vector: int) -> dict[str, object]:
    assert isinstance(text, ast.Tuple)
    element, align = (ast.unparse(one) for one in text.elts)
    name = align.rpartition(" * ")[2].removesuffix(".element_size()")
    fixed = {own: plain for plain, own in ELEMENTS.items()}.get(element.removeprefix("cutlass."))
    return {"dtype": fixed or dtypes.get(name, dtype), "vector": vector if align.startswith("SHAPE[0]") else 1}


def compiled(
    source: str, requests: list[dict[str, object]], python: str | None = None, architecture: str = ARCHITECTURE
) -> str:
    """Compiles every launcher in every dtype, and gives a sentence on it; nothing of this process's environment is passed.

    Raises:
        UserFacingError: CuTe DSL is missing or another one, or a kernel does not compile; with the compiler's words.
    """
    request = {"source": source, "kernels": requests, "architecture": architecture}
    return compiled_by("CuTe DSL", SCRIPT, request, python or PYTHON, FIX)
