"""A call whose result a size divides takes the kernels of the call that it divides."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gpu_runner.capture import run
from gpu_runner.context import RunContext
from gpu_runner.contracts import CaptureRequest, Graph, NodeRef, Problem, parse_problem
from tests.workers.compiler.captured import captured
from workers.authors.compiler import CompilerAuthor
from workers.authors.protocol import Brief, Proposal
from workers.targets.ascend import ASCEND
from workers.targets.scaling import host_source, unscaled


def call(kernel: str, name: str, scratch: Path) -> tuple[Problem, Graph]:
    source = files("workers.layouts.liger").joinpath("variants", kernel, f"{name}.py").read_text("utf-8")
    graph = run(CaptureRequest(source), RunContext(scratch)).graph
    assert graph is not None
    return parse_problem(source), graph


def written(problem: Problem, graph: Graph) -> str:
    proposal = CompilerAuthor().propose(Brief("loss", problem, graph, ASCEND.style("loss")))
    assert isinstance(proposal, Proposal)
    return proposal.source


@pytest.mark.parametrize(
    ("kernel", "first", "others"),
    [
        ("kl_div", "sum", {"mean": "y_pred.numel()", "batchmean": "y_pred.shape[0]"}),
        ("tvd", "batchmean_labels", {"mean_labels": "p.shape[-1]"}),
    ],
)
def test_reductions_that_differ_in_a_size_have_the_same_kernels(
    kernel: str, first: str, others: dict[str, str], tmp_path: Path
) -> None:
    own, graph = call(kernel, first, tmp_path)
    assert unscaled(graph) == (graph, "") and host_source("", own) == ""
    for name, source in others.items():
        problem, other = call(kernel, name, tmp_path)
        rest, size = unscaled(other)
        assert written(problem, rest) == written(own, graph)
        assert host_source(size, problem) == source


def test_a_result_that_is_rounded_keeps_its_division() -> None:
    _, graph = captured("mse")
    assert graph.output_dtypes == ("bfloat16",), "a sum of it could be beyond what the dtype holds"
    assert unscaled(graph) == (graph, "")


def test_a_gradient_that_is_not_divided_everywhere_keeps_its_division() -> None:
    _, known = captured("mse")
    graph = replace(known, output_dtypes=("float32",))
    assert unscaled(graph)[1] == "T * H"
    (upstream,) = graph.upstream
    assert upstream is not None
    last = graph.nodes[-1]
    undivided = replace(last, name="more", op="mul", args=(NodeRef(last.name), NodeRef(upstream)))
    assert unscaled(replace(graph, nodes=(*graph.nodes, undivided)))[1] == ""
