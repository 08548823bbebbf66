"""Graphs that one kernel does not express, or few programs would compute, are taken apart into steps of the same values."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import triton

from gpu_runner.contracts import Graph, Pass, Problem, Workload
from gpu_runner.evaluate import evaluate
from tests.workers.compiler.captured import captured, style
from tests.workers.compiler.suited import graph_of
from workers import byhand
from workers.authors.compiler import CompilerAuthor, nesting, series
from workers.authors.compiler.graph import CannotCompileError
from workers.authors.compiler.nesting import with_narrow_reductions, with_nested_reductions
from workers.authors.compiler.programs import in_series
from workers.authors.compiler.rounding import AsStored
from workers.authors.compiler.schedules.product import FEW_TILES, LONG_SUM, SPLITS
from workers.authors.compiler.series import steps_of
from workers.authors.protocol import AuthorRefusal, Brief, Proposal
from workers.layouts.liger import paths

LIGER_PROBLEMS = Path(paths.__file__).parent / "references"


def values_of(problem: Problem, graph: Graph, sizes: dict[str, int]) -> list[torch.Tensor]:
    """The outputs and gradients of a graph in float64."""
    draw = torch.Generator().manual_seed(5)

    def drawn(dims: tuple[str, ...]) -> torch.Tensor:
        return (
            torch.rand([int(d) if d.isdigit() else sizes[d] for d in dims], generator=draw, dtype=torch.float64) + 0.5
        )

    inputs = {spec.name: drawn(spec.dims) for spec in problem.inputs}
    scalars = {s.name: s.default for s in problem.scalars if isinstance(s.default, int | float)}
    first = evaluate(graph, inputs, sizes | scalars, lift=True)
    upstream = [torch.rand(out.shape, generator=draw, dtype=torch.float64) for out in first.outputs]
    found = evaluate(graph, inputs, sizes | scalars, upstream, lift=True)
    return [*found.outputs, *found.gradients.values()]


@pytest.mark.parametrize(("name", "about_means"), [("layer_norm_2d", True), ("frob", False), ("group_norm_2d", False)])
def test_reductions_in_two_give_what_one_gives(name: str, about_means: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph = captured(name)
    monkeypatch.setattr(nesting, "LONG_ROW", 1)
    monkeypatch.setattr(nesting, "MANY_ROWS", 1)
    monkeypatch.setattr(nesting, "FEW_ROWS", 10**9)
    nested = with_nested_reductions(problem, graph)
    inner = [node.name for node in nested.nodes if node.name.endswith(" inner")]
    assert inner
    assert any(node.name.endswith(" middle") for node in nested.nodes) == about_means
    sizes = dict(zip(problem.dimensions, (6, 8, 4, 10), strict=False))
    for one, other in zip(values_of(problem, graph, sizes), values_of(problem, nested, sizes), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("linear_cross_entropy", 1),  # the logits
        ("linear_capped_kl", 4),  # the logits, capped and not, and of those that are an input two functions
    ],
)
def test_the_forward_of_a_loss_stores_a_product_and_numbers_of_its_rows(name: str, most: int) -> None:
    problem, graph, _ = graph_of(name)
    programs = in_series(Brief(name, problem, graph, style(name)), frozenset())
    forward = [member.design.program.graph for member in programs.members if member.step_of is Pass.forward]
    stored = [node.meta for own in forward for node in own.nodes if node.name in own.outputs]
    logits = next(node.meta.shape for node in graph.nodes if node.op == "matmul")
    whole = [meta for meta in stored if meta.shape == logits]
    assert len(whole) == most
    assert {meta.dtype for meta in stored if meta not in whole} == {"float32"}


def test_a_sum_that_many_programs_share_anyway_is_left_alone() -> None:
    problem, graph = captured("mse")
    large = replace(problem, workloads=(Workload(tuple((name, 2**14) for name in problem.dimensions)),))
    assert with_nested_reductions(large, graph) is graph


def test_sums_of_what_was_expanded_are_taken_before() -> None:
    _, graph, _ = graph_of("linear_row_sum")
    narrow = with_narrow_reductions(graph)
    operands = {node.name: node.operands for node in narrow.nodes}
    operators = {node.name: node.op for node in narrow.nodes}
    reduced = [name for name, operator in operators.items() if operator == "sum"]
    assert not any(operators[operand] == "expand" for name in reduced for operand in operands[name])
    assert len(narrow.nodes) > len(graph.nodes)


def test_statistics_that_every_element_uses_again_are_steps_of_their_own() -> None:
    problem, graph, _ = graph_of("batch_norm_softmax")
    programs = in_series(Brief("norm", problem, graph, style("norm")), frozenset())
    forward = [member.design.program.graph.outputs for member in programs.members if member.step_of is Pass.forward]
    assert len(forward) == 2
    assert forward[-1] == graph.outputs


def test_what_a_step_stored_is_rounded_where_another_computes_it_again() -> None:
    problem, graph, _ = graph_of("linear_swish_group_norm")
    narrow = frozenset(rounding.node for rounding in graph.rounded)

    def fits(step: object) -> bool:
        return True

    steps = steps_of(problem, replace(graph, rounded=()), narrow, fits)
    stored = {name for step in steps for name in step.graph.outputs}
    again = {rounding.node for step in steps for rounding in step.graph.rounded}
    assert again
    assert again <= stored
    assert all(isinstance(rounding, AsStored) for step in steps for rounding in step.graph.rounded)


def test_a_long_product_of_few_tiles_is_split_and_others_are_not() -> None:
    problem, graph = captured("matmul")
    names = problem.dimensions

    def source(size: int, inner: int) -> str:
        spec = problem.inputs[0]
        sizes = {name: inner if name == spec.dims[-1] else size for name in names}
        sized = replace(problem, workloads=(Workload(tuple(sizes.items())),))
        answer = CompilerAuthor().propose(Brief("product", sized, graph, style("product")))
        assert isinstance(answer, Proposal)
        return answer.source

    assert "n_splits" in source(256, LONG_SUM)
    assert "n_splits" not in source(256, LONG_SUM // 2)
    assert "n_splits" not in source(64 * FEW_TILES, 2**14)


def test_parts_of_a_sum_are_all_turns_once_also_where_there_are_no_tiles() -> None:
    space: dict[str, Any] = {"torch": torch, "triton": triton}
    exec(SPLITS, space)  # a function of the emitted modules
    cpu = torch.device("cpu")
    for n_tiles, n_turns in itertools.product((0, 1, 3, 100), (0, 1, 2, 7, 64, 1000)):
        n_splits, turns = space["_splits"](cpu, n_tiles, n_turns, 32 * n_turns)
        assert (n_splits - 1) * turns < max(1, n_turns) <= n_splits * turns
    assert space["_splits"](cpu, 1, 64, 64 * 32) == (8, 8)
    assert space["_splits"](cpu, 8, 64, 64 * 32) == (1, 64)


def test_a_graph_that_no_way_expresses_is_refused_with_the_first_sentence() -> None:
    problem, graph = captured("every_other")
    with pytest.raises(CannotCompileError):
        in_series(Brief("every_other", problem, graph, style("every_other")), frozenset())
    answer = CompilerAuthor().propose(Brief("every_other", problem, graph, style("every_other")))
    assert isinstance(answer, AuthorRefusal)
    assert answer.operator == "slice"


def test_a_model_of_many_layers_is_taken_apart_with_few_looks_at_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, graph, _ = graph_of("separable_layers")
    monkeypatch.setattr(series, "MOST_LOOKED_AT", 14 * len(graph.nodes))
    proposal = CompilerAuthor().propose(Brief("layers", problem, graph, style("layers")))
    assert isinstance(proposal, Proposal)


def test_steps_that_compute_the_same_of_the_same_sizes_share_their_kernels() -> None:
    problem, graph, _ = graph_of("separable_layers")
    proposal = CompilerAuthor().propose(Brief("layers", problem, graph, style("layers")))
    assert isinstance(proposal, Proposal)
    called = re.findall(r"= (_layers_launch_\w+)\(", proposal.source)
    assert len(set(called)) < len(called) - 6
    assert all(proposal.source.count(f"def {name}(") == 1 for name in called)


def test_a_row_is_reduced_once_for_all_that_follows() -> None:
    problem, graph, _ = graph_of("linear_least_biased")
    proposal = CompilerAuthor().propose(Brief("least", problem, graph, style("least")))
    assert isinstance(proposal, Proposal)
    (least,) = re.findall(r"^    (h\w*) = min\(.*\)$", proposal.source, re.MULTILINE)
    assert re.search(rf"^    y = {least} \+ bias$", proposal.source, re.MULTILINE)


def test_steps_that_read_the_same_and_fit_together_are_one() -> None:
    """The gradients of a scale for each sample are sums down its rows; all else of backward is a kernel of rows."""
    source = (LIGER_PROBLEMS / "modulated_rms_norm.py").read_text(encoding="utf-8")
    compiled = byhand.compile_problem(source, "norm").source
    assert compiled is not None
    kernels = re.findall(r"^def (_norm_backward_\w+_kernel)\(", compiled, re.MULTILINE)
    together = next(name for name in kernels if "dx_ptr," in compiled.split(f"def {name}(")[1].split("):")[0])
    assert len(kernels) == 2
    assert "dw_partials_ptr," in compiled.split(f"def {together}(")[1].split("):")[0]
