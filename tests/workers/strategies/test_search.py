import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import Bound
from tests.workers.strategies.situations import variant
from workers.contracts import Outcome, PlannedStrategy, StopReason, Variant
from workers.strategies.search import SearchLimits, SearchStep, next_step, ranked

PLANNED = tuple(
    PlannedStrategy(name, name, "", 1.0, 1.2, bound)
    for name, bound in (("a", Bound.memory), ("b", Bound.latency), ("c", Bound.memory), ("d", Bound.unknown))
)


def test_the_first_step_is_the_first_strategy_on_v0() -> None:
    assert next_step((), PLANNED, SearchLimits()) == SearchStep("v0", "a")


def test_the_search_goes_on_from_the_best_that_was_kept() -> None:
    tried = (variant(1, "a", score=1.2), variant(2, "b", Outcome.guardrail, score=1.5, parent="v1"))
    assert next_step(tried, PLANNED, SearchLimits()) == SearchStep("v1", "c")


def test_two_in_a_row_without_progress_end_the_search() -> None:
    tried = (variant(1, "a", Outcome.no_gain, 1.0), variant(2, "b", Outcome.incorrect))
    assert next_step(tried, PLANNED, SearchLimits()) is StopReason.no_progress


def test_what_was_never_measured_uses_up_no_patience() -> None:
    tried = (
        variant(1, "a", Outcome.no_gain, 1.0),
        variant(2, "b", Outcome.does_not_apply),
        variant(3, "c", Outcome.duplicate),
    )
    assert next_step(tried, PLANNED, SearchLimits()) == SearchStep("v0", "d")


def test_a_gain_that_a_guardrail_rejected_is_no_lack_of_progress() -> None:
    tried = (variant(1, "a", Outcome.no_gain, 1.0), variant(2, "b", Outcome.guardrail, 1.3))
    assert next_step(tried, PLANNED, SearchLimits()) == SearchStep("v0", "c")


def test_variants_are_limited() -> None:
    tried = (variant(1, "a", score=1.2), variant(2, "b", score=1.4, parent="v1"))
    assert next_step(tried, PLANNED, SearchLimits(variants=2)) is StopReason.variants_used


MODEL = PlannedStrategy("m", "m", "", 1.0, 1.2, repeats=True)


def test_what_repeats_is_tried_as_long_as_it_gains_something() -> None:
    planned, tried = (*PLANNED[:1], MODEL), [variant(1, "a", score=1.1)]
    for number, score in enumerate((1.2, 1.3, 1.3, 1.3), 2):
        step = next_step(tried, planned, SearchLimits())
        assert isinstance(step, SearchStep) and step.strategy == "m", number
        kept = Outcome.kept if score > (tried[-1].score or 1.0) else Outcome.no_gain
        tried.append(variant(number, "m", kept, score, step.parent))
    assert [v.parent for v in tried[1:]] == ["v1", "v2", "v3", "v3"]
    assert next_step(tried, planned, SearchLimits()) is StopReason.no_progress


def test_what_repeats_gets_its_turn_after_two_of_the_others_without_progress() -> None:
    tried = [variant(1, "a", Outcome.no_gain, 1.0), variant(2, "b", Outcome.incorrect)]
    planned = (*PLANNED, MODEL)
    for number in (3, 4):
        assert next_step(tried, planned, SearchLimits()) == SearchStep("v0", "m")
        tried.append(variant(number, "m", Outcome.no_gain, 1.0))
    assert next_step(tried, planned, SearchLimits()) is StopReason.no_progress


@pytest.mark.parametrize("outcome", [Outcome.duplicate, Outcome.unusable])
def test_what_repeats_ends_also_where_nothing_of_it_is_measured(outcome: Outcome) -> None:
    tried = (variant(1, "m", outcome), variant(2, "m", outcome))
    assert next_step(tried, (MODEL,), SearchLimits()) is StopReason.no_progress


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[Variant, ...], SearchLimits]:
    limits = SearchLimits(draw(st.integers(1, 9)), draw(st.integers(1, 4)))
    tried: list[Variant] = []
    for number in range(1, 40):
        step = next_step(tuple(tried), PLANNED, limits)
        if isinstance(step, StopReason):
            return tuple(tried), limits
        outcome = draw(st.sampled_from(list(Outcome)))
        score = draw(st.none() | st.floats(0.5, 3.0))
        tried.append(variant(number, step.strategy, outcome, score, step.parent))
    raise AssertionError("the search does not end")


@given(histories())
def test_a_search_ends_and_tries_no_pair_twice(history: tuple[tuple[Variant, ...], SearchLimits]) -> None:
    tried, limits = history
    pairs = [(v.parent, v.strategy) for v in tried]
    assert len(set(pairs)) == len(pairs)
    measured = [v for v in tried if v.outcome not in (Outcome.does_not_apply, Outcome.duplicate)]
    assert len(measured) <= limits.variants
    assert next_step(tried, PLANNED, limits) is next_step(tried, PLANNED, limits)


@given(histories())
def test_a_parent_was_kept_before(history: tuple[tuple[Variant, ...], SearchLimits]) -> None:
    tried, _ = history
    for number, later in enumerate(tried):
        assert later.parent in ranked(tried[:number])
