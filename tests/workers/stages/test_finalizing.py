from __future__ import annotations

import base64

import pytest

from gpu_runner.contracts import CaseOutcome, Evidence, Picture, SourceFile, Status, TestCase, TestsResult, Verdict
from tests.workers.layouts.miniature import DATA
from tests.workers.stages import library
from tests.workers.stages.answers import answers, benchmark, failing_tests
from tests.workers.stages.context import Answers, FakeContext
from tests.workers.stages.jobs import different, finalized, optimized, profiled, scripted
from tests.workers.stages.library import PATH
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CloseUpdate,
    CommitPurpose,
    CommitUpdate,
    FinalizeSummary,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    UserFacingError,
)
from workers.stages.finalize import BACK, NO_CHANGE, Finalize
from workers.tree import Tree

PAGE = "optimization/geglu/profile.md"
CSV = "benchmark/data/all_benchmark_data.csv"
ROW = 'geglu,liger,forward,speed,ms,T,tokens,1024,0.15,0.1,0.2,"{""bsz"": 1}",NVIDIA H200,2026-11-20 03:04:05,9.9.1\r\n'
Patch = pytest.MonkeyPatch


def searched(
    monkeypatch: Patch,
    made: Answers | None = None,
    speedups: tuple[float, ...] = (1.1, 1.5, 1.3),
    tree: Tree | None = None,
) -> FakeContext:
    """Give a job whose comparison stands, with its variants so many times as fast."""
    found: Answers = answers() | {f"benchmark v{n}-benchmark": benchmark(s) for n, s in enumerate(speedups, 1)}
    context = scripted(monkeypatch, profiled(found | (made or {}), tree), *different(len(speedups)))
    optimized(context)
    return context.again()


def verdict(message: str) -> Verdict:
    return Verdict(Status.incorrect_gradient, (Evidence("gradient", message),))


def test_the_winner_is_committed_alone_after_it_passed_everything(monkeypatch: Patch) -> None:
    context = searched(monkeypatch)
    report, result = finalized(context)
    assert context.order == ["tests tests-v2", "verify verify-v2", "benchmark benchmark", "tests script"]
    assert (report.applied, report.winner and report.winner.name, report.notes) == (True, "v2", ())
    kinds = [type(update) for update in result.updates]
    assert kinds == [CommitUpdate, PullRequestUpdate, AssetsUpdate, ReadyUpdate, CheckpointUpdate]
    commit = result.updates[0]
    assert isinstance(commit, CommitUpdate)
    assert (commit.purpose, [c.path for c in commit.changes]) == (CommitPurpose.optimization, [PATH, PAGE])
    assert commit.changes[1].text is None
    assert "+LINE_2 = 2" in report.diff and f"+++ b/{PATH}" in report.diff


def test_what_is_tested_proved_measured_and_committed_is_the_same_text_as_the_style_check_left_it(
    monkeypatch: Patch,
) -> None:
    context = searched(monkeypatch)
    _, result = finalized(context)
    commit = result.updates[0]
    assert isinstance(commit, CommitUpdate)
    text = commit.changes[0].text
    # The strategy left out the blank lines that the library's formatter wants behind a class.
    assert text is not None and "\n\n\nLINE_1 = 1\n" in text
    for place, request in context.asked:
        files = request.files if place.startswith("tests") else request.candidate.files
        assert {f.path: f.text for f in files}[PATH] == text, place
    assert dict(context.asked)["verify verify-v2"].quick is False


def test_the_next_best_is_tried_where_the_librarys_tests_fail_on_the_winner(monkeypatch: Patch) -> None:
    context = searched(monkeypatch, {"tests tests-v2": failing_tests("test_grad", "test_shape")})
    report, result = finalized(context)
    assert report.winner is not None and report.winner.name == "v1"
    assert report.notes == (
        "v2: the library's tests fail that pass without the change: test_geglu.py::test_grad, test_geglu.py::test_shape",
    )
    assert context.order[:3] == ["tests tests-v2", "tests tests-today", "tests tests-v1"]
    commit = result.updates[0]
    assert isinstance(commit, CommitUpdate)
    assert "LINE_2" not in (commit.changes[0].text or "")


def test_after_the_winner_and_two_repairs_the_original_stands_and_nothing_is_committed(monkeypatch: Patch) -> None:
    made: Answers = {f"tests tests-v{n}": failing_tests("test_grad") for n in range(1, 5)}
    context = searched(monkeypatch, made, (1.1, 1.2, 1.3, 1.4))
    report, result = finalized(context)
    assert [place for place in context.order if place.startswith("tests tests-v")] == [
        "tests tests-v4",
        "tests tests-v3",
        "tests tests-v2",
    ]
    assert (report.applied, report.winner, report.diff) == (False, None, "")
    assert (report.notes[0], len(report.notes)) == (BACK, 4)
    assert [type(update) for update in result.updates] == [CloseUpdate, ReportUpdate]
    assert ([change["path"] for change in result.output["changes"]], result.checkpoint) == ([PAGE], False)


def test_tests_that_fail_today_too_do_not_count(monkeypatch: Patch) -> None:
    today = failing_tests("test_flaky_host")
    context = searched(monkeypatch, {"tests tests-v2": today, "tests tests-today": today})
    report, _ = finalized(context)
    assert report.winner is not None and report.winner.name == "v2"
    assert context.order.count("tests tests-today") == 1


def test_tests_of_which_none_passes_open_no_gate(monkeypatch: Patch) -> None:
    broken = TestsResult(False, 1, (TestCase("t::a", CaseOutcome.error, 0.1, "no torch"),), "1 error", "")
    context = searched(monkeypatch, {"tests": broken})
    report, _ = finalized(context)
    assert report.applied is False
    assert "no test of the library passes" in report.notes[1]


def test_tests_that_did_not_run_open_no_gate(monkeypatch: Patch) -> None:
    killed = TestsResult(False, None, (), "killed after 600 s", "")
    context = searched(monkeypatch, {"tests": killed})
    report, _ = finalized(context)
    assert report.applied is False
    assert report.notes[1] == "v2: the library's tests did not run: killed after 600 s"


def test_a_variant_that_fails_the_full_verdict_is_not_committed(monkeypatch: Patch) -> None:
    context = searched(monkeypatch, {"verify verify-v2": verdict("the gradient of a is off at I=129")})
    report, _ = finalized(context)
    assert report.winner is not None and report.winner.name == "v1"
    assert "incorrect_gradient. the gradient of a is off at I=129" in report.notes[0]


def test_a_variant_that_the_librarys_style_check_refuses_is_not_run(monkeypatch: Patch) -> None:
    found = answers() | {"benchmark v1-benchmark": benchmark(1.1), "benchmark v2-benchmark": benchmark(1.5)}
    context = scripted(monkeypatch, profiled(found), "FINE = 1", "BROKEN = not_defined_anywhere")
    optimized(context)
    again = context.again()
    report, _ = finalized(again)
    assert report.winner is not None and report.winner.name == "v1"
    assert report.notes == ("v2: the library's style check fails on it",)
    assert "tests tests-v2" not in again.order


def test_the_winner_of_a_review_is_the_first_to_be_tried(monkeypatch: Patch) -> None:
    context = searched(monkeypatch)
    optimized(context.again("use v1"))
    report, _ = finalized(context)
    assert report.winner is not None and report.winner.name == "v1"
    assert context.order[0] == "tests tests-v1"


def test_the_report_is_kept_as_a_page_too(monkeypatch: Patch) -> None:
    context = searched(monkeypatch)
    finalized(context)
    page = context.load(context.names["report.md"]).decode()
    assert page.startswith("# Report of geglu\n\nApplied variant: v2: Strategy 2.\n")
    assert "| 200.0 | 166.7 | 1.200 (1.194 to 1.206) | - | - | 100.0 |" in page
    assert "| v1 | v0 | Strategy 1 | kept | 1.049 |" in page
    assert "- verdict: passed\n- the library's tests: 1 passed\n" in page
    assert "Repeat it with `kernelsmith optimize geglu --repo ." in page


def test_the_page_of_a_job_that_changed_nothing_says_why(monkeypatch: Patch) -> None:
    context = searched(monkeypatch, speedups=(1.0, 1.0))
    finalized(context)
    page = context.load(context.names["report.md"]).decode()
    assert f"Applied variant: None: the original stands.\n\n- {NO_CHANGE}" in page
    assert "## Checks" not in page


def test_where_nothing_is_better_the_report_says_so_and_nothing_is_asked(monkeypatch: Patch) -> None:
    context = searched(monkeypatch, speedups=(1.0, 1.0))
    report, result = finalized(context)
    assert (report.applied, report.notes[0], context.asked) == (False, NO_CHANGE, [])
    assert [type(update) for update in result.updates] == [CloseUpdate, ReportUpdate]


def test_benchmark_data_is_what_the_librarys_script_wrote_and_a_commit_of_its_own(monkeypatch: Patch) -> None:
    written = TestsResult(True, 0, (), "done", "", (SourceFile(CSV, DATA + ROW),))
    context = searched(monkeypatch, {"tests script": written})
    report, result = finalized(context)
    commits = [update for update in result.updates if isinstance(update, CommitUpdate)]
    assert [(c.purpose, [change.path for change in c.changes]) for c in commits] == [
        (CommitPurpose.optimization, [PATH, PAGE]),
        (CommitPurpose.benchmark_data, [CSV]),
    ]
    assert ROW in (commits[1].changes[0].text or "")
    assert report.script is not None and report.script.collected == ()


def drawing(
    monkeypatch: Patch, plots: TestsResult | str, answer: TestsResult | None = None
) -> tuple[FakeContext, FinalizeSummary]:
    """Have the library's visualizer end like this, after its script wrote a row."""
    tree = library.tree()
    tree = Tree(tree.files | {"benchmark/benchmarks_visualizer.py": b"import seaborn\n"})
    written = answer or TestsResult(True, 0, (), "done", "", (SourceFile(CSV, DATA + ROW),))
    context = searched(monkeypatch, {"tests script": written, "tests visualizer-1": plots}, tree=tree)
    report, _ = finalized(context)
    assert report.applied is True
    return context, report


def test_the_librarys_own_visualizer_draws_the_rows_and_its_pictures_are_kept(monkeypatch: Patch) -> None:
    name = "geglu_speed_forward.png"
    picture = Picture(f"benchmark/visualizations/{name}", base64.b64encode(b"a picture").decode())
    context, report = drawing(monkeypatch, TestsResult(True, 0, (), "exit code 0", "", pictures=(picture,)))
    asked = dict(context.asked)["tests visualizer-1"]
    assert asked.arguments[0] == "benchmark/benchmarks_visualizer.py"
    assert [file.path for file in asked.files] == [CSV], "nothing of the change is needed, and nothing of it is run"
    assert context.load(context.names[name]) == b"a picture"
    assert report.notes == (f"The library's own plots of these rows are among the job's artifacts: `{name}`.",)


@pytest.mark.parametrize(
    ("plots", "reason"),
    [
        (
            TestsResult(False, 1, (), "exit code 1", "Traceback\nModuleNotFoundError: No module named 'seaborn'\n"),
            "ModuleNotFoundError: No module named 'seaborn'",
        ),
        (TestsResult(False, None, (), "killed at the limit", ""), "killed at the limit"),
        (TestsResult(False, None, (), "killed at the limit", "drawing 1 of 9\n"), "killed at the limit"),
        (TestsResult(True, 0, (), "exit code 0", "nothing to draw\n"), "it wrote no picture"),
        ("its host was lost", "the GPU host could not run the library's own checks: its host was lost"),
    ],
    ids=["raises", "hangs", "hangs and prints", "draws nothing", "no host"],
)
def test_a_visualizer_that_fails_is_a_note(monkeypatch: Patch, plots: TestsResult | str, reason: str) -> None:
    _, report = drawing(monkeypatch, plots)
    assert report.notes == (f"The library's own visualizer did not draw everything: {reason}",)


def test_a_visualizer_that_hangs_is_not_run_on_other_rows(monkeypatch: Patch) -> None:
    more = ROW.replace("speed", "memory")
    written = TestsResult(True, 0, (), "done", "", (SourceFile(CSV, DATA + ROW + more),))
    context, _ = drawing(monkeypatch, TestsResult(False, None, (), "killed at the limit", ""), written)
    assert [key for key in context.order if "visualizer" in key] == ["tests visualizer-1"]


def test_without_rows_the_visualizer_does_not_run(monkeypatch: Patch) -> None:
    context, report = drawing(monkeypatch, "it is not asked", TestsResult(True, 0, (), "done", ""))
    assert "tests visualizer-1" not in context.order
    assert report.notes == ()


@pytest.mark.parametrize(
    "script",
    [
        TestsResult(False, 1, (), "failed", "", (SourceFile(CSV, DATA + ROW),)),
        TestsResult(True, 0, (), "done", ""),
        TestsResult(True, 0, (), "done", "", (SourceFile("setup.py", "import os"),)),
    ],
    ids=["failed", "wrote nothing", "wrote something else"],
)
def test_a_script_that_gave_no_data_costs_its_commit_alone(monkeypatch: Patch, script: TestsResult) -> None:
    context = searched(monkeypatch, {"tests script": script})
    report, result = finalized(context)
    commits = [update for update in result.updates if isinstance(update, CommitUpdate)]
    assert [commit.purpose for commit in commits] == [CommitPurpose.optimization]
    assert report.applied is True


def test_without_a_gpu_no_benchmark_data_is_committed(monkeypatch: Patch) -> None:
    context = searched(monkeypatch, {"benchmark": benchmark(predicted=True)}, ())
    scripted(monkeypatch, context, *different(1))
    del context.results[StageName.optimize]  # the search goes again, with these
    optimized(context)
    again = context.again()
    report, result = finalized(again)
    assert (report.applied, report.script) == (True, None)
    assert "tests script" not in again.order
    assert len([update for update in result.updates if isinstance(update, CommitUpdate)]) == 1


def test_a_second_attempt_commits_only_what_is_new(monkeypatch: Patch) -> None:
    context = searched(monkeypatch)
    finalized(context)
    _, result = finalized(context.again("Why?"))
    assert [update for update in result.updates if isinstance(update, CommitUpdate)] == []


def test_a_gpu_host_that_fails_commits_nothing_and_what_passed_is_not_run_again(monkeypatch: Patch) -> None:
    context = searched(monkeypatch)
    context.answers["benchmark benchmark"] = "its host was lost three times"
    with pytest.raises(UserFacingError, match="its host was lost three times"):
        context.run(Finalize())
    context.answers["benchmark benchmark"] = benchmark(1.4)
    again = context.again()
    report, _ = finalized(again)
    assert report.applied is True
    assert again.order == ["benchmark benchmark", "tests script"]
