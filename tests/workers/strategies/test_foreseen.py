"""What the catalog says of a kernel that nobody has written yet, by its problem and graph alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import Bound, Graph, Node, NodeRef, Pass, Problem, TensorMeta, parse_problem
from tests.workers.compiler.captured import captured
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import situation
from workers.contracts import PlannedStrategy
from workers.strategies.evidence import (
    forward_nodes,
    has_products,
    kept_for_backward,
    looked_up,
    reduces_rows,
    shared_by_rows,
)
from workers.strategies.order import ordered
from workers.strategies.protocol import Situation, Stands

MEMORY = ((Pass.forward, Bound.memory), (Pass.backward, Bound.memory))


def unwritten(name: str, bounds: tuple[tuple[Pass, Bound], ...] = MEMORY, sizes: str | None = None) -> Situation:
    problem, graph = captured(name)
    if sizes is not None:
        source = problem.source.partition("WORKLOADS")[0] + f"WORKLOADS = {sizes}\n"
        problem = parse_problem(source)
    plain = situation(ROW_SCALE, problem=problem, graph=graph, bounds=bounds)
    return replace(plain, source="", original="", stands=Stands.nothing)


def planned(given: Situation) -> dict[str, PlannedStrategy]:
    return {found.strategy: found for found in ordered(given)}


def test_short_rows_that_are_reduced_go_several_to_a_program() -> None:
    short = planned(unwritten("softmax", sizes='[{"T": 64, "V": 256}, {"T": 64, "V": 100000}]'))
    assert short["several_rows"].trigger == (
        "One short row a program: 1 of 2 sizes have rows of at most 1024 bytes, and each is reduced by itself."
    )
    assert short["several_rows"].gain_high == pytest.approx(1.3)
    assert "several_rows" not in planned(unwritten("softmax", sizes='[{"T": 64, "V": 100000}]'))
    assert "several_rows" not in planned(unwritten("reglu", sizes='[{"T": 64, "I": 256}]')), "its rows mean nothing"


def test_wide_rows_that_are_reduced_are_gone_through_in_pipelined_blocks() -> None:
    wide = planned(unwritten("softmax", sizes='[{"T": 64, "V": 256}, {"T": 64, "V": 100000}]'))
    assert wide["pipelined_loops"].trigger.startswith("1 of 2 sizes have rows of more than 65536 bytes")
    assert "pipelined_loops" not in planned(unwritten("softmax", sizes='[{"T": 64, "V": 256}]'))


def test_many_rows_that_share_a_weight_go_through_a_loop() -> None:
    assert "`weight`" in planned(unwritten("rms_norm"))["persistent_loop"].trigger
    assert "persistent_loop" not in planned(unwritten("rms_norm", sizes='[{"B": 1, "T": 8, "H": 4096}]'))
    assert "persistent_loop" not in planned(unwritten("softmax")), "its rows share nothing"


@pytest.mark.parametrize("strategy", ["recompute", "eviction_hints"])
def test_what_saves_bytes_is_told_where_memory_bounds_the_kernel(strategy: str) -> None:
    assert strategy in planned(unwritten("rms_norm"))
    for other in (Bound.compute, Bound.latency, Bound.unknown):
        bounds = ((Pass.forward, other), (Pass.backward, other))
        assert strategy not in planned(unwritten("rms_norm", bounds))


def test_what_only_a_text_or_a_kernel_of_the_library_shows_is_never_foreseen() -> None:
    for name in ("rms_norm", "softmax", "reglu", "matmul", "cross_entropy"):
        found = set(planned(unwritten(name)))
        assert not found & {
            "parameter_sweep",
            "compiled_fast_path",
            "fast_path_by_size",
            "model_change",
            "constant_sizes",
        }


def test_of_a_product_rows_are_no_unit() -> None:
    assert planned(unwritten("matmul")) == {}
    assert has_products(captured("matmul")[1]) and not has_products(captured("softmax")[1])


def test_a_start_brings_what_its_text_shows_and_nothing_that_is_for_a_kernel_of_the_library() -> None:
    start = replace(situation(ROW_SCALE), stands=Stands.start)
    assert [p.strategy for p in ordered(start)] == [
        p.strategy for p in ordered(situation(ROW_SCALE)) if p.strategy != "parameter_sweep"
    ]
    triggers = " ".join(p.trigger for p in ordered(start))
    assert triggers and "measured sizes" not in triggers


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("softmax", True),
        ("sort", True),
        ("running_sum", True),
        ("reglu", False),
        ("layer_scale", False),
        ("matmul", False),
    ],
)
def test_reductions_along_the_last_dimension_make_rows(name: str, rows: bool) -> None:
    assert reduces_rows(captured(name)[1]) is rows


def test_what_backward_needs_of_forward_is_seen_through_casts_and_outputs_do_not_count() -> None:
    assert kept_for_backward(*captured("reglu")) == ("relu",)
    assert kept_for_backward(*captured("rms_norm")) == ("mul",)
    assert kept_for_backward(*captured("softmax")) == (), "the output is there anyway"
    assert kept_for_backward(*captured("matmul")) == ()


def test_inputs_that_every_row_reads_lack_its_leading_dimensions() -> None:
    assert shared_by_rows(captured("layer_norm")[0]) == ("weight", "bias")
    assert shared_by_rows(captured("reglu")[0]) == ()
    vector: Problem = replace(captured("layer_norm")[0], inputs=captured("layer_norm")[0].inputs[1:])
    assert shared_by_rows(vector) == ()


def test_a_graph_that_goes_in_a_circle_or_names_nobody_is_read_to_its_end() -> None:
    """It comes from the process that ran the problem, and may be anything."""
    form = TensorMeta((4,), "float32")
    nodes = (
        Node("x", "input", (), form),
        Node("a", "cast", (NodeRef("b"),), form),
        Node("b", "cast", (NodeRef("a"),), form),
        Node("c", "mul", (NodeRef("nobody"), NodeRef("a")), form),
    )
    graph = Graph(nodes, ("x", "gone"), ("a", "nowhere"), (None,), (("x", "c"), ("gone", "lost")))
    problem = captured("reglu")[0]
    assert [node.name for node in forward_nodes(graph)] == ["a", "b"]
    assert (kept_for_backward(problem, graph), looked_up(graph), reduces_rows(graph)) == ((), frozenset(), False)
