"""Situations for strategies to decide by, without a GPU and without a repository."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_runner.contracts import (
    BenchmarkResult,
    Bound,
    Comparison,
    Graph,
    Pass,
    Timing,
    Word,
    Workload,
    WorkloadTiming,
    parse_problem,
)
from workers.authors.protocol import AuthorRefusal, Brief, Proposal, SourceStyle
from workers.contracts import Goal, Notes, Outcome, Scope, Variant
from workers.layouts.protocol import ExistingKernel
from workers.strategies.protocol import Situation
from workers.strategies.reading import read_source
from workers.tree import Tree

PROBLEM = """import torch


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * w


INPUTS = {"x": "T H", "w": {"dims": "H", "role": "parameter"}}
WORKLOADS = [{"T": 64, "H": 128}, {"T": 4096, "H": 4096}]
CALL = "ScaleFunction.apply(x, w, 0.0)"
"""


class Refuses:
    """An author who writes nothing."""

    name = "none"

    def propose(self, brief: Brief) -> Proposal | AuthorRefusal:
        """Refuse."""
        return AuthorRefusal(f"it cannot write {brief.name}.")


class Gives:
    """An author who gives what he was made with."""

    name = "given"

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal

    def propose(self, brief: Brief) -> Proposal | AuthorRefusal:
        """It."""
        assert brief.style.section, "an existing file gets a section"
        return self.proposal


def situation(text: str, author: Gives | Refuses | None = None, **changed: object) -> Situation:
    """A situation for one file."""
    prefix = "_fast_scale_"
    style = SourceStyle("ScaleFunction", f"{prefix}forward", f"{prefix}backward", section=True, prefix=prefix)
    values: dict[str, object] = {
        "kernel": ExistingKernel("scale", "ops/scale.py", "ops.scale", ("ScaleFunction",), None, None),
        "problem": parse_problem(PROBLEM),
        "graph": None,
        "source": text,
        "original": text,
        "reading": read_source("ops/scale.py", text),
        "benchmark": BenchmarkResult((), False, "Some GPU", 4000.0),
        "bounds": (),
        "goal": Goal.speed,
        "scope": Scope.general,
        "overwrites": (),
        "tree": Tree({"ops/scale.py": text.encode()}),
        "style": style,
        "author": author or Refuses(),
    }
    return Situation(**{**values, **changed})  # type: ignore[arg-type]


def row(
    sizes: dict[str, int],
    speedup: float = 1.0,
    spread: float = 0.01,
    timed_pass: Pass = Pass.full,
    memory: tuple[int, int] | None = None,
    floor_us: float | None = None,
) -> WorkloadTiming:
    """A row that compares a variant with v0, which takes 100 us; ``memory`` is v0's peak and the variant's."""
    compared = Comparison(
        "candidate", "original", speedup, speedup * (1 - spread), speedup * (1 + spread), Word.same, 9
    )
    peaks = memory or (None, None)
    timings = (
        Timing("original", 100.0, peak_bytes=peaks[0]),
        Timing("candidate", 100.0 / speedup, peak_bytes=peaks[1]),
    )
    workload = Workload(tuple(sizes.items()), "bfloat16")
    return WorkloadTiming(workload, timed_pass, timings, None, None, floor_us, comparisons=(compared,))


def variant(
    number: int,
    strategy: str,
    outcome: Outcome = Outcome.kept,
    score: float | None = None,
    parent: str = "v0",
    rows: Sequence[WorkloadTiming] = (),
) -> Variant:
    """A variant that was tried."""
    return Variant(f"v{number}", parent, strategy, strategy, Notes("", "", ""), outcome, score=score, rows=tuple(rows))


def graph_of_scale() -> Graph:
    """The graph of the problem above."""
    from gpu_runner.contracts import Expr, Node, NodeRef, TensorMeta

    rows_by_columns = TensorMeta((Expr("T"), Expr("H")), "float32")
    columns = TensorMeta((Expr("H"),), "float32")
    nodes = (
        Node("x", "input", (), rows_by_columns),
        Node("w", "input", (), columns),
        Node("y", "mul", (NodeRef("x"), NodeRef("w")), rows_by_columns),
        Node("dy", "upstream", (), rows_by_columns),
        Node("dx", "mul", (NodeRef("dy"), NodeRef("w")), rows_by_columns),
        Node("p", "mul", (NodeRef("dy"), NodeRef("x")), rows_by_columns),
        Node("dw", "sum", (NodeRef("p"), (0,), False), columns),
    )
    return Graph(nodes, ("x", "w"), ("y",), ("dy",), (("x", "dx"), ("w", "dw")))


UNKNOWN = Bound.unknown
