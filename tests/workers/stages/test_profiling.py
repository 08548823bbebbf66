from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_runner.contracts import RecordedCall, RecordedTensor, RecordResult
from tests.workers.layouts import miniature
from tests.workers.stages import library
from tests.workers.stages.answers import WRONG, answers, benchmark
from tests.workers.stages.context import FakeContext, optimizing
from tests.workers.stages.jobs import finalized, optimized, profiled
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitUpdate,
    FailureCode,
    ProblemKind,
    ProblemText,
    ProfileSummary,
    PullRequestUpdate,
    ReportUpdate,
    StageName,
    StopReason,
    UserFacingError,
)
from workers.stages.profiling import NO_GPU, Profile
from workers.tree import Tree

# A kernel of which nothing known says how it is called.
OTHER = library.GEGLU.replace("LigerGELUMulFunction", "OtherFunction").replace("geglu_", "other_").encode()
ORDER = [
    "tests environment",
    "capture capture",
    "record record",
    "verify verify",
    "benchmark benchmark",
    "profile profile",
    "tests v0-script",
]


def profile(context: FakeContext) -> ProfileSummary:
    result = context.run(Profile())
    (summary,) = [u.summary for u in result.updates if isinstance(u, CheckpointUpdate)]
    assert isinstance(summary, ProfileSummary)
    return summary


def failure(context: FakeContext) -> UserFacingError:
    with pytest.raises(UserFacingError) as caught:
        context.run(Profile())
    return caught.value


def test_profile_asks_in_this_order_and_shows_without_touching_anything() -> None:
    context = optimizing(answers())
    result = context.run(Profile())
    assert context.order == ORDER
    assert [type(update) for update in result.updates] == [
        CommitUpdate,
        PullRequestUpdate,
        AssetsUpdate,
        CheckpointUpdate,
    ]
    assert result.checkpoint is True
    assert "profile.json" in context.names


def test_what_stands_is_proved_beside_itself_and_measured_alone_at_every_size() -> None:
    context = optimizing(answers())
    summary = profile(context)
    asked = dict(context.asked)
    assert asked["verify verify"].original == asked["verify verify"].candidate
    assert asked["verify verify"].quick is True
    assert asked["benchmark benchmark"].original is None
    assert {row.workload for row in summary.benchmark.rows} == set(asked["benchmark benchmark"].workloads)


def test_the_sweep_is_the_first_of_the_strategies_whose_triggers_hold() -> None:
    found = [planned.strategy for planned in profile(optimizing(answers())).strategies]
    assert found[0] == "parameter_sweep"
    assert set(found[1:]) == {"pipelined_loops", "constant_sizes", "eviction_hints"}


def test_sizes_of_the_librarys_own_script_are_measured_beside_the_problems() -> None:
    tensor = RecordedTensor((3, 5000), "bfloat16", contiguous=True, grad=True)
    plain = profile(optimizing(answers())).benchmark.rows
    recorded = profile(optimizing(answers(record=RecordResult((RecordedCall((tensor, tensor)),))))).benchmark.rows
    more = {row.workload for row in recorded} - {row.workload for row in plain}
    assert [sorted(size for _, size in workload.sizes) for workload in more] == [[3, 5000]]


def test_a_script_that_gives_no_sizes_is_told_with_its_error() -> None:
    summary = profile(optimizing(answers(record=RecordResult((), "ModuleNotFoundError: pandas"))))
    assert any("gave no sizes" in note and "pandas" in note for note in summary.notes)
    assert any("could not be traced" in note for note in summary.notes)


def test_a_kernel_at_its_floor_ends_at_once_with_nothing_measured_again() -> None:
    context = profiled(answers(benchmark=benchmark(over_floor=1.02)))
    summary = optimized(context)
    report, result = finalized(context)
    assert context.asked == []
    assert (summary.variants, summary.stop) == ((), StopReason.floor_reached)
    assert (report.applied, report.diff) == (False, "")
    assert "already at the floor" in report.notes[0]
    assert [type(update) for update in result.updates] == [ReportUpdate]


def test_no_person_is_asked_about_a_kernel_at_its_floor() -> None:
    context = optimizing(answers(benchmark=benchmark(over_floor=1.02)))
    assert context.run(Profile()).checkpoint is False
    assert context.results[StageName.profile]["strategies"] == []


def test_without_a_gpu_everything_is_said_to_be_predicted_and_nothing_is_given_up() -> None:
    summary = profile(optimizing(answers(benchmark=benchmark(predicted=True))))
    assert summary.benchmark.predicted is True
    assert summary.nothing_to_gain is False
    assert NO_GPU in summary.notes


def test_a_problem_that_is_not_what_the_kernel_computes_ends_the_job_before_anything_is_measured() -> None:
    context = optimizing(answers(verify=WRONG))
    found = failure(context).failure
    assert found.code is FailureCode.problem
    assert "does not say what `geglu` computes today" in found.message
    assert "CALL" in (found.fix or "")
    assert context.order == ORDER[:4]


@pytest.mark.parametrize("action", [place.split()[0] for place in ORDER])
def test_a_gpu_host_that_fails_is_named_with_the_fix(action: str) -> None:
    found = failure(optimizing(answers(**{action: "its host was lost three times"}))).failure
    assert found.code is FailureCode.environment
    assert "its host was lost three times" in found.message
    assert "/kernel retry" in (found.fix or "")


def test_all_that_is_missing_is_named_at_once_and_nothing_is_asked() -> None:
    files = {path: text.encode() for path, text in miniature.files().items()}
    context = optimizing(answers(), Tree(files | {library.PATH: OTHER}))
    context.request = replace(context.request, problem=ProblemText(ProblemKind.words, "make it fast"))
    found = failure(context).failure
    assert library.SUITE in found.message
    assert library.SCRIPT in found.message
    assert "nothing says what `geglu` computes" in found.message
    assert found.fix is not None and "CALL" in found.fix
    assert context.asked == []


def test_a_problem_in_the_command_must_say_how_the_kernel_is_called() -> None:
    context = optimizing(answers())
    text = "def reference(a, b):\n    return a * b\n\n\nINPUTS = {'a': 'T I', 'b': 'T I'}\nWORKLOADS = [{'T': 4, 'I': 8}]\n"
    context.request = replace(context.request, problem=ProblemText(ProblemKind.block, text))
    assert "does not say how the kernel is called" in failure(context).failure.message
