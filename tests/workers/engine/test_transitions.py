from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts import Decision, DecisionOutcome, StageName, Verb
from workers.pipelines import PIPELINES, Step
from workers.pipelines.transitions import (
    MAX_STAGE_ATTEMPTS,
    Move,
    Next,
    Waiting,
    after_approval,
    after_stage,
    judge,
    names_commit,
    retry_delay_s,
)

CREATE = PIPELINES[Verb.create]
SHA = "0123456789abcdef0123456789abcdef01234567"


def test_create_asks_for_a_review_after_each_of_its_stages() -> None:
    assert [(s.stage, s.checkpoint) for s in CREATE] == [
        (StageName.analyze, True),
        (StageName.generate, True),
        (StageName.validate, True),
    ]


@pytest.mark.parametrize("step", [step for pipeline in PIPELINES.values() for step in pipeline if step.checkpoint])
def test_stage_with_a_checkpoint_waits(step: Step) -> None:
    pipeline = next(pipeline for pipeline in PIPELINES.values() if step in pipeline)
    assert after_stage(pipeline, step.stage, checkpoint=True, auto=False) == Next(Move.wait)


@pytest.mark.parametrize("verb", [Verb.bench, Verb.verify])
def test_what_only_measures_asks_for_no_review(verb: Verb) -> None:
    assert after_stage(PIPELINES[verb], StageName.measure, checkpoint=True, auto=False) == Next(Move.finish)


def test_every_verb_with_stages_has_a_pipeline_and_every_stage_is_in_one() -> None:
    assert {step.stage for pipeline in PIPELINES.values() for step in pipeline} == set(StageName)


@pytest.mark.parametrize(("checkpoint", "auto"), [(True, True), (False, False), (False, True)])
def test_job_goes_on_by_itself_with_auto_or_where_the_stage_says_so(checkpoint: bool, auto: bool) -> None:
    assert after_stage(CREATE, StageName.analyze, checkpoint=checkpoint, auto=auto) == Next(
        Move.start, StageName.generate
    )


def test_step_without_a_checkpoint_does_not_wait() -> None:
    pipeline = (Step(StageName.analyze, checkpoint=False), Step(StageName.generate))
    assert after_stage(pipeline, StageName.analyze, checkpoint=True, auto=False) == Next(Move.start, StageName.generate)


def test_last_approval_finishes_the_job() -> None:
    assert after_approval(CREATE, StageName.validate) == Next(Move.finish)
    assert after_approval(CREATE, StageName.generate) == Next(Move.start, StageName.validate)


def test_errors_are_tried_three_times_with_growing_pauses() -> None:
    assert [retry_delay_s(tries) for tries in (1, 2, 3, 4)] == [5.0, 30.0, None, None]


@given(st.integers(min_value=0, max_value=60))
def test_commit_is_named_by_seven_characters_or_more(length: int) -> None:
    assert names_commit(SHA[:length], SHA) == (length >= 7)


@given(st.text(max_size=50))
def test_nothing_names_a_commit_that_is_not_there(given_sha: str) -> None:
    assert names_commit(given_sha, None) is False


@given(st.text(alphabet="0123456789abcdef%_*", min_size=7, max_size=40))
def test_only_a_prefix_names_a_commit(given_sha: str) -> None:
    assert names_commit(given_sha, SHA) == SHA.startswith(given_sha)


@pytest.mark.parametrize(
    ("waiting", "decision", "stage", "sha", "outcome"),
    [
        (None, Decision.approve, None, SHA, DecisionOutcome.nothing_waits),
        (Waiting(StageName.analyze, SHA, 1), Decision.approve, None, SHA, DecisionOutcome.accepted),
        (Waiting(StageName.analyze, SHA, 1), Decision.approve, StageName.analyze, SHA[:7], DecisionOutcome.accepted),
        (Waiting(StageName.analyze, SHA, 1), Decision.approve, StageName.generate, SHA, DecisionOutcome.stale),
        (Waiting(StageName.analyze, SHA, 1), Decision.approve, None, "f" * 40, DecisionOutcome.stale),
        (Waiting(StageName.analyze, None, 1), Decision.approve, None, SHA, DecisionOutcome.stale),
        (
            Waiting(StageName.analyze, SHA, MAX_STAGE_ATTEMPTS),
            Decision.revise,
            None,
            SHA,
            DecisionOutcome.attempts_used,
        ),
        (Waiting(StageName.analyze, SHA, MAX_STAGE_ATTEMPTS), Decision.approve, None, SHA, DecisionOutcome.accepted),
    ],
)
def test_review_is_judged(
    waiting: Waiting | None, decision: Decision, stage: StageName | None, sha: str, outcome: DecisionOutcome
) -> None:
    assert judge(waiting, decision, stage, sha) is outcome
