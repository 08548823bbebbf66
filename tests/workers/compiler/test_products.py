"""Products: which steps a problem is cut into, and that the whole verdict passes what is emitted for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpu_runner.contracts import CandidateSource, Pass, SourceFile, Status, VerifyRequest
from gpu_runner.contracts.graph import Expr, Node, NodeRef, TensorMeta
from gpu_runner.verify.judge import judge
from tests.cheats.trial import surroundings
from tests.few import few
from tests.workers.compiler.captured import captured, proposal
from tests.workers.compiler.described import emitted
from tests.workers.compiler.processes import interpreted
from workers.authors.compiler.attention import with_chains
from workers.authors.compiler.series import kept_numbers, steps_of


def cut(name: str) -> list[tuple[Pass, list[str], int]]:
    """Of each step: its pass, the operators of its outputs, and how many products it holds."""
    problem, graph = captured(name)
    steps = steps_of(problem, graph, frozenset(rounding.node for rounding in graph.rounded))
    found = []
    for step in steps:
        operators = {node.name: node.op for node in step.graph.nodes}
        products = sum(node.op == "matmul" for node in step.graph.nodes)
        found.append((step.timed, [operators[name] for name in step.graph.outputs], products))
    return found


def test_what_follows_from_a_product_element_by_element_is_of_its_step() -> None:
    assert cut("linear_gelu")[0] == (Pass.forward, ["add", "mul"], 1)
    assert cut("linear_residual")[0] == (Pass.forward, ["add"], 1)


def test_a_reduction_of_a_product_is_a_step_of_its_own() -> None:
    forward = [step for step in cut("matmul_softmax") if step[0] is Pass.forward]
    assert [products for _, _, products in forward] == [1, 0]


def test_a_cheap_gradient_is_computed_in_the_blocks_of_both_products() -> None:
    backward = [step for step in cut("relu_residual") if step[0] is Pass.backward]
    assert [products for _, _, products in backward] == [1, 1]


def test_a_gradient_that_is_summed_or_costly_is_stored_once() -> None:
    backward = [step for step in cut("linear_gelu") if step[0] is Pass.backward]
    assert [products for _, _, products in backward] == [0, 1, 1]


def test_a_product_is_stored_alone_where_several_tensors_would_follow_from_it() -> None:
    backward = [step for step in cut("norm_linear") if step[0] is Pass.backward and step[2]]
    assert [outputs for _, outputs, _ in backward] == [["matmul"], ["matmul"]]


def test_the_scores_of_attention_are_never_stored() -> None:
    problem, graph = captured("causal_attention")
    graph, chains = with_chains(graph, apart=False)
    steps = steps_of(problem, graph, frozenset(rounding.node for rounding in graph.rounded), chains=chains)
    assert [(step.timed, sum(node.op == "matmul" for node in step.graph.nodes)) for step in steps] == [
        (Pass.forward, 2),
        (Pass.backward, 0),
        (Pass.backward, 3),
        (Pass.backward, 4),
    ]
    shapes = {node.name: node.meta.shape for step in steps for node in step.graph.nodes}
    stored = [shapes[name] for step in steps for name in step.graph.outputs]
    assert all(shape.count(Expr("T")) == 1 for shape in stored), stored
    assert kept_numbers(chains).keys() >= {*steps[0].graph.outputs} - {*graph.outputs}


def test_scores_that_are_asked_for_are_no_chain() -> None:
    _, graph = captured("causal_attention")
    probabilities = next(node.name for node in graph.nodes if node.op == "div")
    shown = replace(graph, outputs=(*graph.outputs, probabilities), upstream=(*graph.upstream, None))
    assert with_chains(shown, apart=False)[1] == {}
    summed = Node("summed", "sum", (NodeRef(probabilities), (0, 1), True), TensorMeta((1,), "float32"))
    assert with_chains(replace(graph, nodes=(*graph.nodes, summed)), apart=False)[1] == {}


def test_a_causal_mask_bounds_the_loop_and_only_cuts_its_last_blocks() -> None:
    source = proposal("causal_attention").source
    assert "end = max(0, min(n_inner, (tile + 1) * BLOCK_M))" in source
    assert "begin = max(0, tile * BLOCK_M) // BLOCK_N * BLOCK_N" in source


def test_operands_are_read_by_their_strides() -> None:
    source = proposal("matmul_transposed").source
    assert "a_stride_row" in source and "a.stride(-1)" in source
    assert ".t()" not in source and ".contiguous()" not in source.partition("class ")[0].partition("@triton.jit")[2]


def test_float32_is_multiplied_as_torch_has_it_set() -> None:
    source = proposal("matmul").source
    assert "torch.get_float32_matmul_precision()" in source and "input_precision=PRECISION" in source


def test_float32_is_multiplied_by_tensor_cores_where_operands_lie_along_what_is_summed_over() -> None:
    linear, product = proposal("linear_gelu").source, proposal("matmul").source
    forward = linear.partition("def _linear_gelu_launch_z")[2].partition("\ndef ")[0]
    assert "PRECISION=_exact_precision(" in forward and "_laid(" not in forward and '"tf32x3"' in linear
    launch = product.partition("def _matmul_launch_")[2].partition("\ndef ")[0]
    assert "PRECISION=_precision(" in launch and "_laid(" not in launch


@pytest.mark.parametrize("rows", [2048, 2047])
def test_an_operand_is_laid_along_what_is_summed_over_where_it_is_read_often(rows: int) -> None:
    launch = launch_of_matmul(M=rows, K=64, N=2048)
    assert (" = _laid(" in launch) == ("_exact_precision(" in launch) == (rows == 2048)


def test_rows_that_begin_anywhere_are_copied_to_aligned_ones() -> None:
    assert "x = _aligned(x)" in launch_of_matmul(M=2051, K=1003, N=4096)
    assert "w = _aligned(w)" in launch_of_matmul(M=2051, K=1008, N=4099)
    assert "_aligned(" not in launch_of_matmul(M=2051, K=1008, N=4096)
    assert "_aligned(" not in launch_of_matmul(M=51, K=1003, N=4099)


def test_indices_reach_the_padding_of_copied_rows() -> None:
    assert "64 * (n_rows + n_cols + n_inner) + 2," in launch_of_matmul(M=2051, K=1003, N=4096)
    assert "n_rows * n_cols + 2," in launch_of_matmul(M=51, K=1003, N=4096)


def launch_of_matmul(dtype: str | None = None, **sizes: int) -> str:
    """The launcher of a product whose workload has these sizes."""
    return emitted("matmul", sizes, dtype).partition("def _matmul_launch_")[2].partition("\ndef ")[0]


def test_rows_that_descriptors_take_are_not_copied() -> None:
    assert "_aligned(" not in launch_of_matmul("bfloat16", M=4104, K=4008, N=5000)
    assert "_aligned(" in launch_of_matmul("bfloat16", M=4104, K=4004, N=5000)
    assert "_aligned(" in launch_of_matmul(M=4104, K=4008, N=5000)


def test_large_products_of_halves_are_read_by_descriptors() -> None:
    assert "_described(" in launch_of_matmul("bfloat16", M=2048, K=64, N=2048)
    assert "_described(" not in launch_of_matmul("float32", M=2048, K=64, N=2048)
    assert "_described(" not in launch_of_matmul("bfloat16", M=2048, K=64, N=2047)
    assert "_described(" not in emitted("bmm", {"B": 4, "M": 2048, "K": 64, "N": 2048})


LARGE = {"M": 2048, "K": 2048, "N": 2048}
LINEAR = {"B": 2, "T": 1024, "I": 2048, "O": 2048}
DESCRIBED: dict[str, tuple[str, dict[str, int], dict[str, int], str]] = {
    "even": ("matmul", LARGE, {"M": 264, "K": 72, "N": 520}, "bfloat16"),
    "odd": ("matmul", LARGE, {"M": 33, "K": 17, "N": 9}, "bfloat16"),
    "float32": ("matmul", LARGE, {"M": 40, "K": 16, "N": 24}, "float32"),
    "transposed": ("matmul_transposed", LARGE, {"M": 136, "K": 72, "N": 24}, "float16"),
    "linear": ("linear_gelu", LINEAR, {"B": 3, "T": 5, "I": 24, "O": 40}, "bfloat16"),
    "copied": (
        "linear_gelu",
        LINEAR | {"T": 1025, "I": 2003, "O": 2051},
        {"B": 3, "T": 5, "I": 21, "O": 37},
        "float16",
    ),
    "nothing to sum": ("matmul", {"M": 2051, "K": 1003, "N": 2049}, {"M": 5, "K": 0, "N": 3}, "bfloat16"),
}


def test_products_by_descriptors_and_by_pointers_are_right(tmp_path: Path) -> None:
    found = interpreted("described", DESCRIBED, tmp_path)
    assert {key: complaints for key, (complaints, _) in found.items() if complaints} == {}
    outcomes = {key: set(taken) for key, (_, taken) in found.items()}
    by_pointers = {"odd", "float32"}
    assert outcomes == {key: {key not in by_pointers} for key in DESCRIBED}


def test_float32_is_rounded_to_the_nearest_that_tensor_cores_take(tmp_path: Path) -> None:
    draws = np.random.default_rng(5)
    special = [
        0x7F800000,
        0xFF800000,
        0x7FFFFFFF,
        0xFFFFFFFF,
        0x7F800001,
        0x7F7FFFFF,
        0,
        1 << 31,
        0x3F800FFF,
        0x3F801000,
    ]
    bits = np.concatenate([special, draws.integers(1 << 23, 1 << 32, 1024 - len(special))]).astype(np.uint32)
    given = bits.view(np.int32).tolist()
    half = draws.integers(-(1 << 15), 1 << 15, 1024).tolist()
    cases = {"tf32": ("float32", "tf32", given), "ieee": ("float32", "ieee", given), "half": ("bfloat16", "tf32", half)}
    found = interpreted("nearest", cases, tmp_path)
    assert found["ieee"] == given and found["half"] == half
    nearest = np.array(found["tf32"], dtype=np.int32)
    nan, small = np.isnan(bits.view(np.float32)), (bits & 0x7F800000) == 0
    assert np.isnan(nearest.view(np.float32)[nan]).all()
    expected = ((bits.astype(np.uint64) + 0x1000) & 0xFFFFE000).astype(np.uint32)
    assert (nearest.view(np.uint32) == expected)[~nan & ~small].all()
    assert (np.abs(nearest.view(np.float32)[small]) < 2.0**-125).all()  # numbers without an exponent are cut


JUDGED = ("linear_gelu", "matmul", "linear_residual", "bmm", "matmul_softmax", "relu_residual", "norm_linear")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "quick"), few([*((name, False) for name in JUDGED), (JUDGED[0], True)], [(JUDGED[0], True)])
)
def test_the_verdict_passes(name: str, quick: bool) -> None:
    candidate = CandidateSource((SourceFile("candidate.py", proposal(name).source),))
    verdict = judge(VerifyRequest(captured(name)[0].source, candidate, quick=quick), surroundings())
    assert verdict.status is Status.passed, verdict.evidence
