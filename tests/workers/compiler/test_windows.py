"""Convolutions and pools: what their graphs mean and how they are cut into steps."""

from __future__ import annotations

import pytest
import torch

from gpu_runner.contracts import Pass
from gpu_runner.contracts.graph import NodeRef
from gpu_runner.evaluate import evaluate
from tests.workers.compiler.captured import captured, proposal, style
from tests.workers.compiler.interpreted import loaded
from tests.workers.compiler.suited import graph_of
from workers.authors.compiler import CompilerAuthor
from workers.authors.compiler.graph import CannotCompileError, require_well_formed
from workers.authors.compiler.series import steps_of
from workers.authors.protocol import Brief, Proposal

SIZES = {
    "convolution": ({"N": 2, "C": 3, "H": 8, "W": 5, "O": 4}, {"N": 1, "C": 2, "H": 1, "W": 6, "O": 1}),
    "convolution_transposed": ({"N": 2, "C": 3, "L": 7, "O": 4}, {"N": 1, "C": 1, "L": 1, "O": 2}),
    "max_pool": ({"N": 2, "C": 3, "H": 8, "W": 5}, {"N": 1, "C": 1, "H": 3, "W": 2}),
}
CASES = [(name, sizes) for name, each in SIZES.items() for sizes in each]


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_a_graph_of_windows_means_what_torch_computes_at_any_size(name: str, sizes: dict[str, int]) -> None:
    problem, graph = captured(name)
    space: dict[str, object] = {}
    exec(problem.source, space)  # the problem is a test's own file
    torch.manual_seed(4)
    shapes = [[sizes[dim] if dim in sizes else int(dim) for dim in spec.dims] for spec in problem.inputs]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    out = space["reference"](*inputs)  # type: ignore[operator]
    upstream = torch.randn_like(out)
    gradients = torch.autograd.grad(out, inputs, upstream)
    given = {spec.name: x.detach() for spec, x in zip(problem.inputs, inputs, strict=True)}
    found = evaluate(graph, given, sizes, [upstream])
    torch.testing.assert_close(found.outputs[0], out.detach())
    for spec, gradient in zip(problem.inputs, gradients, strict=True):
        torch.testing.assert_close(found.gradients[spec.name], gradient)


def test_a_convolution_is_a_product_with_its_tail_and_its_gradients_are_products() -> None:
    problem, graph = captured("convolution")
    steps = steps_of(problem, graph, frozenset())
    found = [(step.timed, sum(node.op == "matmul" for node in step.graph.nodes)) for step in steps]
    assert found == [(Pass.forward, 1), (Pass.backward, 0), (Pass.backward, 1), (Pass.backward, 1)]
    stored = {ref for step in steps for ref in step.graph.outputs}
    assert not stored & {node.name for node in graph.nodes if node.op == "windows"}


def test_which_tap_is_the_largest_is_found_with_it_and_kept() -> None:
    problem, graph = captured("max_pool")
    steps = steps_of(problem, graph, frozenset())
    operators = {node.name: node.op for node in graph.nodes}
    assert [[operators[name] for name in step.graph.outputs] for step in steps] == [["amax", "argmax"], ["sum"]]


def test_the_sum_over_places_is_split_and_that_of_the_result_is_not() -> None:
    source = proposal("convolution").source
    assert "dw = _sum_partials(dw, dz.dtype)" in source and source.count("_splits(dz.device") == 1
    assert source.count("PRECISION=_window_precision(") == 3 and "get_float32_matmul_precision" not in source


@pytest.mark.slow
def test_an_image_is_rounded_once_and_what_is_loaded_in_blocks_in_the_loop() -> None:
    name = "convolution_2d_of_an_image"
    problem, graph, _ = graph_of(name)
    answer = CompilerAuthor().propose(Brief(name, problem, graph, style(name)))
    assert isinstance(answer, Proposal)
    assert "tl.dot(_nearest_tf32(conv_weight, PRECISION), x, product" in answer.source
    assert "_nearest_tf32(dy, PRECISION)" in answer.source
    module, x = loaded(name, answer.source), torch.randn(3, 1000) * torch.logspace(-30, 30, 1000)
    nearest = ((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32)
    assert torch.equal(module._rounded_once(x, "tf32"), nearest)
    assert module._rounded_once(x, "ieee") is x
    assert module._rounded_once(half := x.bfloat16(), "tf32") is half


def test_windows_of_another_form_than_the_capture_gives_are_refused() -> None:
    problem, graph = captured("max_pool")
    place = next(i for i, node in enumerate(graph.nodes) if node.op == "windows")
    node = graph.nodes[place]
    assert isinstance(node.args[0], NodeRef)
    for number, wrong in ((2, (3,)), (3, (0, 2)), (3, ("2", 2)), (6, (1, 0)), (8, 1), (0, 3), (1, 3)):
        args = (*node.args[:number], wrong, *node.args[number + 1 :])
        nodes = (*graph.nodes[:place], type(node)(node.name, node.op, args, node.meta), *graph.nodes[place + 1 :])
        with pytest.raises(CannotCompileError):
            require_well_formed(problem, type(graph)(**{**vars(graph), "nodes": nodes}))
