"""What a plan says of a proposal."""

from __future__ import annotations

import pytest

from tests.workers.compiler.captured import proposal
from workers.authors.compiler.expressions import number


def test_formulas_of_a_gated_unit_are_what_a_person_would_write() -> None:
    plan = proposal("reglu").plan
    assert plan.forward_formula == "c = max(a, 0) * b"
    assert plan.gradient_formulas == (("a", "where(a <= 0, 0, dc * b)"), ("b", "dc * max(a, 0)"))


def test_row_numbers_that_backward_needs_are_saved_and_the_rest_recomputed() -> None:
    plan = proposal("rms_norm").plan
    assert plan.saved_tensors == ("x", "weight", "rstd")
    assert "rstd" in plan.recomputed


def test_an_output_is_saved_where_it_spares_two_inputs() -> None:
    plan = proposal("add_rms_norm").plan
    assert plan.saved_tensors == ("weight", "h", "rstd")


@pytest.mark.parametrize(
    ("name", "family", "tier"),
    [
        ("reglu", "element-wise", 1),
        ("dyt", "broadcast element-wise", 1),
        ("rms_norm", "row norm", 2),
        ("layer_norm", "row norm", 2),
        ("softmax", "softmax", 2),
        ("log_softmax", "softmax", 2),
        ("add_rms_norm", "fused row norm", 3),
        ("cosine", "row reduction", 2),
    ],
)
def test_family_follows_from_the_program(name: str, family: str, tier: int) -> None:
    plan = proposal(name).plan
    assert (plan.family, plan.tier) == (family, tier)


def test_bytes_count_each_tensor_once() -> None:
    sizes = {"T": 16, "I": 8, "E": 2}
    plan = proposal("reglu").plan
    assert eval(plan.forward_bytes, sizes) == 3 * 16 * 8 * 2
    assert eval(plan.backward_bytes, sizes) == 5 * 16 * 8 * 2


def test_an_output_of_a_fixed_dtype_counts_its_own_bytes() -> None:
    plan = proposal("float_double").plan
    assert eval(plan.forward_bytes, {"T": 16, "V": 8, "E": 2}) == 16 * 8 * (2 + 4)


def test_weight_gradients_make_a_persistent_grid() -> None:
    assert proposal("rms_norm").plan.needs_sm_parallelism
    assert not proposal("softmax").plan.needs_sm_parallelism


def test_a_weight_gradient_that_nobody_may_want_is_named_in_the_notes() -> None:
    assert any("weight is summed in the same pass" in note for note in proposal("rms_norm").plan.notes)
    assert proposal("reglu").plan.notes == ()


def test_parts_of_a_row_count_their_own_bytes() -> None:
    sizes = {"B": 2, "T": 4, "N": 10, "E": 2}
    plan = proposal("packed_geglu").plan
    assert eval(plan.forward_bytes, sizes) == 2 * 4 * (10 + 5) * 2
    assert eval(plan.backward_bytes, sizes) == 2 * 4 * (10 + 5 + 10) * 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.999999974752427e-07, "1e-6"),
        (0.10000000149011612, "0.1"),
        (0.1, "0.1"),
        (1e-12, "1e-12"),
        (3e38 * 10, "3e+39"),
    ],
)
def test_constant_is_written_as_short_as_float32_allows(value: float, text: str) -> None:
    assert number(value) == text


def test_nothing_is_said_to_be_recomputed_where_nothing_is_saved() -> None:
    assert proposal("token_share").plan.recomputed == "nothing: the gradients need no value of forward"
