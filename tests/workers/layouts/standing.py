"""A miniature library in which kernels stand, with all that a job on them needs."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import Problem, parse_problem
from tests.workers.layouts import miniature
from tests.workers.layouts.designs import reglu, rms_scale
from workers.contracts import FileChange
from workers.layouts.liger.layout import LigerLayout
from workers.layouts.plain.layout import PlainLayout
from workers.layouts.protocol import Design, ExistingKernel
from workers.tree import Tree

LIGER = LigerLayout()
PLAIN = PlainLayout()
NORM = '''\
"""A norm."""
import torch


def reference(x: torch.Tensor, w: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


INPUTS = {"x": "T H", "w": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"T": 4096, "H": 4096}]
CALL = "LigerRMSNormFunction.apply(x, w, eps)"
'''


def with_file(tree: Tree, path: str, text: str | None) -> Tree:
    return tree.overlaid((FileChange(path, text),))


def liger() -> Tree:
    """The library with two kernels that were created in it."""
    tree = miniature.tree()
    for design in (reglu(), rms_scale()):
        tree = tree.overlaid(LIGER.kernel_changes(design, tree))
    return tree


def plain(*designs: Design) -> Tree:
    """A small library with kernels that were created in it."""
    tree = Tree({"README.md": b"hello"})
    for design in designs or (reglu(),):
        names = PLAIN.names(design.name, design.problem, tree)
        source = (design.source or "").replace(design.names.function or "", names.function or "")
        tree = tree.overlaid(PLAIN.kernel_changes(replace(design, names=names, source=source), tree))
    return tree


def norm() -> tuple[ExistingKernel, Problem]:
    """The library's own norm and a problem that calls it."""
    return LIGER.locate("rms_norm", liger()), parse_problem(NORM)
