"""Bisection over a real git history, with comparisons by what stands in the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_runner.contracts import BenchmarkResult, Comparison, Pass, Status, Timing, Word, Workload, WorkloadTiming
from service.cli import jobs
from service.local import session
from service.local.asking import LocalJob
from service.local.bisecting import RangeSearch, Sizes, judged
from service.local.checkout import Checkout
from service.report.nightly import bisected_report
from tests.service.local.checkouts import checked_out, git, run
from workers.contracts import BisectSummary, Failure, FailureCode, MeasuredKernel, Suspect, UserFacingError, Verb
from workers.history import StepOutcome

FORWARD = ("time", "forward", "T=64")


def measured(*words: Word, memory: float = 1.0, predicted: bool = False) -> MeasuredKernel:
    """Give a comparison, a row for each word: forward, then backward."""
    rows = tuple(
        WorkloadTiming(
            Workload((("T", 64),)),
            timed_pass,
            (Timing("candidate", 1.0, peak_bytes=int(memory * 2**30)), Timing("original", 1.0, peak_bytes=2**30)),
            1,
            1,
            1.0,
            comparisons=(Comparison("candidate", "original", 1.0, 1.0, 1.0, word, 9),),
        )
        for timed_pass, word in zip((Pass.forward, Pass.backward), words, strict=False)
    )
    return MeasuredKernel("k", "k.py", (), benchmark=BenchmarkResult(rows, predicted, "NVIDIA H200", 1.0))


class History:
    """A repository whose file holds the kernel's time; ``broken`` in it does not build."""

    def __init__(self, folder: Path) -> None:
        self.folder = checked_out(folder, {"time": b"100\n"})
        self.first = git(self.folder, "rev-parse", "HEAD")
        self.compared: list[tuple[str, str]] = []
        self.sizes: list[Sizes] = []
        self.right = self.unwrong = Status.passed  # the verdict on the good end, and on others that are not wrong

    def commit(self, text: str, *more: str) -> str:
        (self.folder / "time").write_text(f"{text}\n")
        (self.folder / f"file-{len(git(self.folder, 'log', '--all', '--format=%H').split())}").write_text("x\n")
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", f"time {text}", *more)
        return git(self.folder, "rev-parse", "HEAD")

    def compare(self, old: str, new: str, sizes: Sizes) -> MeasuredKernel:
        self.compared.append((old, new))
        self.sizes.append(sizes)
        before, after = (git(self.folder, "show", f"{sha}:time").removeprefix("wrong ") for sha in (old, new))
        if "broken" in (before, after):
            return MeasuredKernel("k", "k.py", (), skipped=Failure(FailureCode.problem, "it does not build"))
        return measured(Word.slower if int(after) > int(before) else Word.same)

    def search(self, bad: str, good: str | None = None) -> tuple[StepOutcome, tuple[Suspect, ...]]:
        return RangeSearch(Checkout(self.folder), self.compare, self.prove).run(good or self.first, bad)

    def prove(self, old: str, commit: str) -> Status | None:
        before, text = (git(self.folder, "show", f"{sha}:time") for sha in (old, commit))
        if before.startswith("wrong"):
            return Status.refused  # as where an original cannot be judged by
        if text == "broken":
            return None
        return Status.incorrect_values if text.startswith("wrong") else self.right if commit == old else self.unwrong


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "library")


def test_two_culprits_are_named_and_broken_commits_stepped_around(history: History) -> None:
    line = [history.commit(text) for text in ["100", "100", "110", "110", "broken", "110", "broken", "120", "120"]]
    assert history.search(line[-1]) == (
        StepOutcome.slower,
        (Suspect((line[2],)), Suspect((line[6], line[7]), (line[6],))),
    )


def test_after_the_whole_range_only_the_sizes_that_became_worse_are_timed(history: History) -> None:
    line = [history.commit(text) for text in ["100", "110", "110", "110"]]
    assert history.search(line[-1]) == (StepOutcome.slower, (Suspect((line[1],)),))
    assert history.sizes[0] == () and set(history.sizes[1:]) == {("T=64",)}


def test_a_merge_is_looked_into_and_the_commit_that_it_brought_is_named(history: History) -> None:
    history.commit("100")
    git(history.folder, "checkout", "-q", "-b", "topic")
    history.commit("100")
    culprit = history.commit("130")
    history.commit("130")
    git(history.folder, "checkout", "-q", "main")
    (history.folder / "other").write_text("main goes on\n")
    git(history.folder, "add", "-A")
    git(history.folder, "commit", "-q", "-m", "elsewhere")
    git(history.folder, "merge", "-q", "--no-ff", "-m", "merge topic", "topic")
    merge = git(history.folder, "rev-parse", "HEAD")
    assert history.search(merge) == (StepOutcome.slower, (Suspect((culprit,), merge=merge),))


def test_the_commit_that_made_values_wrong_is_named_by_verdicts_and_nothing_is_timed(history: History) -> None:
    line = [history.commit(text) for text in ("100", "broken", "wrong 100", "wrong 100", "wrong 100")]
    assert history.search(line[-1]) == (StepOutcome.slower, (Suspect((line[1], line[2]), (line[1],)),))
    assert history.compared == []


def test_what_cannot_be_proved_is_right_where_the_good_commit_cannot_be_proved_either(history: History) -> None:
    line = [history.commit(text) for text in ("100", "100", "wrong 100", "wrong 100")]
    history.unwrong = Status.unproved
    assert history.search(line[-1])[1] == (Suspect((line[0], line[1], line[2]), (line[0], line[1])),)
    history.right = Status.unproved
    assert history.search(line[-1])[1] == (Suspect((line[2],)),)


def test_values_that_were_wrong_before_the_range_say_nothing_of_it(history: History) -> None:
    before = history.commit("wrong 100")
    history.commit("100")
    assert history.search(history.commit("wrong 100"), good=before)[1] == ()


def test_a_range_that_is_not_worse_is_not_searched(history: History) -> None:
    line = [history.commit(text) for text in ("100", "90", "95", "100")]
    assert history.search(line[-1]) == (StepOutcome.same, ())
    assert len(history.compared) == 1


def test_a_kernel_that_an_end_lacks_is_told_as_it_was_by_the_comparison(history: History) -> None:
    later = history.commit("120")
    gone = Failure(FailureCode.missing, "there is no kernel `k` in the repository", "`/kernel optimize` measures it.")
    search = RangeSearch(Checkout(history.folder), lambda *_: MeasuredKernel("k", "", (), skipped=gone), history.prove)
    with pytest.raises(UserFacingError) as refused:
        search.run(history.first, later)
    assert refused.value.failure == replace(gone, fix="`kernelsmith optimize` measures it.")


def test_commits_that_do_not_follow_are_refused(history: History) -> None:
    later = history.commit("100")
    for good in (later, history.first):
        with pytest.raises(UserFacingError, match="does not follow"):
            history.search(history.first, good=good)


@pytest.mark.parametrize(
    ("kernel", "step"),
    [
        (measured(Word.slower), StepOutcome.slower),
        (measured(Word.faster), StepOutcome.same),
        (measured(Word.same, Word.undecided), StepOutcome.same),
        (measured(Word.undecided, Word.slower), StepOutcome.undecided),
        (measured(), StepOutcome.broken),
        (MeasuredKernel("k", "k.py", (), skipped=Failure(FailureCode.verdict, "wrong")), StepOutcome.broken),
    ],
)
def test_only_the_rows_that_are_worse_over_the_whole_range_decide_a_step(
    kernel: MeasuredKernel, step: StepOutcome
) -> None:
    assert judged(kernel, frozenset({FORWARD})) is step


def test_memory_decides_where_memory_grew() -> None:
    rows = frozenset({("peak memory", "forward", "T=64")})
    assert judged(measured(Word.undecided, memory=2.0), rows) is StepOutcome.slower
    assert judged(measured(Word.slower, memory=1.0), rows) is StepOutcome.same


@pytest.mark.parametrize(
    "kernel",
    [
        MeasuredKernel("k", "k.py", (), skipped=Failure(FailureCode.environment, "the GPU host was lost")),
        measured(Word.same, predicted=True),
    ],
)
def test_a_fault_of_the_host_says_nothing_of_a_commit_and_ends_the_search(kernel: MeasuredKernel) -> None:
    with pytest.raises(UserFacingError) as caught:
        judged(kernel, frozenset({FORWARD}))
    assert caught.value.failure.code is FailureCode.environment


def test_the_report_names_commits_with_their_subjects_and_keeps_markup_out() -> None:
    one, many = Suspect(("a" * 40,), merge="c" * 40), Suspect(("b" * 40, "d" * 40), ("b" * 40,))
    titles = (("a" * 40, "<b>@all</b> faster"),)
    summary = BisectSummary("geglu", "slower", (one, many), 7, "0" * 40, "f" * 40, "NVIDIA H200", titles=titles)
    told = bisected_report(summary)
    assert "became worse in 2 places" in told
    assert "<b>" not in told and "@all" not in told.replace("@\u2060", "")
    assert "merged by `cccccccccccc`" in told
    assert "one of 2 commits, `bbbbbbbbbbbb` to `dddddddddddd`: 1 commit between them could not be tested" in told
    assert "cannot be distinguished from" in bisected_report(replace(summary, whole="undecided", suspects=()))


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("kept_at", "runs"), [("2020-01-01T00:00:00+00:00", [False, True]), ("2999-01-01T00:00:00+00:00", [False])]
)
def test_by_hand_a_step_that_was_kept_without_a_gpu_is_made_again_once(
    history: History, monkeypatch: pytest.MonkeyPatch, kept_at: str, runs: list[bool]
) -> None:
    later, fresh = history.commit("120"), []

    def run_job(asked: LocalJob, *_: object, **__: object) -> SimpleNamespace:
        fresh.extend([asked.fresh] if asked.verb is Verb.bench else [])
        return SimpleNamespace(created_at=kept_at, predicted=not asked.fresh)

    monkeypatch.setattr(jobs, "run_job", run_job)
    monkeypatch.setattr(session, "was_predicted", lambda job: job.predicted)
    monkeypatch.setattr(session, "compared", lambda _job, _name: measured(Word.slower))
    done = run("bisect", "k", f"{history.first}..{later}", "--repo", history.folder)
    assert (done.exit_code, fresh, later[:12] in done.stdout, "time 120" in done.stdout) == (0, runs, True, True)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("commits", ["main", "..", "main...main", "nowhere..main", "main..--all"])
def test_by_hand_a_range_that_is_none_is_refused(history: History, commits: str) -> None:
    assert run("bisect", "k", commits, "--repo", history.folder).exit_code in (2, 3)
