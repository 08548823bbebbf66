"""Variants that a model writes: asked for, repaired, judged like any other, and left out where nobody answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.workers.stages.answers import WRONG, answers, benchmark
from tests.workers.stages.context import FakeContext, optimizing
from tests.workers.stages.jobs import optimized, text_of
from tests.workers.stages.library import GEGLU
from tests.workers.stages.modelling import DIAGNOSIS, DOWN, added, asked, blocks, modelled
from workers.contracts import (
    AuthorName,
    CheckpointUpdate,
    Failure,
    FailureCode,
    Goal,
    Outcome,
    ProfileSummary,
    StageName,
    StopReason,
    UserFacingError,
)
from workers.models.protocol import Answer, ModelError, Question, Trouble
from workers.stages.optimize import Optimize
from workers.stages.profiling import Profile

SPENT = Failure(FailureCode.budget, "the model budget of this job is reached: 9 of 9 are used", "Raise it.")
NEAR = benchmark(1.02, over_floor=1.05)


class Spender(FakeContext):
    """A context whose budget is used up."""

    def ask(self, key: str, question: Question) -> Answer:
        raise UserFacingError(SPENT)


def spent(context: FakeContext) -> FakeContext:
    return Spender(**{field: getattr(context, field) for field in FakeContext.__dataclass_fields__})


def profile(context: FakeContext) -> ProfileSummary:
    (summary,) = [u.summary for u in context.run(Profile()).updates if isinstance(u, CheckpointUpdate)]
    assert isinstance(summary, ProfileSummary)
    return summary


def by_variant(*speedups: float) -> dict[str, Any]:
    return {f"benchmark v{n}-benchmark": benchmark(s) for n, s in enumerate(speedups, 2)}


def test_the_profile_shows_a_models_reading_beside_the_rules() -> None:
    context = optimizing(answers(), author=AuthorName.llm)
    context.speaks = [DIAGNOSIS]
    summary = profile(context)
    assert summary.diagnosis is not None
    assert summary.diagnosis.steps == tuple(DIAGNOSIS["steps"])
    assert [planned.strategy for planned in summary.strategies][:2] == ["parameter_sweep", "model_change"]
    told = asked(context, "diagnosis")
    for fact in ("NVIDIA H200, 4240 GB/s", "bound of backward: latency", "v0 200.0 us, floor 100.0 us", "num_warps=4"):
        assert fact in told, fact
    assert "Pipelined loops" in told


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (DOWN, "scripted is overloaded, after 3 tries."),
        (ModelError(Trouble.refused, "scripted declined."), "scripted declined."),
        ({"bottleneck": " ", "evidence": ["x"], "steps": ["y"]}, "bottleneck` says nothing"),
        ({"bottleneck": "x"}, "evidence"),
    ],
)
def test_a_profile_without_a_models_reading_says_why_and_goes_on(said: Any, why: str) -> None:
    context = optimizing(answers())
    context.speaks = [said]
    summary = profile(context)
    assert summary.diagnosis is None
    (note,) = [note for note in summary.notes if note.startswith("A model was asked")]
    assert why in note
    assert summary.strategies[-1].strategy == "model_change"


@pytest.mark.parametrize(
    ("author", "speaks", "made"),
    [
        (AuthorName.compiler, [], answers()),
        (AuthorName.auto, None, answers()),
        (AuthorName.auto, [], answers(benchmark=NEAR)),
    ],
)
def test_nobody_is_asked_where_the_command_no_model_or_no_room_says_so(
    author: AuthorName, speaks: Any, made: Any
) -> None:
    context = optimizing(made, author=author)
    context.speaks = speaks
    context.run(Profile())
    assert optimized(context.again()).reads_words is False or author is AuthorName.auto
    assert context.questions == {}


def test_a_model_that_is_wanted_and_not_configured_ends_the_job_before_anything_is_measured() -> None:
    context = optimizing(answers(), author=AuthorName.llm)
    with pytest.raises(UserFacingError) as caught:
        context.run(Profile())
    assert caught.value.failure.code is FailureCode.model
    assert context.asked == []


def test_variants_of_a_model_follow_the_sweep_each_on_the_best_until_two_gain_nothing() -> None:
    said = [blocks(2048), blocks(4096, 2048), blocks(512, 4096), blocks(256, 4096)]
    context = modelled(said, answers() | by_variant(1.2, 1.4, 1.4, 1.3), goal=Goal.speed)
    summary = optimized(context)
    told = [(v.name, v.parent, v.strategy, v.outcome.value) for v in summary.variants]
    assert told == [
        ("v1", "v0", "parameter_sweep", "duplicate"),
        ("v2", "v0", "model_change", "kept"),
        ("v3", "v2", "model_change", "kept"),
        ("v4", "v3", "model_change", "no_gain"),
        ("v5", "v3", "model_change", "no_gain"),
    ]
    assert (summary.winner, summary.stop) == ("v3", StopReason.no_progress)
    judged = [place for place in context.order[1:] if not place.startswith("tests")]
    assert judged == [f"{what} v{n}-{what}" for n in range(2, 6) for what in ("verify", "benchmark")]
    assert "BLOCK_SIZE = 4096" in text_of(context, "v3")
    second = asked(context, "variant-v3")
    for fact in (
        "Blocks of 2048 in backward.",
        "kept; 1.200 times as good",
        "v2 166.7 us",
        "One program walks a whole row",
    ):
        assert fact in second, fact
    assert "It is the same code as v0." in second


def test_notes_are_kept_before_anything_runs_and_attempts_with_what_they_took() -> None:
    context = modelled([blocks(2048)], variants=1)
    seen: list[bool] = []
    context.answers["verify v2-verify"] = lambda _: (seen.append("v2-notes.json" in context.names), WRONG)[1]  # type: ignore[func-returns-value]
    context.request = replace(context.request, options=replace(context.request.options, repairs=0))
    (_, made) = optimized(context).variants
    assert seen == [True]
    notes = json.loads(context.load(context.names["v2-notes.json"]))
    assert (notes["change"], notes["learnings"]) == ("Blocks of 2048 in backward.", "")
    (attempt,) = made.attempts
    assert (attempt.task, attempt.question, attempt.outcome, attempt.tokens) == (
        "optimize",
        "variant-v2",
        "incorrect_values",
        150,
    )
    book = json.loads(context.load(context.names["attempts-optimize-1.json"]))
    assert [entry["evidence"] for entry in book["attempts"]] == ["output 0 is off by 0.3"]


def test_an_unusable_answer_the_same_code_and_a_wrong_one_are_repaired_with_what_was_found() -> None:
    said = [blocks(2048, before=7), added("# nothing"), blocks(2048), blocks(4096)]
    context = modelled(said, answers() | {"verify v2-repair-2-verify": WRONG}, variants=1)
    (_, made) = optimized(context).variants
    assert made.outcome is Outcome.kept
    assert [(a.round, a.outcome) for a in made.attempts] == [
        (0, "edit"),
        (1, "duplicate"),
        (2, "incorrect_values"),
        (3, "passed"),
    ]
    assert "the old text of edit 1 is not there" in asked(context, "variant-v2-repair-1")
    assert "It is the same code as v0." in asked(context, "variant-v2-repair-2")
    third = asked(context, "variant-v2-repair-3")
    assert "output 0 is off by 0.3" in third and "BLOCK_SIZE = 2048" in third
    assert made.notes.change == "Blocks of 4096 in backward."
    assert context.order[1:] == [
        "verify v2-repair-2-verify",
        "verify v2-repair-3-verify",
        "benchmark v2-repair-3-benchmark",
        "tests v2-script",
    ]


def test_after_the_last_repair_the_variant_says_what_was_wrong() -> None:
    context = modelled([added("import os")] * 2, variants=1, repairs=1)
    (_, made) = optimized(context).variants
    assert (made.outcome, made.source) == (Outcome.unusable, None)
    assert "imports `os`" in (made.reason or "")
    assert context.order == ["tune v1-tune"]


def test_a_question_that_is_declined_costs_a_round_and_no_more() -> None:
    context = modelled([ModelError(Trouble.refused, "scripted declined"), blocks(2048)], variants=1)
    (_, made) = optimized(context).variants
    assert [attempt.outcome for attempt in made.attempts] == ["refused", "passed"]
    assert made.outcome is Outcome.kept


def test_a_models_variant_that_breaks_a_guardrail_is_rejected_and_not_repaired() -> None:
    context = modelled([blocks(2048)], answers() | {"benchmark v2-benchmark": benchmark(1.5, forward=0.8)}, variants=1)
    (_, made) = optimized(context).variants
    assert (made.outcome, len(made.attempts)) == (Outcome.guardrail, 1)


def test_auto_asks_after_all_that_needs_no_model() -> None:
    said = [added(f"LINE_{n} = {n}") for n in range(8)]
    context = modelled(said, answers(benchmark=benchmark(1.0)), AuthorName.auto)
    strategies = [variant.strategy for variant in optimized(context).variants]
    assert strategies[-2:] == ["model_change", "model_change"]
    assert "model_change" not in strategies[:-2] and len(strategies) > 3


def test_where_nothing_is_timed_a_model_is_asked_for_one_variant() -> None:
    context = modelled([blocks(2048)], answers(benchmark=benchmark(predicted=True)))
    summary = optimized(context)
    made = [variant for variant in summary.variants if variant.strategy == "model_change"]
    assert [variant.outcome for variant in made] == [Outcome.proposed]
    assert "Nothing was timed" in asked(context, "variant-v2")


def test_when_a_provider_goes_down_what_was_kept_is_compared_and_the_rest_goes_on() -> None:
    context = modelled([blocks(2048), DOWN], answers() | by_variant(1.5, 1.5, 1.5, 1.5, 1.5))
    result = context.run(Optimize())
    summary = result.output["summary"]
    assert (summary["winner"], summary["stop"], result.checkpoint) == ("v2", "no_answer", True)
    assert summary["notes"] == [
        "No model was asked any further: scripted is overloaded, after 3 tries. What was measured before stands."
    ]
    others = [variant["strategy"] for variant in summary["variants"][2:]]
    assert others and "model_change" not in others


def test_a_provider_that_is_back_after_a_pause_changes_nothing_that_was_decided() -> None:
    """A stage is run again from its start after each pause; the keys of what was measured must mean the same again."""
    context = modelled([DOWN], answers() | by_variant(1.5, 1.5, 1.5))
    first = context.run(Optimize()).output
    memos, keys = dict(context.memos), dict(context.keys)
    context.speaks = [blocks(2048)]
    context.kept.clear()
    del context.results[StageName.optimize]
    assert Optimize().run(context).output == first
    assert (context.memos, context.keys) == (memos, keys)


def test_a_budget_that_is_reached_in_the_middle_ends_the_asking_and_not_the_job() -> None:
    context = spent(modelled([], answers(), AuthorName.auto))
    summary = optimized(context)
    assert summary.notes == (f"No model was asked any further: {SPENT.message}. What was measured before stands.",)
    assert summary.winner is not None


def test_a_model_that_was_wanted_and_never_answers_ends_the_stage_where_nothing_is_better() -> None:
    context = spent(modelled([], answers(benchmark=benchmark(1.0))))
    with pytest.raises(UserFacingError) as caught:
        context.run(Optimize())
    failure = caught.value.failure
    assert (failure.code, failure.fix) == (FailureCode.budget, "Raise it.")
    assert SPENT.message in failure.message
    context.speaks, again = None, replace(modelled([], answers(benchmark=benchmark(1.0)), AuthorName.auto))
    again.speaks = [DOWN]
    assert optimized(again).winner is None


def test_a_job_that_is_cancelled_while_a_model_is_asked_keeps_no_silence() -> None:
    context = modelled([ModelError(Trouble.cancelled, "nobody waits")])
    with pytest.raises(UserFacingError, match="cancelled"):
        context.run(Optimize())
    assert not [key for key in context.memos if key.startswith("ending-")]


def test_the_file_that_a_model_starts_from_is_the_one_that_stands() -> None:
    context = modelled([blocks(2048)], variants=1)
    optimized(context)
    assert GEGLU.strip() in asked(context, "variant-v2")
