"""The search for a proved kernel among what a model proposes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import BenchmarkRequest, BenchmarkResult, Evidence, Status, Verdict, WorkloadTiming
from tests.workers.stages.answers import benchmark
from tests.workers.stages.context import FakeContext
from tests.workers.stages.creating import BROKEN_STYLE, OTHER, RIGHT, WRONG, answers, creating, kernel
from workers.contracts import (
    Attempt,
    AuthorName,
    CheckpointUpdate,
    Choose,
    CommitUpdate,
    FailureCode,
    GenerateSummary,
    UserFacingError,
)
from workers.engine.protocol import StageResult
from workers.models.protocol import ModelError, Question, Trouble
from workers.stages.analyze import Analyze
from workers.stages.generate import Generate

PATH = "small/kernels/reglu.py"


def analyzed(speaks: Any, author: AuthorName = AuthorName.llm, made: Any = None, **options: Any) -> FakeContext:
    context = creating(speaks, made, author=author, **options)
    context.run(Analyze())
    context.asked.clear()
    return context


def generated(context: FakeContext) -> tuple[GenerateSummary, StageResult]:
    result = context.run(Generate())
    (checkpoint,) = [update for update in result.updates if isinstance(update, CheckpointUpdate)]
    assert isinstance(checkpoint.summary, GenerateSummary)
    return checkpoint.summary, result


def committed(result: StageResult) -> dict[str, str | None]:
    commits = [update for update in result.updates if isinstance(update, CommitUpdate)]
    return {change.path: change.text for commit in commits for change in commit.changes}


def outcomes(attempts: tuple[Attempt, ...]) -> list[str]:
    return [attempt.outcome + (" chosen" if attempt.chosen else "") for attempt in attempts]


def failure(context: FakeContext) -> Any:
    with pytest.raises(UserFacingError) as caught:
        context.run(Generate())
    return caught.value.failure


def down(trouble: Trouble = Trouble.overloaded) -> ModelError:
    return ModelError(trouble, f"the provider is {trouble.value}", provider="scripted")


def test_the_first_that_is_proved_wins_and_the_rest_is_not_judged() -> None:
    context = analyzed([kernel(WRONG), kernel(RIGHT), kernel(OTHER)])
    summary, result = generated(context)
    assert context.order == ["verify verify-candidate-1", "verify verify-candidate-2"]
    assert outcomes(summary.attempts) == ["incorrect_gradient", "passed chosen", "not judged"]
    assert (summary.author, summary.verdict.status) == ("llm", Status.passed)
    text = committed(result)[PATH]
    assert text is not None and "tl.where(a > 0, dc * b, 0.0)" in text and "1024" in text


def test_candidates_are_asked_for_at_once_each_in_another_way() -> None:
    context = analyzed([kernel(RIGHT), kernel(OTHER)], candidates=2)
    generated(context)
    assert list(context.questions) == ["candidate-1", "candidate-2"]
    first, second = context.questions.values()
    assert first.purpose == second.purpose == "generate" and first != second


def test_the_fastest_wins_where_the_best_is_asked_for() -> None:
    def measured(request: BenchmarkRequest) -> BenchmarkResult:
        found: BenchmarkResult = benchmark()(request)
        fast = any("512" in file.text for file in request.candidate.files)
        return replace(found, rows=tuple(_taking(row, 0.5 if fast else 1.0) for row in found.rows))

    context = analyzed(
        [kernel(RIGHT), kernel(OTHER), kernel(WRONG)], made=answers(benchmark=measured), choose=Choose.best
    )
    summary, result = generated(context)
    assert outcomes(summary.attempts) == ["passed", "passed chosen", "incorrect_gradient"]
    assert [a.median_us and round(a.median_us) for a in summary.attempts] == [200, 100, None]
    assert context.order[-2:] == ["benchmark benchmark-candidate-1", "benchmark benchmark-candidate-2"]
    assert "512" in (committed(result)[PATH] or "")


def _taking(row: WorkloadTiming, factor: float) -> WorkloadTiming:
    return replace(row, timings=tuple(replace(it, median_us=(it.median_us or 0.0) * factor) for it in row.timings))


def test_without_a_gpu_the_first_of_the_proved_is_taken() -> None:
    summary, _ = generated(analyzed([kernel(RIGHT), kernel(OTHER)], candidates=2, choose=Choose.best))
    assert outcomes(summary.attempts) == ["passed chosen", "passed"]


def test_the_same_code_twice_is_judged_once() -> None:
    same = RIGHT.replace("\n\n\ndef reglu_forward", "\n\n\n# Said in other words.\ndef reglu_forward")
    context = analyzed([kernel(WRONG), kernel(WRONG.replace("c = a * b where", "c is a * b where")), kernel(same)])
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["incorrect_gradient", "duplicate", "passed chosen"]
    assert context.order == ["verify verify-candidate-1", "verify verify-candidate-3"]


def test_a_repair_sees_what_the_runner_found_and_is_judged_like_any_other() -> None:
    context = analyzed([kernel(WRONG), kernel(RIGHT)], candidates=1)
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["incorrect_gradient", "passed chosen"]
    assert [(a.task, a.round) for a in summary.attempts] == [("generate", 0), ("repair", 1)]
    told = _text(context.questions["repair-1"])
    assert "the gradient of a is off" in told and "T=7 I=129 float32" in told and "dc * b, mask" in told
    assert context.questions["repair-1"].purpose == "repair"


def test_the_one_that_came_furthest_is_repaired() -> None:
    compile_error = Verdict(Status.compile_error, (Evidence("compile", "it does not compile"),))

    def verdict(request: Any) -> Verdict:
        text = "\n".join(file.text for file in request.candidate.files)
        return compile_error if "512" in text else answers()["verify"](request)

    context = analyzed([kernel(OTHER), kernel(WRONG), kernel()], made=answers(verify=verdict), candidates=2)
    generated(context)
    told = _text(context.questions["repair-1"])
    assert "the gradient of a is off" in told and "it does not compile" not in told


def test_a_failing_style_check_is_evidence_and_nothing_of_it_is_run() -> None:
    context = analyzed([kernel(BROKEN_STYLE), kernel()], candidates=1)
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["style", "passed chosen"]
    assert context.order == ["verify verify-repair-1"]
    assert "not_defined_anywhere" in _text(context.questions["repair-1"])


def test_unusable_answers_are_told_with_their_faults_and_repaired() -> None:
    fenced = f"```python\n{RIGHT}```\n"
    reaching = RIGHT.replace("import torch\n", "import socket\nimport torch\n", 1)
    context = analyzed([kernel(fenced), kernel(reaching), kernel("def reglu_forward(:"), kernel()])
    summary, _ = generated(context)
    assert outcomes(summary.attempts) == ["fence", "reach", "syntax", "passed chosen"]
    assert context.order == ["verify verify-repair-1"]


def test_where_nothing_is_proved_the_failure_lists_every_attempt_and_nothing_is_committed() -> None:
    wrong = [kernel(WRONG.replace("1024", str(size))) for size in (64, 128, 256)]
    context = analyzed(wrong, candidates=1, repairs=2)
    told = failure(context)
    assert told.code is FailureCode.verdict
    assert "none of 3 kernels of the model is proved" in told.message
    assert [line.partition(":")[0] for line in told.attempts] == [
        "attempt 1 (generate) ended as `incorrect_gradient`",
        "attempt 2 (repair 1) ended as `incorrect_gradient`",
        "attempt 3 (repair 2) ended as `incorrect_gradient`",
    ]
    assert "T=7 I=129 float32" in (told.log or "")
    assert context.results.keys() == {Analyze.name}


def test_all_unusable_ends_after_its_rounds_with_the_last_fault() -> None:
    context = analyzed([{"source": "no"} for _ in range(6)])
    told = failure(context)
    assert (told.code, len(told.attempts), context.order) == (FailureCode.verdict, 6, [])
    assert "`form`" in told.message


def test_the_trouble_of_one_does_not_end_the_others() -> None:
    summary, _ = generated(analyzed([down(), kernel(), down(Trouble.refused)]))
    assert outcomes(summary.attempts) == ["overloaded", "passed chosen", "refused"]


def test_where_nobody_answers_each_provider_is_named_and_the_model_is_to_blame() -> None:
    context = analyzed([down(), down(), down(Trouble.truncated)])
    told = failure(context)
    assert told.code is FailureCode.model
    assert "the provider is overloaded; the provider is truncated" in told.message
    assert len(told.attempts) == 3


def test_a_repair_that_nobody_answers_is_the_models_trouble_not_the_kernels() -> None:
    told = failure(analyzed([kernel(WRONG), down()], candidates=1))
    assert told.code is FailureCode.model and len(told.attempts) == 2


@pytest.mark.parametrize("status", [Status.degenerate_problem, Status.environment_error])
def test_what_no_kernel_can_pass_ends_the_search_at_once(status: Status) -> None:
    context = analyzed([kernel(), kernel(OTHER)], candidates=2, made=answers(verify=Verdict(status)))
    assert status.value in failure(context).message
    assert len(context.order) == 1


def test_every_attempt_is_an_artifact_with_the_key_of_its_question() -> None:
    context = analyzed([kernel(WRONG), down(), kernel()])
    summary, _ = generated(context)
    kept = json.loads(context.load(context.names["attempts-generate-1.json"]))
    assert (kept["stage"], kept["attempt"]) == ("generate", 1)
    assert [(a["question"], a["outcome"], a["chosen"], a["tokens"]) for a in kept["attempts"]] == [
        ("candidate-1", "incorrect_gradient", False, 150),
        ("candidate-2", "overloaded", False, None),
        ("candidate-3", "passed", True, 150),
    ]
    assert kept["attempts"][0]["evidence"].startswith("gradients: the gradient of a is off")
    assert [a.number for a in summary.attempts] == [1, 2, 3]


def test_a_run_after_a_pause_comes_to_the_same() -> None:
    context = analyzed([kernel(WRONG), kernel(), kernel(OTHER)])
    first = Generate().run(context)
    assert Generate().run(context) == first


def test_auto_takes_the_compiler_and_asks_nobody_where_it_can_write_the_kernel() -> None:
    context = analyzed([], AuthorName.auto)
    summary, _ = generated(context)
    assert (summary.author, summary.attempts, context.questions) == ("compiler", (), {})


def test_the_models_own_plan_is_kept_for_the_stages_that_follow() -> None:
    _, result = generated(analyzed([kernel()], candidates=1))
    assert (result.output["author"], result.output["plan"]["block_size_source"]) == ("llm", "calculate_settings")


def test_a_cancelled_job_asks_for_no_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    context = analyzed([kernel(WRONG), kernel()], candidates=1)
    monkeypatch.setattr(FakeContext, "cancelled", lambda _: True)
    failure(context)
    assert list(context.questions) == ["candidate-1"]


def test_a_model_is_wanted_and_none_is_there() -> None:
    with pytest.raises(UserFacingError) as caught:
        analyzed(None)
    assert caught.value.failure.code is FailureCode.model


def _text(question: Question) -> str:
    return "\n".join(part.text for message in question.messages for part in message.parts)
