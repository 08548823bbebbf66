"""How long and how many the rows of the measured sizes are. Pure."""

from __future__ import annotations

import math

from gpu_runner.contracts import Problem, Workload
from workers.strategies.protocol import Situation, Stands

BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}


def sizes_called(situation: Situation) -> str:
    """Give the word for the problem's sizes: before there is a kernel nothing was measured at them."""
    return "measured sizes" if situation.stands is Stands.kernel else "sizes"


def row_bytes(problem: Problem, workload: Workload) -> int:
    """Give the bytes of a row of a workload's largest input.

    Units: bytes.
    """
    dtype = workload.dtype or next(iter(problem.dtypes), "float32")
    return _dims(problem, workload)[-1] * BYTES.get(dtype, 4)


def rows_in(problem: Problem, workload: Workload) -> int:
    """Give the number of rows of a workload's largest input."""
    return math.prod(_dims(problem, workload)[:-1])


def _dims(problem: Problem, workload: Workload) -> list[int]:
    sizes = dict(workload.sizes)
    inputs = ([int(d) if d.isdigit() else sizes[d] for d in spec.dims] for spec in problem.inputs)
    return max(([*dims] or [1] for dims in inputs), key=math.prod)
