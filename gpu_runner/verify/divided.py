"""Cases in which whole scalars divide sizes as other numbers than the problem's: one, two, an odd one, the size itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpu_runner.contracts.expressions import evaluate_expression
from gpu_runner.contracts.graph import Multiple
from gpu_runner.contracts.problem import Workload

Scalar = float | int | bool | str
# What the scalars are, and how many times the product of a rule goes into its dimension; for a quick look the first alone.
SETTINGS = ((5, 7), (1, 34), (2, 13), (12, 1))
ROWS, COLUMNS = 3, 19  # of the other dimensions: small, so that no budget halves a size that has to be a multiple


def divided(
    sizes: tuple[tuple[str, int], ...], rules: Sequence[Multiple], workload: Workload, *, quick: bool
) -> list[tuple[tuple[tuple[str, int], ...], tuple[tuple[str, Scalar], ...]]]:
    """Give sizes and scalars in which the rules hold; dimensions without a rule keep their ``sizes``."""
    names = dict.fromkeys(name for rule in rules for name in re.findall(r"[A-Za-z_]\w*", rule.of))
    found = []
    for value, times in SETTINGS[: 1 if quick else None] if rules else ():
        scalars: dict[str, Scalar] = dict(workload.scalars) | dict.fromkeys(names, value)
        of = {rule.dimension: int(evaluate_expression(rule.of, dict.fromkeys(names, value))) for rule in rules}
        moved = tuple((dim, of[dim] * times if dim in of else size) for dim, size in sizes)
        found.append((moved, tuple(scalars.items())))
    return found
