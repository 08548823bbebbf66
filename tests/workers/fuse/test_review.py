"""A review of a cut: what it asks for, what becomes of it, and that the program still computes what the model does."""

from __future__ import annotations

import pytest
import torch

from gpu_runner.contracts import parse_problem
from tests.workers.fuse.models import MLP, SHARED, inputs_of, module_of, problem, results, traced
from workers.fuse.cut import Cut, cut, cut_again
from workers.fuse.part import Part
from workers.fuse.program import refactored
from workers.fuse.review import LEFT, NOT_READ, CutWish, revised, wishes

THREE = problem(
    """
h = F.linear(F.gelu(x) * 0.5, w)
h = F.linear(torch.sigmoid(h) * 2.0 + 1.0, w)
return F.relu(h) * 3.0 + x * 2.0
""",
    {"x": "4 8", "w": "8 8"},
)


def anything(_: Part) -> str | None:
    return None


def computes_the_same(source: str, chosen: Cut) -> None:
    known = parse_problem(source)
    given, wanted = inputs_of(known, seed=2), list(range(len(known.inputs)))
    expected = results(module_of(source).reference, given, wanted)
    found = results(module_of(refactored(traced(source), chosen)).candidate, given, wanted)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, one)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("keep 3 and 4 together", [CutWish((3, 4), True)]),
        ("Please join parts 1, 2 and #3.", [CutWish((1, 2, 3), True)]),
        ("merge 2 with 1", [CutWish((2, 1), True)]),
        ("leave 2 to torch", [CutWish((2,), False)]),
        (
            "Keep part 2 with PyTorch, and leave 3 and 4 to torch; put 5 & 6 together",
            [CutWish((2,), False), CutWish((3, 4), False), CutWish((5, 6), True)],
        ),
        ("do not keep 3 and 4 together", []),
        ("don\u2019t leave 2 to torch, but keep 1 and 3 together", [CutWish((1, 3), True)]),
        ("looks good, 10 out of 10", []),
        ("keep 3 and 4", []),
    ],
)
def test_what_a_review_asks_for(text: str, found: list[CutWish]) -> None:
    assert list(wishes(text)) == found


@pytest.mark.parametrize("source", [MLP, THREE])
def test_parts_kept_together_are_one_with_what_lies_between_them(source: str) -> None:
    model = traced(source)
    before = cut(model, anything)
    after, answered = revised(model, before, ["keep 1 and 2 together"], anything)
    assert len(after.parts) == len(before.parts) - 1
    assert any("linear" in part.operators for part in after.parts.values())
    assert answered[0].startswith("Parts 1 and 2 are one:")
    computes_the_same(source, after)
    assert cut_again(model, [w.nodes for n in after.parts for w in after.places[n]], after.kept) == after


def test_a_part_left_to_torch_is_none_and_says_why() -> None:
    model = traced(MLP)
    before = cut(model, anything)
    after, answered = revised(model, before, ["leave 2 to torch"], anything)
    first, _, third = before.parts
    assert list(after.parts) == [first, third] and LEFT in after.kept.values()
    assert answered == ("Part 2 stays with torch.",)
    computes_the_same(MLP, after)


def test_numbers_of_one_review_are_those_of_the_table_that_it_is_about() -> None:
    model = traced(THREE)
    names = list(cut(model, anything).parts)
    first = model.in_order(next(iter(w.nodes)) for n in names for w in cut(model, anything).places[n])
    assert len(first) == 3
    after, answered = revised(
        model, cut(model, anything), ["leave 3 to torch. keep 1 and 2 together, and leave 1 to torch"], anything
    )
    assert [sentence.partition(":")[0] for sentence in answered] == [
        "Part 3 stays with torch.",
        "Parts 1 and 2 are one",
        "Part 1 stays a part, since nothing would be left of the cut; `/kernel cancel` ends the job.",
    ]
    assert len(after.parts) == 1
    computes_the_same(THREE, after)


@pytest.mark.parametrize(
    ("source", "wish", "reason"),
    [
        (THREE, "keep {first} and {last} together", "lies between them"),
        (MLP, "keep 1 and 7 together", "There is no part 7: the parts are 1 to 3."),
        (MLP, "keep 1 and 1 together", "it is one part"),
        (MLP, "I like it", NOT_READ),
    ],
)
def test_what_cannot_be_is_answered_and_the_cut_stays(source: str, wish: str, reason: str) -> None:
    model = traced(source)
    before = cut(model, anything)
    order = sorted(before.parts, key=lambda name: list(model.nodes).index(before.places[name][0].nodes[0]))
    numbers = {"first": list(before.parts).index(order[0]) + 1, "last": list(before.parts).index(order[-1]) + 1}
    after, answered = revised(model, before, [wish.format(**numbers)], anything)
    assert after == before and reason in answered[0]


def test_a_part_that_the_compiler_refuses_stays_apart_with_its_sentence() -> None:
    model = traced(MLP)
    before = cut(model, anything)
    after, answered = revised(model, before, ["keep 1 and 2 together"], lambda part: "it has no way to express it.")
    assert after == before and answered == ("Parts 1 and 2 stay apart: it has no way to express it.",)


def test_a_part_at_several_places_is_left_at_all_of_them() -> None:
    model = traced(SHARED)
    before = cut(model, anything)
    after, answered = revised(model, before, ["leave 1 to torch"], anything)
    assert after == before and "nothing would be left" in answered[0]
