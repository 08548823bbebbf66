"""``auto`` where the compiler's kernel can be beaten: when a model is asked, and whose kernel goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import BenchmarkRequest, BenchmarkResult, Timing
from tests.workers.stages.answers import benchmark
from tests.workers.stages.context import FakeContext, Said
from tests.workers.stages.creating import OTHER, RIGHT, WRONG, answers, creating, kernel
from tests.workers.stages.test_search import PATH, committed, down, generated, outcomes
from workers.contracts import AuthorName, Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageResult
from workers.models.protocol import Question, Trouble
from workers.stages.analyze import Analyze
from workers.stages.generate import Generate
from workers.stages.validate import Validate

Answer = Callable[[BenchmarkRequest], BenchmarkResult]
ASKED = "The compiler's kernel takes {} times the reachable time, so a model was asked for a faster one; "
FAR = "1.92"  # 200 us where 100 and a launch can be reached
MODELS = "tl.store(da_ptr + offsets, tl.where("
ALONE, BESIDE = "benchmark better-alone", "benchmark better-beside"


def analyzed(
    speaks: Any, speedup: float = 1.5, over_floor: float = 2.0, author: AuthorName = AuthorName.auto, **options: Any
) -> FakeContext:
    made: Answer | None = options.pop("made", None)
    measured = benchmark(speedup, over_floor) if made is None else made
    context = creating(speaks, answers(benchmark=measured), author=author, **({"candidates": 1} | options))
    context.run(Analyze())
    context.asked.clear()
    return context


def is_the_compilers(result: StageResult) -> bool:
    return result.output["author"] == "compiler" and (result.output["model"], result.output["source"]) == (
        None,
        compilers_source(),
    )


def compilers_source() -> str:
    context = analyzed(None)
    context.run(Generate())
    return str(context.results[Generate.name]["source"])


def test_a_kernel_far_from_its_floor_is_beaten_by_a_models_that_is_proved_and_faster() -> None:
    context = analyzed([kernel()])
    summary, result = generated(context)
    assert context.order == ["verify verify", ALONE, "verify verify-better-candidate-1", BESIDE]
    assert (summary.author, result.output["author"]) == ("llm", "llm")
    assert result.output["model"] == "scripted model-of-the-test"
    assert summary.notes[0] == ASKED.format(FAR) + (
        "its kernel is taken, by a run of both: 1.50 times as fast (1.49 to 1.51) at the one size."
    )
    assert outcomes(summary.attempts) == ["passed chosen"]
    assert [round(a.median_us or 0) for a in summary.attempts] == [133]
    assert MODELS in (committed(result)[PATH] or "")


def test_both_are_timed_in_one_run_at_the_problems_own_sizes_with_nobody_else() -> None:
    context = analyzed([kernel()])
    generated(context)
    beside = dict(context.asked)[BESIDE]
    assert MODELS in "".join(file.text for file in beside.candidate.files)
    assert compilers_source().splitlines()[-1] in "".join(file.text for file in beside.original.files)
    assert (beside.contenders, beside.workloads, [p.value for p in beside.passes]) == (
        ("original",),
        (),
        ["forward", "backward", "full"],
    )


def test_the_model_gets_the_compilers_kernel_and_what_was_measured_of_it() -> None:
    context = analyzed([kernel()])
    generated(context)
    told = _text(context.questions["better-candidate-1"])
    assert compilers_source() in told
    assert "write one that is faster over these sizes and slower at none" in told
    assert "The compiled kernel, timed on NVIDIA H200 at the problem's own sizes" in told
    for each in ("forward", "backward", "full"):
        assert (
            f"{each} at T=4096 I=11008: 200.0 us, floor 100.0 us, the floor is 50% of its time, bound by memory" in told
        )


def test_other_contenders_stand_beside_the_times() -> None:
    def measured(request: BenchmarkRequest) -> BenchmarkResult:
        found: BenchmarkResult = benchmark(1.5)(request)
        more = (Timing("eager", 500.0), Timing("torch_compile", 150.0))
        return replace(found, rows=tuple(replace(row, timings=(*row.timings, *more)) for row in found.rows))

    context = analyzed([kernel()], made=measured)
    generated(context)
    assert "bound by memory, eager 500.0 us, torch.compile 150.0 us" in _text(context.questions["better-candidate-1"])


SLOWER = (
    "0.80 times as fast (0.80 to 0.80) at the one size, and slower in forward at T=4096 I=11008: "
    "0.80 times as fast (0.80 to 0.80)"
)
SAME = "1.00 times as fast (1.00 to 1.01) at the one size, which is not faster beyond noise"


@pytest.mark.parametrize(("speedup", "told"), [(0.8, SLOWER), (1.005, SAME)], ids=["slower", "same"])
def test_one_that_is_not_faster_is_not_taken_though_it_is_proved(speedup: float, told: str) -> None:
    context = analyzed([kernel()], speedup)
    summary, result = generated(context)
    assert is_the_compilers(result)
    assert MODELS not in (committed(result)[PATH] or "")
    assert summary.notes[0] == ASKED.format(FAR) + (f"its kernel is proved and not taken, by a run of both: {told}.")
    assert outcomes(summary.attempts) == ["not faster"]
    kept = json.loads(context.load(context.names["attempts-generate-1.json"]))
    assert [(a["outcome"], a["chosen"], a["evidence"]) for a in kept["attempts"]] == [("not faster", False, told)]


def test_one_that_is_wrong_is_not_taken() -> None:
    context = analyzed([kernel(WRONG), kernel(WRONG.replace("1024", "64"))], repairs=1)
    summary, result = generated(context)
    assert is_the_compilers(result)
    assert outcomes(summary.attempts) == ["incorrect_gradient", "incorrect_gradient"]
    assert summary.notes[0] == ASKED.format(FAR) + (
        "the compiler's stays, since none of 2 kernels of the model is proved; the one that came furthest ended as "
        "`incorrect_gradient`: the gradient of a is off."
    )
    assert BESIDE not in context.order


def test_a_wrong_one_is_repaired_before_it_is_timed() -> None:
    context = analyzed([kernel(WRONG), kernel()])
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["incorrect_gradient", "passed chosen"]
    assert "The compiled kernel, timed on" in _text(context.questions["better-repair-1"])
    assert context.order[-1] == BESIDE


@pytest.mark.parametrize("trouble", [Trouble.overloaded, Trouble.unauthorised, Trouble.refused])
def test_where_nobody_answers_the_compilers_kernel_goes_on_and_the_comment_says_why(trouble: Trouble) -> None:
    context = analyzed([down(trouble)])
    summary, result = generated(context)
    assert is_the_compilers(result)
    assert summary.notes[0] == ASKED.format(FAR) + (
        f"the compiler's stays, since no model gave a kernel: the provider is {trouble.value}."
    )
    assert outcomes(summary.attempts) == [trouble.value]


def test_where_a_budget_is_reached_the_compilers_kernel_goes_on() -> None:
    def reached(_: Question) -> Said:
        raise UserFacingError(Failure(FailureCode.budget, "the model budget of this job is reached", "Raise it."))

    summary, result = generated(analyzed(reached))
    assert is_the_compilers(result)
    assert summary.notes[0].endswith("the compiler's stays, since the model budget of this job is reached.")


def test_a_host_that_fails_ends_the_stage_and_is_no_reason_to_go_on() -> None:
    context = analyzed([kernel()])
    context.answers[BESIDE] = "the GPU is gone"
    with pytest.raises(UserFacingError) as caught:
        context.run(Generate())
    assert caught.value.failure.code is FailureCode.environment


@pytest.mark.parametrize(
    "made",
    [
        benchmark(1.5, 1.05),  # near the floor
        benchmark(1.5, predicted=True),
        benchmark(1.5, 100.0),  # 200 us over a floor of 2: launches
    ],
    ids=["near", "predicted", "launches"],
)
def test_nothing_is_asked_without_room_that_was_measured(made: Answer) -> None:
    context = analyzed([], made=made)
    summary, result = generated(context)
    assert (context.questions, context.order) == ({}, ["verify verify", ALONE])
    assert is_the_compilers(result) and not summary.attempts
    assert not any("a model was asked" in note for note in summary.notes)


@pytest.mark.parametrize(("author", "speaks"), [(AuthorName.compiler, []), (AuthorName.auto, None)])
def test_nothing_is_measured_where_no_model_may_be_asked(author: AuthorName, speaks: Any) -> None:
    context = analyzed(speaks, author=author)
    _, result = generated(context)
    assert context.order == ["verify verify"] and is_the_compilers(result)


def test_a_kernel_that_a_model_writes_anyway_is_not_held_against_the_compilers() -> None:
    context = analyzed([kernel()], author=AuthorName.llm)
    generated(context)
    assert context.order == ["verify verify-candidate-1"]


def test_the_terms_of_the_command_hold_for_this_search_too() -> None:
    context = analyzed([kernel(WRONG), kernel(RIGHT), kernel(OTHER)], candidates=3)
    summary, _ = generated(context)
    assert list(context.questions) == [f"better-candidate-{n}" for n in (1, 2, 3)]
    assert outcomes(summary.attempts)[:2] == ["incorrect_gradient", "passed chosen"]


def test_a_run_after_a_pause_comes_to_the_same() -> None:
    for speaks, speedup in (([kernel(WRONG), kernel()], 1.5), ([kernel()], 0.8), ([down()], 1.5)):
        context = analyzed(speaks, speedup)
        assert Generate().run(context) == Generate().run(context)


def test_a_review_of_a_kernel_that_was_taken_goes_to_the_model() -> None:
    context = analyzed([kernel()])
    generated(context)
    again = context.again("Use smaller blocks.")
    again.speaks = [kernel(OTHER, ("Done.",))]
    summary, _ = generated(again)
    assert (summary.author, again.order) == ("llm", ["verify verify-candidate-1"])
    assert "512" in str(again.results[Generate.name]["source"])


def test_what_was_taken_is_what_validate_works_with() -> None:
    context = analyzed([kernel()])
    generated(context)
    context.run(Validate())
    left = context.results[Validate.name]
    assert (left["author"], left["model"]) == ("llm", "scripted model-of-the-test")
    assert MODELS in left["source"]


def _text(question: Question) -> str:
    return "\n".join(part.text for message in question.messages for part in message.parts)
