"""Sizes that a reference takes alone: multiples of a number, and two dimensions in one ratio."""

from collections.abc import Callable, Mapping

import pytest

from gpu_runner.contracts import parse_problem
from gpu_runner.verify.ratios import Ratio, in_ratio, in_steps, ratio_of, steps_of

Sizes = Mapping[str, int]


def problem_of(inputs: Mapping[str, str], workload: Mapping[str, int]) -> str:
    names = ", ".join(inputs)
    return f"def reference({names}):\n    return x\n\n\nINPUTS = {dict(inputs)!r}\nWORKLOADS = [{dict(workload)!r}]\n"


ROTARY = problem_of({"x": "B T D", "cos": "T R"}, {"B": 2, "T": 40, "D": 16, "R": 8})
HEADS = problem_of({"x": "T H", "k": "T K"}, {"T": 40, "H": 24, "K": 2})


@pytest.mark.parametrize(
    ("source", "runs", "ratio"),
    [
        (ROTARY, lambda at: at["D"] == 2 * at["R"] or at["D"] == 2, ("D", "R", 2)),
        (ROTARY, lambda at: at["D"] % 16 == 0 and at["D"] == 2 * at["R"], ("D", "R", 2)),
        (ROTARY, lambda at: True, None),
        (ROTARY, lambda at: at["D"] % 16 == 0, None),
        (ROTARY, lambda at: False, None),
        (HEADS, lambda at: at["H"] % at["K"] == 0, None),  # any number of groups, not that of the workloads
        (HEADS, lambda at: at["H"] % 24 == 0, None),  # a number that divides one of them
    ],
)
def test_a_ratio_counts_where_nothing_else_runs(
    source: str, runs: Callable[[Sizes], bool], ratio: Ratio | None
) -> None:
    assert ratio_of(parse_problem(source), runs) == ratio


def test_sizes_follow_the_longer_dimension() -> None:
    sizes = {"T": 7, "D": 1025, "R": 5}
    assert in_ratio(sizes, ("D", "R", 2)) == {"T": 7, "D": 1024, "R": 512}
    assert in_ratio(sizes, ("R", "D", 3)) == {"T": 7, "D": 1025, "R": 3075}


@pytest.mark.parametrize(
    ("runs", "steps"),
    [
        (lambda at: at["D"] % 2 == 0 or at["D"] == 3, {"D": 2}),  # halves of two and one element are broadcast
        (lambda at: at["D"] % 2 == 0 and at["R"] % 2 == 0, {"D": 2, "R": 2}),
        (lambda at: at["T"] % 3 == 0, {"T": 3}),
        (lambda at: at["D"] > 100, {}),
        (lambda at: True, {}),
        (lambda at: False, {}),
    ],
)
def test_a_step_counts_where_sizes_beside_its_multiples_do_not_run(
    runs: Callable[[Sizes], bool], steps: Mapping[str, int]
) -> None:
    assert steps_of(parse_problem(ROTARY), runs) == steps


def test_sizes_go_up_to_the_next_multiple() -> None:
    assert in_steps({"T": 5, "D": 3, "R": 0}, {"D": 2, "R": 2}) == {"T": 5, "D": 4, "R": 0}
