from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import BenchmarkRequest, SourceFile, from_json
from tests.conversations.modifying import PROBLEM
from tests.workers.layouts.miniature import DATA
from tests.workers.stages.answers import WRONG, benchmark
from tests.workers.stages.context import Answers, FakeContext
from tests.workers.stages.library import PATH, SCRIPT
from tests.workers.stages.modifying.changing import TODAY, TREE, answers, modifying, ran
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    ConfirmSummary,
    PullRequestUpdate,
    ReadyUpdate,
    UserFacingError,
)
from workers.engine.protocol import StageResult
from workers.stages.confirm import ALONE, AS_TODAY, Confirm
from workers.stages.modify import Modify
from workers.tree import Tree

CSV = "benchmark/data/all_benchmark_data.csv"
ROW = 'geglu,liger,forward,speed,ms,T,tokens,1024,0.15,0.1,0.2,"{""bsz"": 1}",NVIDIA H200,2026-11-20 03:04:05,9.9.1\r\n'


def pushed(made: Answers | None = None, tree: Tree = TREE, problem: str | None = None) -> FakeContext:
    """Give a job whose change was approved."""
    context = modifying(made, tree=tree, problem=problem)
    context.run(Modify())
    return context.again()


def confirmed(context: FakeContext) -> tuple[ConfirmSummary, StageResult]:
    result = context.run(Confirm())
    return from_json(ConfirmSummary, result.output["summary"]), result


def test_everything_is_held_against_the_change_once_more_and_then_measured() -> None:
    context = pushed()
    summary, result = confirmed(context)
    assert context.order == [
        "tests tests-today",
        "tests tests-confirm",
        "tests before-confirm",
        "verify verify",
        "benchmark benchmark",
        "tests script",
    ]
    full = dict(context.asked)["verify verify"]
    assert (full.quick, full.problem_source) == (False, PROBLEM)
    assert [type(update) for update in result.updates] == [
        PullRequestUpdate,
        AssetsUpdate,
        ReadyUpdate,
        CheckpointUpdate,
    ]
    assert summary.reproduce == "kernelsmith modify geglu --repo . --request request.txt --auto --candidates 1"
    assert context.load(context.names["request.txt"]).decode() == context.request.words


def test_the_call_of_today_is_measured_beside_what_stood() -> None:
    context = pushed()
    summary, _ = confirmed(context)
    asked = dict(context.asked)["benchmark benchmark"]
    assert isinstance(asked, BenchmarkRequest)
    assert asked.problem_source != PROBLEM
    assert asked.original is not None
    assert PATH in {file.path for file in asked.candidate.files}
    assert PATH not in {file.path for file in asked.original.files}
    assert AS_TODAY in summary.notes


def test_where_the_call_of_today_breaks_the_change_is_measured_alone() -> None:
    context = pushed(answers(**{"verify old-candidate-1": WRONG}))
    summary, _ = confirmed(context)
    asked = dict(context.asked)["benchmark benchmark"]
    assert (asked.problem_source, asked.original) == (PROBLEM, None)
    assert ALONE in summary.notes
    assert summary.change.broken_call is not None


def test_a_change_that_fails_the_second_time_ends_the_job() -> None:
    with pytest.raises(UserFacingError, match="output 0 is off") as told:
        confirmed(pushed(answers(**{"verify verify": WRONG})))
    assert "stays on the draft pull request" in (told.value.failure.fix or "")
    with pytest.raises(UserFacingError, match="tests fail with the change"):
        confirmed(pushed(answers(**{"tests tests-confirm": ran("test_values")})))


def test_without_a_script_or_a_gpu_none_is_run() -> None:
    without = Tree({path: text for path, text in TREE.files.items() if path != SCRIPT})
    for context in (pushed(tree=without), pushed(answers(benchmark=benchmark(predicted=True)))):
        summary, _ = confirmed(context)
        assert summary.script is None
        assert "tests script" not in context.order


def test_what_the_script_measured_is_committed() -> None:
    written = replace(TODAY, collected=(SourceFile(CSV, DATA + ROW),))
    context = pushed(answers(**{"tests script": written}), Tree({**TREE.files, CSV: DATA.encode()}))
    _, result = confirmed(context)
    (commit,) = [update for update in result.updates if isinstance(update, CommitUpdate)]
    assert (commit.purpose, [change.path for change in commit.changes]) == (CommitPurpose.benchmark_data, [CSV])
    _, again = confirmed(context.again("Once more."))
    assert [update for update in again.updates if isinstance(update, CommitUpdate)] == []


def test_a_problem_that_came_with_the_request_is_kept_beside_its_words() -> None:
    context = pushed(problem=PROBLEM)
    summary, _ = confirmed(context)
    assert summary.reproduce.endswith("--problem problem.py --candidates 1")
    assert context.load(context.names["problem.py"]).decode() == PROBLEM
