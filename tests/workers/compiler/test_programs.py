"""Problems whose parts share no computation: kernels of their own behind the same two functions."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import replace

from gpu_runner.contracts import Workload
from tests.workers.compiler.captured import captured, proposal
from tests.workers.compiler.formed import formed, section_style
from workers.authors.compiler import CompilerAuthor
from workers.authors.compiler.programs import components_of
from workers.authors.compiler.statements import fitted, wrapped
from workers.authors.protocol import Brief, Limit, Proposal


def test_heads_of_queries_and_keys_are_two_components_that_share_what_they_load() -> None:
    parts = components_of(*captured("rope_heads"))
    assert [part.graph.inputs for part in parts] == [("q", "cos", "sin"), ("k", "cos", "sin")]
    assert [part.outputs for part in parts] == [(0,), (1,)]


def test_scalars_go_to_the_components_that_use_them() -> None:
    parts = components_of(*captured("norms_of_two"))
    assert [part.problem.parameters for part in parts] == [("q", "v", "eps"), ("k", "u", "eps", "scale")]


def test_outputs_that_share_computation_are_one_component() -> None:
    for name in ("add_rms_norm", "reglu", "sum_and_product"):
        assert len(components_of(*captured(name))) == 1


def test_what_a_component_saves_has_a_name_that_no_other_has() -> None:
    signature = formed("norms_of_two", section_style("norms_of_two")).signature
    assert signature is not None
    assert signature.saved == ("rstd", "rstd_2")
    assert set(signature.saved) <= set(signature.backward_arguments)


def test_each_gradient_takes_the_memory_of_its_own_upstream_gradient() -> None:
    source = formed("rope_heads", section_style("rope_heads"), ("upstream 0", "upstream 1")).source
    assert "dx = dy.detach()  # every element of dy is read before it is written" in source
    assert "dq takes the memory of dy_0. dk takes the memory of dy_1." in source


def test_where_one_part_may_overwrite_and_another_may_not_each_has_functions_of_its_own() -> None:
    source = formed("rope_heads", section_style("rope_heads"), ("upstream 0",)).source
    assert "dq = dy_0.detach()  # every element of dy_0 is read before it is written" in source
    assert "dk = torch.empty" in source


def test_parts_that_compute_the_same_of_other_tensors_are_written_once_and_started_for_each() -> None:
    given = formed("rope_heads", section_style("rope_heads"))
    assert re.findall(r"^def (\w+_kernel)\(", given.source, re.MULTILINE) == [
        "_fast_rope_heads_each_forward_kernel",
        "_fast_rope_heads_each_backward_kernel",
    ]
    assert "y_0 = _fast_rope_heads_each_forward(q, cos, sin)" in given.source
    assert "y_1 = _fast_rope_heads_each_forward(k, cos, sin)" in given.source
    assert "dk = _fast_rope_heads_each_backward(dy_1, cos, sin)" in given.source
    assert "those that compute the same of other tensors share them" in given.plan.notes


def test_a_part_with_another_number_in_it_is_not_the_same() -> None:
    problem, graph = captured("rope_heads")
    products = [node for node in graph.nodes if node.op == "sub"]
    odd = replace(graph, nodes=tuple(replace(n, op="add") if n is products[-1] else n for n in graph.nodes))
    given = CompilerAuthor().propose(Brief("rope_heads", problem, odd, section_style("rope_heads")))
    assert isinstance(given, Proposal)
    assert "_q_forward_kernel" in given.source
    assert "_k_forward_kernel" in given.source


def test_parts_of_which_only_one_has_wide_rows_are_written_apart() -> None:
    problem, graph = captured("both_norms")
    sizes = (Workload((("T", 8), ("I", 512), ("J", 131072)), "bfloat16"),)
    problem = replace(problem, workloads=sizes)
    given = CompilerAuthor().propose(Brief("both", problem, graph, section_style("both_norms"), sizes=sizes))
    assert isinstance(given, Proposal)
    assert "_both_p_forward_kernel_wide" not in given.source
    assert "_both_q_forward_kernel_wide" in given.source
    assert given.limits == (Limit("I", 16384),)


def test_what_another_component_reads_is_not_overwritten() -> None:
    source = formed("rope_heads", section_style("rope_heads"), ("cos", "sin")).source
    assert "is read before it is written" not in source


def test_plan_counts_the_bytes_of_all_components() -> None:
    plan = proposal("rope_heads").plan
    assert len(plan.kernels) == 4
    assert {name for name, _ in plan.gradient_formulas} == {"q", "k"}
    assert "Q" in plan.forward_bytes and "K" in plan.forward_bytes


def test_a_function_takes_the_number_of_columns_in_float32_as_a_gpu_has_it_of_nothing_else() -> None:
    calls = re.findall(r"tl\.sqrt\((.*)\)", proposal("softmax_of_root").source)
    assert set(calls) == {"tl.cast(n_cols, tl.float32)"}


def test_a_long_product_stays_a_number_where_it_is_broken() -> None:
    factors = [f"((x.shape[-{place}] - 1) // 2 + 1)" for place in range(1, 7)]
    line = f"n_rows = {' * '.join(factors)}"
    for length in (60, 100, 120):
        source = wrapped("\n".join(fitted(replace(section_style("swiglu"), line_length=length), [line], 1)), length)
        assert max(map(len, source.splitlines())) <= length
        assert ast.dump(ast.parse(textwrap.dedent(source))) == ast.dump(ast.parse(line))
