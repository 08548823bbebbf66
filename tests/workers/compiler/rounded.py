"""Tells how far compiled candidates are from eager mode in a narrow dtype, element by element, in Triton's interpreter.

``python -m tests.workers.compiler.rounded CASES RESULTS``: both JSON files. A case is a problem's source, sizes, a dtype, the names
of inputs that are float32 nevertheless, and whether the candidate rounds as the reference; a result is, for each output and
gradient, the share of its elements that differ at all from eager mode's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from gpu_runner.contracts import Graph
from gpu_runner.contracts.envelope import from_json
from gpu_runner.contracts.problem import parse_problem
from tests.workers.compiler.interpreted import loaded
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal, SourceStyle


def style(rounds: bool) -> SourceStyle:
    """The style of a module that rounds as the reference, or of one that does not."""
    return SourceStyle("OwnFunction", "own_forward", "own_backward", "candidate", rounds_as_reference=rounds)


def shares(case: dict[str, Any]) -> list[float]:
    """The shares of elements that differ."""
    problem, graph = parse_problem(case["problem"]), from_json(Graph, case["graph"])
    proposal = CompilerAuthor().propose(Brief("own", problem, graph, style(case["rounds"])))
    assert isinstance(proposal, Proposal), proposal
    space: dict[str, Any] = {}
    exec(problem.source, space)  # the problem is a test's own
    dtype = getattr(torch, case["dtype"])
    torch.manual_seed(3)
    inputs = [torch.randn([int(d) if d.isdigit() else case["sizes"][d] for d in spec.dims]) for spec in problem.inputs]
    dtypes = [torch.float32 if spec.name in case["wide"] else dtype for spec in problem.inputs]

    def run(function: Any) -> list[torch.Tensor]:
        made = zip(inputs, dtypes, problem.inputs, strict=True)
        leaves = [x.to(d).requires_grad_(spec.grad) for x, d, spec in made]
        given = function(*leaves)
        outputs = [output.to(dtype) for output in (given if isinstance(given, tuple) else (given,))]
        torch.manual_seed(4)
        upstream = [torch.randn(output.shape).to(dtype) for output in outputs]
        return [*outputs, *torch.autograd.grad(outputs, [x for x in leaves if x.requires_grad], upstream)]

    eager, own = run(space["reference"]), run(loaded("own", proposal.source).candidate)
    return [float((a.to(b.dtype) != b).double().mean()) for a, b in zip(eager, own, strict=True)]


def main() -> None:
    """Run every case."""
    from gpu_runner.child.interpreter import teach_interpreter, teach_libdevice

    teach_interpreter()
    teach_libdevice()
    cases = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(json.dumps({key: shares(case) for key, case in cases.items()}))


if __name__ == "__main__":
    main()
