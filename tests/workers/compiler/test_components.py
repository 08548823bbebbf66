"""Problems whose parts share no computation: kernels of their own behind the same two functions."""

from __future__ import annotations

from tests.workers.compiler.captured import captured, proposal
from tests.workers.compiler.formed import formed, section_style
from workers.authors.compiler.components import components_of


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
    assert "dq = dy_0  # every element of dy_0 is read before it is written" in source
    assert "dk = dy_1  # every element of dy_1 is read before it is written" in source
    assert "dk = torch.empty" in formed("rope_heads", section_style("rope_heads"), ("upstream 0",)).source


def test_what_another_component_reads_is_not_overwritten() -> None:
    source = formed("rope_heads", section_style("rope_heads"), ("cos", "sin")).source
    assert "is read before it is written" not in source


def test_plan_counts_the_bytes_of_all_components() -> None:
    plan = proposal("rope_heads").plan
    assert len(plan.kernels) == 4
    assert {name for name, _ in plan.gradient_formulas} == {"q", "k"}
    assert "Q" in plan.forward_bytes and "K" in plan.forward_bytes
