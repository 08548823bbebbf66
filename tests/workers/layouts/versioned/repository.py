"""A repository of the layout: two designs in Triton as `create` writes them, one in plain PyTorch as a person writes it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from gpu_runner.contracts import parse_problem
from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal
from workers.contracts import FileChange
from workers.layouts.protocol import Design
from workers.layouts.versioned.files import lacking
from workers.layouts.versioned.layout import VersionedLayout
from workers.tree import Tree

LAYOUT = VersionedLayout()
ROOT = "src/lab/kernel"
REGLU = f"{ROOT}/triton/ops/reglu"
START = Tree({"README.md": b"A laboratory.\n", "pyproject.toml": b"[tool.ruff]\nline-length = 120\n"})

# Two branches that need nothing of each other, then their product: plain PyTorch operators, so that it runs on any host.
GATED = f"{ROOT}/torch_ops/mlp/gated_sum"
GATED_SUM = '''\
"""The product of a gate and a scaled input, and its sum over a row."""

from dataclasses import dataclass, field

import torch

from lab.kernel.runtime import BenchmarkFn, ConcurrentKernels, KernelPipeline, KernelPlan, Tiling


@dataclass
class GatedSumTiling(Tiling):
    rows: int = 4

    def validate(self, pd: "GatedSumPlan") -> bool:
        return 0 < self.rows <= pd.T


def fit_together(gate: "GatedSumTiling", scale: "GatedSumTiling") -> bool:
    return gate.rows + scale.rows <= 16


def gated_sum(x, rows):
    return torch.cat([part.sigmoid() for part in x.split(rows)])


@dataclass
class GatedSumPlan(KernelPlan):
    T: int = 64
    H: int = 32
    dtype: torch.dtype = torch.float32
    tiling: GatedSumTiling = field(default_factory=GatedSumTiling)

    def prepare_inputs(self, device):
        return (torch.randn(self.T, self.H, device=device, dtype=self.dtype, requires_grad=True),)

    def reference_fn(self, x):
        return (x.sigmoid() * (2 * x)).sum(-1)

    def _algorithmic_flops_bytes(self, tiling):
        return 4 * self.T * self.H, 2 * self.T * self.H * self.dtype.itemsize

    def plan(self, x):
        gate = BenchmarkFn("gated_sum_gate", gated_sum, (x, self.tiling.rows), self.tiling)
        scale = BenchmarkFn("gated_sum_scale", lambda x: 2 * x, (x,), GatedSumTiling())
        both = ConcurrentKernels(_name="gated_sum_both", concurrent_kernels=[gate, scale], validate_joint_tiling_fn=fit_together)
        combine = BenchmarkFn("gated_sum_combine", lambda a, b: (a * b).sum(-1), (both.output(0), both.output(1)))
        return KernelPipeline(_name="gated_sum", stages=[both, combine])
'''


def design(name: str, tree: Tree, target: str = "gpu") -> Design:
    """A design as the compiler author leaves it."""
    problem, graph = captured(name)
    names = LAYOUT.names(name, problem, tree)
    style = replace(LAYOUT.style(name, names, tree), target=target)
    made = CompilerAuthor().propose(Brief(name, problem, graph, style, names))
    assert isinstance(made, Proposal), made
    return Design(name, names, parse_problem(problem.source), graph, made.plan, made.source, target)


@cache
def tree() -> Tree:
    """The repository."""
    made = START.overlaid(lacking("lab", START))
    for name in ("reglu", "rms_norm"):
        made = made.overlaid(LAYOUT.kernel_changes(design(name, made), made))
    packages = (f"{ROOT}/torch_ops", f"{ROOT}/torch_ops/mlp", GATED, f"{GATED}/gated_sum")
    by_hand = [FileChange(f"{folder}/__init__.py", "") for folder in packages]
    return made.overlaid((*by_hand, FileChange(f"{GATED}/gated_sum/gated_sum.py", GATED_SUM)))
