"""Which language an operator wants, by the control that its kernels need, and which of them can express it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_runner.contracts import Graph, Problem
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import AuthorRefusal, Brief, Proposal, SourceStyle

NAMES = {"gpu": "Triton", "cutile": "cuTile", "cutedsl": "CuTe DSL"}  # by target
OTHERS = ("cutile", "cutedsl")
# What kernels need control of, the target of the language that gives it, and why. Times are over Triton's in bfloat16.
# Measured: NVIDIA H200, docs/measurements/2026-11-30-tiles-beside-h200.md.
PRODUCTS = (
    "cutile",
    "`ct.mma` computes its products by tiles, and the compiler chooses warps, copies and pipelines",
)
SUMS = (
    "cutile",
    "the compiler has warps share its sums: norms and softmax took 1.0 to 1.4 times Triton's time in cuTile on an H200, and 1.2 "
    "to 1.5 times in CuTe DSL",
)
BLOCKS = (
    "cutile",
    "each result depends on one tile, so control of blocks is enough: SwiGLU took Triton's time in cuTile on an H200",
)


@dataclass(frozen=True)
class Suitability:
    """The target whose language an operator wants, `gpu` for Triton, and why."""

    target: str
    reason: str

    def sentence(self, to: str) -> str:
        """What is to be said of a kernel that is written for a target."""
        better = "" if self.target == to else " better"
        return f"{NAMES[self.target]} suits this operator{better}: {self.reason}."


def suitability(problem: Problem, graph: Graph) -> Suitability:
    """The language by what the compiler author's kernels of a problem need."""
    style = SourceStyle("Function", "forward", "backward")
    briefs = {to: Brief("kernel", problem, graph, replace(style, target=to)) for to in OTHERS}
    answers = {to: CompilerAuthor().propose(brief) for to, brief in briefs.items()}
    refused = {to: answer.sentence for to, answer in answers.items() if isinstance(answer, AuthorRefusal)}
    if len(refused) == len(OTHERS):
        return Suitability("gpu", f"the others cannot express it ({'; '.join(dict.fromkeys(refused.values()))})")
    target, reason = _wanted(graph, next(answer for answer in answers.values() if isinstance(answer, Proposal)))
    if target in refused:
        (target,) = answers.keys() - refused.keys()
        reason = f"the compiler author cannot write it in the other: {' '.join(refused.values())}"
    return Suitability(target, reason)


def _wanted(graph: Graph, proposal: Proposal) -> tuple[str, str]:
    if any(node.op == "matmul" for node in graph.nodes):
        return PRODUCTS
    return SUMS if proposal.plan.tier > 1 or proposal.plan.needs_sm_parallelism else BLOCKS
