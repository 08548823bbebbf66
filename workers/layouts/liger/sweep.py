"""Which of a problem's dimensions a benchmark script sweeps, and where the sizes of the others come from. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_runner.contracts import Problem
from workers.layouts.dimensions import MODEL_KEYS, Axes, axes_of
from workers.layouts.liger.paths import MODEL_CONFIGS
from workers.tree import Tree

TOKEN_DIMENSIONS = ("T", "BT", "S", "L", "N", "M", "tokens", "seq_len", "rows")
SMALLEST_MODEL_SIZE = 512  # a head dimension or a group size is no model's hidden size
BY_HAND_SIZES = (1024, 2048, 4096, 8192)


@dataclass(frozen=True)
class Sweep:
    """``swept`` grows; each of ``models`` comes from the model's configuration; each of ``fixed`` has one size."""

    axes: Axes
    swept: str  # a dimension
    models: tuple[tuple[str, str], ...]  # dimension -> field of the model's configuration
    fixed: tuple[tuple[str, int], ...]  # dimension -> size of the first workload

    @property
    def scale(self) -> str:
        """Give the library's word for what is swept: BT for all tokens, T where another dimension stands beside them."""
        return "T" if any(dim in self.axes.rows for dim, _ in self.fixed) else "BT"

    @property
    def label(self) -> str:
        """Give the label of the x axis."""
        return "sequence length" if self.scale == "T" else "total tokens"


def sweep_of(problem: Problem, tree: Tree) -> Sweep:
    """Give the sweep of a problem; a dimension belongs to a model by its name, or by a size that a known model has."""
    axes = axes_of(problem)
    sizes = dict(problem.workloads[0].sizes) if problem.workloads else {}
    rows = sorted(axes.rows, key=lambda dim: (dim not in TOKEN_DIMENSIONS, -sizes.get(dim, 0)))
    swept = rows[0] if rows else axes.columns or ""
    known = model_sizes(tree)
    models: list[tuple[str, str]] = []
    fixed: list[tuple[str, int]] = []
    for dim in axes.all:
        if dim == swept:
            continue
        key = _model_key(axes.variable(dim), sizes.get(dim, 0), known, dim == axes.columns)
        if key is not None:
            models.append((dim, key))
        else:
            fixed.append((dim, sizes.get(dim, 1)))
    return Sweep(axes, swept, tuple(models), tuple(fixed))


def model_sizes(tree: Tree) -> dict[str, frozenset[int]]:
    """Give the sizes that the library's model configurations have, by field."""
    text = tree.read(MODEL_CONFIGS) or ""
    return {key: frozenset(int(n) for n in re.findall(rf"\b{key}=(\d+)", text)) for key in MODEL_KEYS}


def from_models(problem: Problem, sweep: Sweep, tree: Tree) -> dict[str, str]:
    """Say of each dimension whose size no model of the library has that the benchmark takes a model's instead."""
    sizes, known = dict(problem.workloads[0].sizes) if problem.workloads else {}, model_sizes(tree)
    return {dim: f"{key} of the model" for dim, key in sweep.models if known[key] and sizes.get(dim) not in known[key]}


def _model_key(variable: str, size: int, known: dict[str, frozenset[int]], is_columns: bool) -> str | None:
    if size < SMALLEST_MODEL_SIZE:
        return None
    if variable in MODEL_KEYS:
        return variable
    by_size = [key for key in MODEL_KEYS if size in known[key]]
    if by_size:
        return by_size[0]
    return "hidden_size" if is_columns else None
