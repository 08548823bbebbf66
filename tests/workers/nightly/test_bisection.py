"""A bisection names every culprit, or the smallest range that can be told, whatever cannot be judged on the way."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from workers.nightly.bisection import Bisected, Culprit, StepOutcome, bisect


def range_with(
    count: int, culprits: set[int], unjudged: dict[int, StepOutcome]
) -> tuple[Bisected, list[tuple[int, int]]]:
    """Bisect a range in which these commits each made the kernel slower, and these cannot be judged."""
    asked: list[tuple[int, int]] = []

    def compare(old: int, new: int) -> StepOutcome:
        assert old < new
        asked.append((old, new))
        if old in unjudged or new in unjudged:
            return unjudged.get(new) or unjudged[old]
        return StepOutcome.slower if any(old < culprit <= new for culprit in culprits) else StepOutcome.same

    return bisect(count, compare), asked


@given(st.integers(2, 200).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(1, n - 1), max_size=4))))
def test_every_culprit_is_pinned_to_its_commit_in_about_log2_steps(case: tuple[int, set[int]]) -> None:
    count, culprits = case
    found, asked = range_with(count, culprits, {})
    assert [one.bad for one in found.culprits] == sorted(culprits)
    assert all(one.bad == one.good + 1 for one in found.culprits)
    assert len(asked) <= 1 + len(culprits) * (math.ceil(math.log2(count)) + 2)


@given(st.data())
def test_what_cannot_be_judged_is_stepped_around_and_the_range_holds_the_culprit(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 60))
    culprits = data.draw(st.sets(st.integers(1, count - 1), min_size=1, max_size=3))
    inner = st.integers(1, count - 2)
    broken = data.draw(
        st.dictionaries(inner, st.sampled_from([StepOutcome.broken, StepOutcome.undecided]), max_size=count)
    )
    found, _ = range_with(count, culprits, broken)
    assert found.whole is StepOutcome.slower
    for one in found.culprits:
        assert any(one.good < culprit <= one.bad for culprit in culprits), "nobody is blamed for nothing"
        assert set(one.unjudged) == set(range(one.good + 1, one.bad)), "only what cannot be judged lies between"
    assert all(any(one.good < culprit <= one.bad for one in found.culprits) for culprit in culprits)
    assert [one.good for one in found.culprits] == sorted({one.good for one in found.culprits})


def test_a_range_that_is_not_slower_is_not_searched() -> None:
    for step in (StepOutcome.same, StepOutcome.undecided, StepOutcome.broken):
        assert bisect(9, lambda _old, _new, step=step: step) == Bisected(step, ())  # type: ignore[misc]
    assert bisect(1, lambda _old, _new: StepOutcome.slower) == Bisected(StepOutcome.same, ())


def test_two_commits_need_one_comparison() -> None:
    found, asked = range_with(2, {1}, {})
    assert (found.culprits, asked) == ((Culprit(0, 1),), [(0, 1)])


def test_where_nothing_between_builds_the_whole_range_is_named() -> None:
    found, _ = range_with(6, {3}, dict.fromkeys(range(1, 5), StepOutcome.broken))
    assert found.culprits == (Culprit(0, 5, (1, 2, 3, 4)),)
