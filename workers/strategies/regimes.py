"""Which of the measured sizes an optimize job is to improve; the others must only not get worse. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpu_runner.contracts import Workload, WorkloadTiming
from workers.contracts import Part, Regime


def in_regime(rows: Sequence[WorkloadTiming], regime: Regime) -> tuple[WorkloadTiming, ...]:
    """Give the rows of the sizes that a regime speaks of; all of them where it speaks of none.

    Small and large are told apart at the geometric middle of the smallest and the largest product of dimensions.
    """
    if regime.part is None:
        return tuple(row for row in rows if set(regime.sizes) <= set(row.workload.sizes))
    products = [_product(row.workload) for row in rows]
    if len(set(products)) < 2:
        return tuple(rows)
    middle = math.sqrt(min(products) * max(products))
    small = regime.part is Part.small
    return tuple(row for row, product in zip(rows, products, strict=True) if (product < middle) == small)


def _product(workload: Workload) -> int:
    return math.prod(size for _, size in workload.sizes)
