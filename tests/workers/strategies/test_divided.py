"""Scalars that divide a size: the guard of a fast path asks for it, and sends every other call to the code that stands there."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from gpu_runner.contracts import Graph, Multiple, parse_problem
from tests.workers.strategies.files import ROW_SCALE
from tests.workers.strategies.situations import PROBLEM, Gives, graph_of_scale, situation
from tests.workers.strategies.test_compiled_fast_path import GIVEN
from workers.authors.protocol import Limit
from workers.strategies.fast_path import CompiledFastPath
from workers.strategies.protocol import DoesNotApply, Proposed

GROUPED = ROW_SCALE.replace('offset=0.0, mode="plain"', 'groups=4, halves=1, mode="plain"')
TAKES_GROUPS = parse_problem(
    PROBLEM.replace("w: torch.Tensor)", "w: torch.Tensor, g: int = 4, m: int = 1)").replace(
        "(x, w, 0.0)", "(x, w, g, m)"
    )
)


def _answer(*rules: Multiple, limits: tuple[Limit, ...] = (), fixed: tuple[str, ...] = ()) -> Proposed | DoesNotApply:
    graph: Graph = replace(graph_of_scale(), multiples=rules, specialised=fixed)
    given = Gives(replace(GIVEN.proposal, limits=limits))
    return CompiledFastPath().propose(situation(GROUPED, given, problem=TAKES_GROUPS, graph=graph))


def _proposed(*rules: Multiple, limits: tuple[Limit, ...] = (), fixed: tuple[str, ...] = ()) -> Proposed:
    answer = _answer(*rules, limits=limits, fixed=fixed)
    assert isinstance(answer, Proposed), answer
    return answer


def _guard(source: str) -> Callable[..., bool]:
    function = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name.endswith("_covers"))
    space: dict[str, object] = {"torch": torch}
    exec(ast.unparse(function), space)  # the text is the strategy's own
    covers = space[function.name]
    assert callable(covers)
    return lambda width, groups, halves=1: covers(
        torch.ones(3, width), torch.ones(width), groups, halves, "plain", (False, True, True)[1:] + (False,) * 3
    )


@pytest.mark.parametrize(
    ("groups", "taken"),
    [
        (1, True),
        (2, True),
        (3, True),
        (12, True),
        (5, False),
        (24, False),
        (0, False),
        (-3, False),
        (4.0, False),
        ("4", False),
    ],
)
def test_calls_in_which_the_scalar_does_not_divide_the_size_are_left_to_the_file(groups: object, taken: bool) -> None:
    assert _guard(_proposed(Multiple("H", "g")).source)(12, groups) is taken


@pytest.mark.parametrize(
    ("of", "groups", "halves", "taken"),
    [("g * g", 2, 1, True), ("g * g", 6, 1, False), ("2 * g", 6, 1, True), ("2 * g", 4, 1, False), ("g * m", 3, 4, True),
     ("g * m", 3, 8, False), ("g * m", -3, -4, False)],
)  # fmt: skip
def test_products_of_scalars_divide_a_size_as_a_whole(of: str, groups: int, halves: int, taken: bool) -> None:
    assert _guard(_proposed(Multiple("H", of)).source)(12, groups, halves) is taken


def test_a_bound_to_the_length_of_a_group_is_asked_after_what_divides() -> None:
    proposed = _proposed(Multiple("H", "g"), limits=(Limit("(H) // (g)", 4), Limit("H", 64)))
    assert [_guard(proposed.source)(12, groups) for groups in (1, 2, 3, 0, "3")] == [False, False, True, False, False]
    assert "`H` is a multiple of `g`" in proposed.notes.change


def test_more_leading_dimensions_are_not_taken_where_the_rows_themselves_are_divided() -> None:
    assert "X.ndim >= 2" in _proposed(Multiple("H", "g")).source
    assert "X.ndim == 2" in _proposed(Multiple("T", "g")).source


def test_a_scalar_without_a_rule_is_guarded_by_its_value_and_told() -> None:
    proposed = _proposed(fixed=("g",))
    assert "and groups == 4\n" in proposed.source
    assert "written for `g = 4` alone" in proposed.notes.change
    assert "written for" not in _proposed().notes.change


def test_a_rule_for_a_size_that_no_tensor_has_is_told() -> None:
    answer = _answer(Multiple("V", "g"))
    assert isinstance(answer, DoesNotApply)
    assert answer.sentence == "No tensor says what `V` is, which must be a multiple of g."
