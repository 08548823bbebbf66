"""Families of kernels, by what a program needs: a closed table, first match wins. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workers.authors.compiler.design import Design
from workers.authors.compiler.launches import Pass
from workers.authors.compiler.values import Value


@dataclass(frozen=True)
class Family:
    """A kind of program; ``tier`` is 1 for element-wise, 2 for reductions, 3 for fused ones."""

    name: str
    tier: int
    holds: Callable[[Design], bool]


def stages_of(design: Design) -> list[Pass]:
    """Give forward, and backward where there is one."""
    return [stage for stage in (design.forward, design.backward) if stage is not None]


def _values(design: Design) -> list[Value]:
    return [value for stage in stages_of(design) for value in stage.task.values]


def _reduces(design: Design, kind: str) -> bool:
    return any(value.op == "over_cols" and value.datum == kind for value in design.forward.task.values)


def _several_uses(design: Design) -> bool:
    full = [r for r in design.program.outputs if r.space.rows and r.space.cols]
    return len(full) > 1


FAMILIES = (
    Family("element-wise", 1, lambda design: all(stage.is_flat for stage in stages_of(design))),
    Family("softmax", 2, lambda design: _reduces(design, "max") and any(v.op == "exp" for v in _values(design))),
    Family(
        "fused row norm",
        3,
        lambda d: _several_uses(d) and _reduces(d, "sum") and any(v.op == "rsqrt" for v in _values(d)),
    ),
    Family("row norm", 2, lambda design: _reduces(design, "sum") and any(v.op == "rsqrt" for v in _values(design))),
    Family("row reduction", 2, lambda design: any(v.op in {"over_cols", "scan"} for v in _values(design))),
    Family("broadcast element-wise", 1, lambda design: True),
)


def family_of(design: Design) -> Family:
    """Give the family of a design."""
    return next(family for family in FAMILIES if family.holds(design))
