"""Compiled kernels on rows that hold NaN and infinities: maxima on a GPU pass NaN over, torch's do not."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_runner.context import RunContext
from gpu_runner.contracts import CandidateSource, CaptureRequest, SourceFile, Status, parse_problem
from gpu_runner.verify.cases import Content, plan_cases
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.judge import judge_by, prove
from tests.workers.compiler.captured import proposal
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal, SourceStyle

LARGEST = """import torch


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.amax(-1)


INPUTS = {"x": "T H"}
WORKLOADS = [{"T": 64, "H": 512}]
"""
PLAIN = ", propagate_nan=tl.PropagateNan.ALL"
ODD = 'float("nan"), '


@pytest.fixture(scope="module")
def largest() -> tuple[RunContext, str]:
    """The compiled kernel of the largest elements of rows."""
    from gpu_runner import capture

    context = RunContext(Path(tempfile.mkdtemp()))
    graph = capture.run(CaptureRequest(LARGEST), context).graph
    assert graph is not None
    style = SourceStyle("LargestFunction", "largest_forward", "largest_backward", "candidate")
    answer = CompilerAuthor().propose(Brief("largest", parse_problem(LARGEST), graph, style))
    assert isinstance(answer, Proposal), answer
    return context, answer.source


def judged(context: RunContext, source: str, columns: int) -> Status:
    """Judge a source on ordinary rows and on some that are not finite."""
    problem = parse_problem(LARGEST)
    planned = plan_cases(problem, ("float32",), problem.workloads, interpreted=True, quick=False, draws=Draws.fresh())
    ordinary = next(case for case in planned if case.content is Content.ordinary)
    odd = next(case for case in planned if case.content is Content.odd)
    cases = [ordinary, replace(odd, sizes=(("T", 8), ("H", columns)))]
    candidate = CandidateSource((SourceFile("candidate.py", source),))
    proofs, _ = prove(problem, cases, context)
    return judge_by(proofs, candidate, context).status


@pytest.mark.parametrize("columns", [65, 70_000])
def test_the_largest_element_of_a_row_with_nan_is_nan_in_one_block_and_in_several(
    largest: tuple[RunContext, str], columns: int
) -> None:
    assert judged(*largest, columns) is Status.passed


def test_a_maximum_that_passes_nan_over_is_refused_here_as_on_a_gpu(largest: tuple[RunContext, str]) -> None:
    context, source = largest
    lines = [line for line in source.split("\n") if ODD not in line]
    assert judged(context, "\n".join(lines), 65) is not Status.passed
    assert PLAIN in source
    assert judged(context, "\n".join(lines).replace(PLAIN, ""), 70_000) is not Status.passed


def test_where_exponentials_are_taken_about_the_maximum_nan_is_in_their_sum() -> None:
    assert ODD not in proposal("softmax").source
    assert ODD not in proposal("cross_entropy").source
