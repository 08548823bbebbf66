"""An optimize job keeps what its variants gained, and a later one plans by it."""

from __future__ import annotations

import pytest

from gpu_runner.contracts import from_json
from tests.workers.stages.answers import WRONG, answers, benchmark
from tests.workers.stages.context import FakeContext, optimizing
from tests.workers.stages.jobs import different, optimized, profiled, scripted
from workers.contracts import Outcome, PlannedStrategy, StageName
from workers.stages.profiling import Profile
from workers.store import gains
from workers.strategies.gains import Trial


def stored(context: FakeContext) -> tuple[Trial, ...]:
    return context.history(gains.newest)


def test_what_each_variant_gained_over_the_one_it_was_made_from_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    speeds = {f"benchmark v{n}-benchmark": benchmark(s) for n, s in ((1, 1.1), (2, 1.5))}
    context = profiled(answers() | speeds | {"verify v3-verify": WRONG})
    context = scripted(monkeypatch, context, *different(3))
    optimized(context)
    kept = stored(context)
    kernel = f"{context.request.origin.repository} geglu"
    assert [(t.strategy, t.architecture, t.kernel, t.outcome, [s for s, _ in t.gains]) for t in reversed(kept)] == [
        ("s1", "sm_90", kernel, Outcome.kept, [1, 2]),
        ("s2", "sm_90", kernel, Outcome.kept, [1, 2]),
        ("s3", "sm_90", kernel, Outcome.incorrect, []),
    ]
    assert [t.gains[1][1] for t in reversed(kept[1:])] == [pytest.approx(1.1), pytest.approx(1.5 / 1.1)]
    optimized(context)
    assert stored(context) == kept


def test_what_was_only_predicted_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    context = profiled(answers() | {"benchmark": benchmark(predicted=True)})
    optimized(scripted(monkeypatch, context, *different(2)))
    assert stored(context) == ()


def test_a_job_is_planned_by_what_earlier_ones_measured_and_the_same_in_each_run() -> None:
    before = profiled()
    first = planned(before)
    worst = first[1]
    trials = {f"v{n}": Trial(worst.strategy, "sm_90", f"lab/x {n}", Outcome.guardrail, ((2, 0.7),)) for n in range(20)}
    context = optimizing(answers())
    context.history(lambda session: gains.add(session, "earlier", trials))
    context.run(Profile())
    learned = planned(context)
    assert learned[-1].strategy == worst.strategy and learned[-1].gain_high < 1.0
    assert learned[-1].trigger.endswith("Tried 20 times before, on 20 kernels on sm_90; 20 of these were unusable.")
    context.history(lambda session: gains.add(session, "meanwhile", trials))
    again = Profile().run(context)  # with the memos of the attempt, as after a pause
    assert again.output["strategies"] == context.results[StageName.profile]["strategies"]


def planned(context: FakeContext) -> tuple[PlannedStrategy, ...]:
    return tuple(from_json(PlannedStrategy, item) for item in context.results[StageName.profile]["strategies"])
