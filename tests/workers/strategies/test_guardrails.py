import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_runner.contracts import Pass, WorkloadTiming
from gpu_runner.contracts.benchmark import MEMORY_SLACK_BYTES
from tests.workers.strategies.situations import row
from workers.contracts import Goal, Guardrail, MeasuredPart, Regime, Scope
from workers.strategies.search import breaches, score

SMALL, LARGE = {"T": 64}, {"T": 4096}
GIB = 1 << 30


def test_the_score_is_the_geometric_mean_over_the_sizes() -> None:
    rows = (row(SMALL, 1.0), row(LARGE, 4.0), row(LARGE, 9.0, timed_pass=Pass.forward))
    assert score(rows, Goal.speed, Scope.general) == pytest.approx(2.0)
    assert score(rows, Goal.speed, Scope.forward) == pytest.approx(9.0)
    assert score(rows, Goal.speed, Scope.backward) is None


def test_memory_is_scored_by_the_peak() -> None:
    rows = (row(LARGE, 1.0, memory=(2 * GIB, GIB)),)
    assert score(rows, Goal.memory, Scope.general) == pytest.approx(2.0)
    assert score(rows, Goal.balanced, Scope.general) == pytest.approx(math.sqrt(2.0))


def test_a_slower_other_pass_is_a_cross_regression_at_any_size() -> None:
    rows = (row(SMALL, 0.85, timed_pass=Pass.backward), row(LARGE, 1.5, timed_pass=Pass.forward))
    (found,) = breaches(rows, Goal.speed, Scope.forward)
    assert (found.guardrail, found.metric, found.timed_pass) == (Guardrail.cross_regression, "time", Pass.backward)
    assert found.ratio == pytest.approx(1 / 0.85)


def test_what_may_be_noise_is_no_breach() -> None:
    assert breaches((row(SMALL, 0.85, spread=0.3),), Goal.speed, Scope.general) == ()


def test_more_memory_is_another_metric_worse() -> None:
    (found,) = breaches((row(LARGE, 2.0, memory=(GIB, GIB + GIB // 10)),), Goal.speed, Scope.general)
    assert (found.guardrail, found.metric, found.allowed) == (Guardrail.other_metric, "memory", 1.05)


def test_a_few_partial_sums_are_no_breach() -> None:
    rows = (row(SMALL, 2.0, memory=(1 << 20, (1 << 20) + MEMORY_SLACK_BYTES)),)
    assert breaches(rows, Goal.speed, Scope.general) == ()


def test_time_is_the_other_metric_of_memory() -> None:
    rows = (row(LARGE, 0.93, memory=(2 * GIB, GIB)),)
    assert [b.guardrail for b in breaches(rows, Goal.memory, Scope.general)] == [Guardrail.other_metric]
    assert breaches(rows, Goal.speed, Scope.general) == ()


ROWS = st.lists(
    st.builds(
        row,
        st.just(LARGE),
        st.floats(0.1, 10),
        st.floats(0, 0.5),
        st.sampled_from(list(Pass)),
        st.tuples(st.integers(1, GIB * 9), st.integers(1, GIB * 9)),
    ),
    max_size=6,
)


@given(ROWS, st.sampled_from(list(Goal)), st.sampled_from(list(Scope)))
def test_nothing_that_is_better_everywhere_breaks_a_guardrail(
    rows: list[WorkloadTiming], goal: Goal, scope: Scope
) -> None:
    better = [r for r in rows if r.comparisons[0].speedup >= 1 and r.timings[1].peak_bytes <= r.timings[0].peak_bytes]  # type: ignore[operator]
    assert breaches(better, goal, scope) == ()


@given(ROWS, st.sampled_from(list(Goal)), st.sampled_from(list(Scope)))
def test_a_breach_is_always_beyond_what_is_allowed(rows: list[WorkloadTiming], goal: Goal, scope: Scope) -> None:
    assert all(found.ratio > found.allowed > 1 for found in breaches(rows, goal, scope))


@given(ROWS, st.sampled_from(list(Goal)), st.sampled_from(list(Scope)))
def test_a_score_lies_between_the_best_and_the_worst(rows: list[WorkloadTiming], goal: Goal, scope: Scope) -> None:
    found = score(rows, goal, scope)
    factors = [r.comparisons[0].speedup for r in rows]
    factors += [1.0] + [r.timings[0].peak_bytes / r.timings[1].peak_bytes for r in rows]  # type: ignore[operator]
    assert found is None or min(factors) * 0.999 <= found <= max(factors) * 1.001


@pytest.mark.parametrize(
    ("regime", "wanted"),
    [
        (Regime(MeasuredPart.small), 2.0),
        (Regime(MeasuredPart.large), 1.5),
        (Regime(sizes=(("T", 64),)), 2.0),
        (Regime(), math.sqrt(3.0)),
    ],
)
def test_only_the_sizes_of_the_regime_are_scored(regime: Regime, wanted: float) -> None:
    rows = (row(SMALL, 2.0), row(LARGE, 1.5))
    assert score(rows, Goal.speed, Scope.general, regime) == pytest.approx(wanted)


def test_at_other_sizes_than_the_regimes_a_variant_may_not_get_slower() -> None:
    rows = (row(SMALL, 2.0), row(LARGE, 0.93))
    assert breaches(rows, Goal.speed, Scope.general) == ()
    (found,) = breaches(rows, Goal.speed, Scope.general, Regime(MeasuredPart.small))
    assert (found.guardrail, found.metric, found.allowed) == (Guardrail.other_metric, "time", 1.05)


def test_where_there_is_one_size_alone_it_is_small_and_large() -> None:
    assert score((row(LARGE, 2.0),), Goal.speed, Scope.general, Regime(MeasuredPart.small)) == pytest.approx(2.0)
