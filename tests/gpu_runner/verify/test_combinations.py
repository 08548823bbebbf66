"""What is called together is what decides most together that no case decided together."""

from __future__ import annotations

from gpu_runner.verify.combinations import MOST_VALUES, Item, Seen, covering, meetings


def seen(*decided: Item, features: tuple[Item, ...] = ()) -> Seen:
    return Seen(frozenset(decided), frozenset(features))


def test_decisions_meet_that_were_seen_apart() -> None:
    cases = [seen(("wide", 0), ("small", 0)), seen(("wide", 1), ("small", 0)), seen(("wide", 0), ("small", 1))]
    sizes = [frozenset({("wide", 0), ("small", 0)}), frozenset({("wide", 1), ("small", 0)})]
    assert list(meetings(cases, sizes)) == [(1, 2)]


def test_a_decision_meets_a_property_of_inputs() -> None:
    cases = [seen(("wide", 1)), seen(("wide", 0), features=(("special", "rows"),))]
    assert list(meetings(cases, [frozenset({("wide", 0)}), frozenset({("wide", 1)})])) == [(1, 1)]


def test_decisions_of_sizes_meet_at_a_size() -> None:
    both = frozenset({("wide", 1), ("long", 1)})
    cases = [seen(("wide", 0), ("long", 1)), seen(("wide", 1), ("long", 0))]
    assert {size for size, _ in meetings(cases, [frozenset({("wide", 0), ("long", 0)}), both])} == {0, 1}


def test_most_new_pairs_come_first() -> None:
    sizes = [frozenset({("a", 0), ("b", 0)}), frozenset({("a", 1), ("b", 0)}), frozenset({("a", 1), ("b", 1)})]
    cases = [seen(("a", 0), ("b", 0)), seen(("a", 0), ("b", 0), features=(("layout", "apart"), ("indices", "spread")))]
    assert next(meetings(cases, sizes)) == (2, 1)


def test_numbers_of_which_each_call_has_another_are_no_outcomes() -> None:
    sizes = [frozenset({("columns", 100 + place)}) for place in range(MOST_VALUES + 1)]
    assert not list(meetings([seen(("columns", 1))], sizes))
    assert list(meetings([seen(("columns", 1), features=(("same", True),))], sizes[:2]))


def test_nothing_new_ends_it() -> None:
    assert not list(meetings([seen(("wide", 1)), seen(("wide", 0))], [frozenset({("wide", 1)})]))
    assert not list(meetings([], [frozenset({("wide", 1)})]))


def test_few_cases_cover_all_that_is_decided_in_many() -> None:
    signatures = [
        frozenset({("wide", 0), ("rows", place), ("same", 1)}) | ({("small", 1)} if place == 3 else {("small", 0)})
        for place in range(MOST_VALUES + 1)
    ]
    signatures.append(frozenset({("wide", 1), ("small", 0), ("rows", 99)}))
    assert list(covering(signatures, 6)) == [0, 3, MOST_VALUES + 1]
    assert list(covering(signatures, 2)) == [0, 3]
    assert list(covering([frozenset({("same", 1)})] * 3, 6)) == [0]
