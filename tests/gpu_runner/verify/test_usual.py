"""A candidate is tried at the sizes that models have, near those of the problem's workloads."""

from __future__ import annotations

import math

import pytest
import torch

from gpu_runner.contracts import parse_problem
from gpu_runner.verify.draws import Draws
from gpu_runner.verify.opening import opened, reference_session
from gpu_runner.verify.scale import AtScale, roughly_compared
from gpu_runner.verify.truth import Oracle
from gpu_runner.verify.usual import MANY, MOST_MANY, MOST_USUAL, USUAL, at_usual_sizes
from tests.cheats.trial import source_of_problem, surroundings


def calls(name: str) -> list[AtScale]:
    problem, context = parse_problem(source_of_problem(name)), surroundings()
    with opened(reference_session("reference", problem.source, context), context) as session:
        return list(at_usual_sizes(Oracle.open(problem, session, 1), problem.workloads, "float32", Draws.fresh()))


@pytest.mark.parametrize(("name", "along"), [("rms_norm", "H"), ("cross_entropy", "V")])
def test_sizes_are_usual_ones_near_the_workloads_and_one_has_many_rows(name: str, along: str) -> None:
    known = [dict(workload.sizes)[along] for workload in parse_problem(source_of_problem(name)).workloads]
    found = calls(name)
    sizes = [call.sizes[along] for call in found]
    assert len(found) == MOST_USUAL + 1 and len({*sizes[:-1]}) == MOST_USUAL
    assert {*sizes} <= {*USUAL} and min(sizes) * 8 >= min(known) and max(sizes) <= 8 * max(known)
    assert [call.sizes["T"] for call in found if call.sizes["T"] >= MANY[0]] == [found[-1].sizes["T"]]
    assert all(math.prod(call.sizes.values()) <= MOST_MANY for call in found)
    assert all(item is not None for item in found[-1].proof.expected().values())


def test_a_size_that_the_reference_refuses_is_left_out() -> None:
    assert all(call.sizes["D"] % 2 == 0 for call in calls("rope_halves"))


@pytest.mark.parametrize(
    ("got", "passes"),
    [([1.0, -2.0, 0.001], True), ([1.001, -2.0, 0.0], True), ([1.0, -2.0, 0.2], False), ([1.0, -2.0, math.nan], False)],
)
def test_values_are_the_truth_but_for_a_part_of_the_scale(got: list[float], passes: bool) -> None:
    exact = torch.tensor([1.0, -2.0, 0.001], dtype=torch.float64)
    assert roughly_compared(torch.tensor(got), exact, exact.float()).passed is passes


@pytest.mark.parametrize(("got", "passes"), [([1.0, 5.0, 2.0], True), ([1.0, math.inf, 2.5], False)])
def test_beside_an_infinity_values_are_compared(got: list[float], passes: bool) -> None:
    exact = torch.tensor([1.0, math.inf, 2.0], dtype=torch.float64)
    assert roughly_compared(torch.tensor(got), exact, exact.float()).passed is passes
