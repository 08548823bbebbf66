"""Compiled attention in float32 where scores are large: as near to float64 as eager mode."""

from __future__ import annotations

import pytest

from tests.workers.compiler.captured import proposal
from tests.workers.compiler.distant import KINDS
from tests.workers.compiler.processes import interpreted

RATIO, FLOOR = 1.5, 2e-7


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[float, float]]]:
    cases = {f"{name}, {kind}": (name, kind) for name in ("attention", "causal_attention") for kind in KINDS}
    return interpreted("distant", cases, tmp_path_factory.mktemp("distant"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["attention", "causal_attention"])
def test_results_and_gradients_are_as_near_to_the_truth_as_in_eager_mode(
    errors: dict[str, list[tuple[float, float]]], name: str, kind: str
) -> None:
    found = errors[f"{name}, {kind}"]
    assert len(found) == 4
    for own, eager in found:
        assert own <= RATIO * eager + FLOOR, found


def test_the_largest_score_is_subtracted_before_what_is_left_is_multiplied() -> None:
    source = proposal("attention").source
    forward, backward = (source.partition(f"def _attention_{part}_kernel(")[2] for part in ("forward", "backward_dv"))
    assert "tl.exp2((scores - shift) * 0.18033688011112042)" in forward
    assert "(product_3 - top)" in backward
