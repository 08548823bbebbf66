"""The roofline before anything runs: bytes and operations out of a captured graph."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner import peaks
from gpu_runner.contracts import Bound, Expr, Graph, Node, NodeRef, Pass, TensorMeta, Workload, parse_problem
from tests.problems import problem_source
from tests.workers.compiler.captured import captured
from workers.stages.headroom import (
    LAUNCH_BYTES,
    LAUNCH_US,
    MATRIX_RANGE,
    MOST_ROWS,
    VECTOR_RANGE,
    Counted,
    bounds_of,
    counted,
    lines,
)

SIZE = Workload((("T", 8),))


def by_pass(name: str) -> dict[Pass, Counted]:
    found = counted(*captured(name))
    return {row.timed_pass: row for row in reversed(found)}


def test_each_input_and_output_counts_once_as_the_runner_counts_them() -> None:
    """tests/gpu_runner/benchmark/test_predict.py holds the runner to the same numbers."""
    found = by_pass("reglu")
    assert found[Pass.forward].moved_bytes == 3 * 4096 * 14336 * 2
    assert found[Pass.backward].moved_bytes == 5 * 4096 * 14336 * 2
    assert found[Pass.forward].vector_flops == 2 * 4096 * 14336


def test_a_table_that_is_looked_up_in_need_not_be_read_as_a_whole_and_what_is_reduced_too_must() -> None:
    table, taken = (TensorMeta((Expr(rows), Expr("H")), "float32") for rows in ("V", "T"))
    nodes = (
        Node("table", "input", (), table),
        Node("index", "input", (), TensorMeta((Expr("T"),), "int64")),
        Node("y", "index_select", (NodeRef("table"), 0, NodeRef("index")), taken),
    )
    graph = Graph(nodes, ("table", "index"), ("y",), (None,), ())
    (forward, *_) = counted(parse_problem(problem_source("take_rows")), graph)
    assert forward.moved_bytes == 2 * (8192 * 4096 * 2) + 8192 * 8
    loss = captured("cross_entropy")
    sizes = dict(loss[0].workloads[0].sizes)
    assert counted(*loss)[0].moved_bytes == pytest.approx(sizes["T"] * sizes["V"] * 2, rel=0.01)


def test_a_loss_has_no_least_work_in_its_backward_pass_alone() -> None:
    assert set(by_pass("cross_entropy")) == {Pass.forward}


def test_products_count_two_operations_for_each_pair() -> None:
    problem, _ = captured("matmul")
    sizes = dict(problem.workloads[0].sizes)
    found = by_pass("matmul")[Pass.forward]
    assert (found.matrix_flops, found.vector_flops) == (2 * sizes["M"] * sizes["K"] * sizes["N"], 0)


def test_what_bounds_a_pass_is_said_where_it_holds_on_every_gpu_that_the_runner_knows() -> None:
    for gpu in peaks.GPUS.values():
        for bandwidth in (gpu.bandwidth_gbps, gpu.copy_gbps):
            assert VECTOR_RANGE[0] <= gpu.fp32_tflops * 1e3 / bandwidth <= VECTOR_RANGE[1]
            for dtype in ("float32", "bfloat16"):
                assert MATRIX_RANGE[0] <= peaks.matrix_tflops(gpu, dtype) * 1e3 / bandwidth <= MATRIX_RANGE[1]
        assert gpu.bandwidth_gbps * 1e3 * LAUNCH_US >= LAUNCH_BYTES


@pytest.mark.parametrize(
    ("moved", "matrix", "vector", "bound"),
    [
        (10**9, 0, 10**9, Bound.memory),
        (10**9, 0, 50 * 10**9, Bound.unknown),
        (10**9, 0, 200 * 10**9, Bound.compute),
        (10**9, 10**12, 0, Bound.compute),
        (10**9, 10**11, 0, Bound.unknown),
        (10**5, 0, 10**5, Bound.latency),
    ],
)
def test_few_operations_a_byte_are_bound_by_memory_and_many_by_themselves(
    moved: int, matrix: int, vector: int, bound: Bound
) -> None:
    assert Counted(SIZE, Pass.forward, moved, matrix, vector).bound is bound


def test_the_size_that_moves_most_says_what_bounds_a_pass() -> None:
    small, large = (Counted(SIZE, Pass.forward, moved, 0, 0) for moved in (100, 10**9))
    assert bounds_of((small, large)) == bounds_of((large, small)) == ((Pass.forward, Bound.memory),)


def test_counts_are_told_a_line_a_pass_and_size() -> None:
    problem, graph = captured("reglu")
    assert lines(counted(problem, graph)).splitlines()[0] == (
        "forward at T=4096 I=14336: at least 352321536 bytes, 117440512 operations; bound by memory"
    )
    many = replace(problem, workloads=problem.workloads * 30)
    assert len(lines(counted(many, graph)).splitlines()) == MOST_ROWS


@pytest.mark.parametrize("text", ["nobody * 2", "T +", "T ** 99", "(" * 5000, "1e308 * 10 * T", "T // 0", "f(T)"])
def test_of_a_size_that_is_no_arithmetic_nothing_is_claimed(text: str) -> None:
    problem, graph = captured("reglu")
    shape = TensorMeta((Expr(text),), "float32")
    odd = replace(graph, nodes=tuple(replace(n, meta=shape) if n.op == "relu" else n for n in graph.nodes))
    assert counted(problem, odd) == ()
