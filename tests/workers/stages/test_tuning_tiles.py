"""A kernel of a repository in cuTile or CuTe DSL: its settings are tuned as launches are, and nothing else is tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import CaptureResult, CaseOutcome, Choice, Pass, TestCase, TestsResult, TuneResult, Workload
from tests.recorded.libraries import PLAIN
from tests.workers.compiler.captured import captured
from tests.workers.compiler.test_cutedsl import emitted as threads
from tests.workers.compiler.test_cutile import emitted
from tests.workers.stages.answers import answers
from tests.workers.stages.context import Answers, FakeContext, optimizing
from tests.workers.stages.jobs import finalized, optimized, text_of
from workers.contracts import (
    AuthorName,
    CheckpointUpdate,
    CommitUpdate,
    JobOptions,
    Outcome,
    ProblemKind,
    ProblemText,
    ProfileSummary,
    StageName,
    UserFacingError,
    Verb,
)
from workers.stages.bench import look_over_optimize
from workers.stages.optimize import Optimize
from workers.stages.profiling import SETTINGS_ALONE, Profile
from workers.tree import Tree

PATH = "small/kernels/geglu.py"
KERNEL = emitted("geglu_tanh").source
CALL = '\nCALL = "candidate(a, b)"\n'
CUTILE = PLAIN | {
    PATH: KERNEL.encode(),
    "tests/test_geglu.py": b"from small.kernels.geglu import candidate\n\n\ndef test_values():\n    assert candidate\n",
    "benchmarks/benchmark_geglu.py": b"from small.kernels.geglu import candidate\n",
    ".kernelsmith/problems/geglu.py": (captured("geglu_tanh")[0].source + CALL).encode(),
}
CUTEDSL = Tree(CUTILE | {PATH: threads("geglu_tanh").source.encode()})
FOUND = TuneResult(
    (Choice(Pass.forward, Workload((("T", 4096), ("I", 11008))), 2**25, (("BLOCK_SIZE", 2048),), 1.2, 1.1, 1.3, 9),),
    "sm_90",
    ((Pass.forward, ((2**25, (("BLOCK_SIZE", 2048),)),)),),
    "NVIDIA H200",
)


def tuning(verb: Verb = Verb.tune, **more: Any) -> FakeContext:
    made: Answers = answers(capture=CaptureResult(captured("geglu_tanh")[1]), **more)
    context = optimizing(made, Tree(CUTILE))
    context.request = replace(context.request, verb=verb)
    context.run(Profile())
    return context.again()


def test_a_tile_that_is_faster_is_looked_up_in_the_file_that_is_committed() -> None:
    context = tuning(tune=FOUND)
    summary = optimized(context)
    assert [(v.strategy, v.outcome) for v in summary.variants] == [("parameter_sweep", Outcome.kept)]
    context.run(Optimize())
    _, result = finalized(context.again())
    commit = next(update for update in result.updates if isinstance(update, CommitUpdate))
    written = next(change.text or "" for change in commit.changes if change.path == PATH)
    assert '"forward": ((33554432, {"BLOCK_SIZE": 2048}),),' in written
    assert 'tuned = _tuned(a.device, "forward", n_elements, BLOCK_SIZE=1024)' in written
    assert written.count("_tuned(") == 2, "its definition, and the pass for which there is one"


def test_threads_that_are_faster_are_looked_up_in_the_file_that_is_committed() -> None:
    source = threads("geglu_tanh").source
    found = (("THREADS", 512),)
    choice = replace(FOUND.choices[0], settings=found)
    tuned = replace(FOUND, choices=(choice,), table=((Pass.forward, ((2**25, found),)),))
    context = optimizing(answers(capture=CaptureResult(captured("geglu_tanh")[1]), tune=tuned), CUTEDSL)
    context.run(Profile())
    context = context.again()
    summary = optimized(context)
    assert [(v.strategy, v.outcome) for v in summary.variants] == [("parameter_sweep", Outcome.kept)]
    written = text_of(context, "v1")
    assert 'tuned = _tuned(a.device, "forward", n_elements, THREADS=256)' in written
    assert written.count("_tuned(") == 2 and written != source


@pytest.mark.parametrize("verb", [Verb.tune, Verb.optimize])
def test_where_no_tile_is_faster_the_file_stays(verb: Verb) -> None:
    context = tuning(verb)
    summary = optimized(context)
    assert [(v.strategy, v.outcome) for v in summary.variants] == [("parameter_sweep", Outcome.duplicate)]
    assert summary.winner is None and text_of(context, "v1") == KERNEL


def test_the_profile_says_that_the_tiles_alone_are_tried() -> None:
    context = tuning(Verb.optimize)
    asked = next(update for update in Profile().run(context).updates if isinstance(update, CheckpointUpdate))
    assert isinstance(asked.summary, ProfileSummary) and SETTINGS_ALONE.format("cuTile") in asked.summary.notes


def test_the_runner_is_handed_the_file_by_which_it_knows_the_language() -> None:
    context = tuning(tune=FOUND)
    optimized(context)
    forms = [
        form
        for _, request in context.asked
        for form in (getattr(request, "candidate", None), getattr(request, "original", None))
        if form is not None
    ]
    assert len(forms) > 3 and all(PATH in {file.path for file in form.files} for form in forms)


def test_no_model_is_asked_for_one() -> None:
    nothing = ProblemText(ProblemKind.missing)
    for tree, language in ((Tree(CUTILE), "cuTile"), (CUTEDSL, "CuTe DSL")):
        assert look_over_optimize("geglu", nothing, tree, JobOptions()) == "geglu"
        with pytest.raises(UserFacingError, match=f"no language model changes kernels in {language}"):
            look_over_optimize("geglu", nothing, tree, JobOptions(author=AuthorName.llm))


def test_a_host_without_cutile_is_no_reason_to_refuse_since_the_runner_stands_in_for_it() -> None:
    lacking = TestCase("small.kernels.geglu", CaseOutcome.failed, 0.1, "cuda: No module named 'cuda'")
    imports = TestsResult(False, 1, (lacking,), "1 failed", "")
    assert tuning(**{"tests environment": imports}).results[StageName.profile]["strategies"]
    other = replace(lacking, message="numba: No module named 'numba'")
    with pytest.raises(UserFacingError, match="numba"):
        tuning(**{"tests environment": replace(imports, cases=(other,))})
