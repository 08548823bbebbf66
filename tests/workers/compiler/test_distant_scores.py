"""Compiled attention where scores are large: as near to float64 as eager mode."""

from __future__ import annotations

import pytest

from tests.workers.compiler.captured import proposal
from tests.workers.compiler.distant import KINDS
from tests.workers.compiler.processes import interpreted

RATIO, FLOOR = 1.5, 2e-7
CASES = [(name, kind, "float32") for name in ("attention", "causal_attention") for kind in KINDS]
SATURATED = [(name, "scores near 300", "bfloat16") for name in ("attention", "causal_attention")]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[float, float]]]:
    cases = {", ".join(case): case for case in CASES + SATURATED}
    return interpreted("distant", cases, tmp_path_factory.mktemp("distant"))


@pytest.mark.parametrize(("name", "kind", "dtype"), CASES)
def test_results_and_gradients_are_as_near_to_the_truth_as_in_eager_mode(
    errors: dict[str, list[tuple[float, float]]], name: str, kind: str, dtype: str
) -> None:
    found = errors[f"{name}, {kind}, {dtype}"]
    assert len(found) == 4
    for own, eager in found:
        assert own <= RATIO * eager + FLOOR, found


@pytest.mark.parametrize(("name", "kind", "dtype"), SATURATED)
def test_gradients_of_rows_with_one_probability_are_not_lost_to_the_rounding_of_a_result(
    errors: dict[str, list[tuple[float, float]]], name: str, kind: str, dtype: str
) -> None:
    assert all(own <= 2.0**-8 for own, _ in errors[f"{name}, {kind}, {dtype}"])


def test_the_largest_score_is_subtracted_before_what_is_left_is_multiplied() -> None:
    source = proposal("attention").source
    forward, backward = (source.partition(f"def _attention_{part}_kernel(")[2] for part in ("forward", "backward_dv"))
    assert "tl.exp2((scores - shift) * 0.18033688011112042)" in forward
    assert "(product_3 - top)" in backward
