"""A night measures what changed first, keeps each number once, and compares what left its band with the last good commit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gpu_runner.contracts import (
    BenchmarkRequest,
    BenchmarkResult,
    HostReport,
    SourceFile,
    Status,
    TestsResult,
    Verdict,
    VerifyRequest,
    Workload,
    from_json,
)
from gpu_runner.contracts import (
    Evidence as Found,
)
from service.report.nightly import nightly_sections
from tests.workers.layouts.standing import NORM
from tests.workers.nightly.test_exchange import HEAD
from tests.workers.stages.answers import SIZES, WRONG, benchmark
from tests.workers.stages.context import FakeContext, optimizing, packed
from tests.workers.stages.library import tree
from tests.workers.store.servers import Postgres
from workers.contracts import (
    AssetsUpdate,
    DigestUpdate,
    FailureCode,
    FileChange,
    NightlySummary,
    RegressionUpdate,
    ReportUpdate,
    UserFacingError,
    Verb,
    regression_key,
)
from workers.nightly.detection import NightEvidence, SeriesState
from workers.nightly.series import Metric, PointSource
from workers.stages.nightly import NO_GPU, Nightly
from workers.store import history, retention
from workers.store.database import Database
from workers.tree import Tree, read_tarball

OPS = "src/liger_kernel/ops"
LIBRARY = tree(**{".kernelsmith/problems/rms_norm.py": NORM})
KERNELS = ("geglu", "rms_norm", "softmax")
REPOSITORY = "acme/kernels"
DRIVER = "580.159.04"


def sha(night: int) -> str:
    return f"{night:012x}".ljust(40, "0")


def report(gpu: str | None = "NVIDIA H200") -> HostReport:
    return HostReport("3.12", "2.11.0", "3.6.0", gpu, "sm_90", DRIVER, 1, 4240.0, (), (), (), ())


def changed(*names: str, base: Tree = LIBRARY) -> Tree:
    """Give the library with another line in these kernels."""
    paths = [f"{OPS}/{name}.py" for name in names]
    return base.overlaid(tuple(FileChange(path, (base.read(path) or "") + "\n\nANOTHER = 1\n") for path in paths))


@dataclass
class Library:
    """Nights of one library, one after the other, on a database that they share. ``slow`` is by how much a kernel is slower now."""

    database: Database = field(default_factory=lambda: Database("sqlite://"))
    blobs: dict[str, bytes] = field(default_factory=dict)
    nights: int = 0
    driver: str = DRIVER
    slow: float = 1.0
    memory: float = 1.0
    now: float | None = None  # None: the time that it is
    sizes: tuple[Workload, ...] = SIZES
    has_time: int = 9  # for so many sizes in a run
    verdicts: Any = field(default_factory=lambda: Verdict(Status.passed))
    contexts: list[FakeContext] = field(default_factory=list)

    def benchmark(self, request: BenchmarkRequest) -> BenchmarkResult:
        asked = request.workloads or self.sizes
        timed = replace(request, workloads=asked[: self.has_time])
        answer: BenchmarkResult = benchmark(1 / self.slow, memory=self.memory)(timed)
        rows, untimed = answer.rows, asked[self.has_time :]
        if request.original is None:
            rows = tuple(
                replace(row, timings=tuple(replace(one, median_us=200.0 * self.slow) for one in row.timings))
                for row in rows
            )
        host = (("gpu_uuid", "GPU-1"), ("driver", self.driver), ("torch", "2.11.0"), ("triton", "3.6.0"))
        return replace(answer, rows=rows, host=host, untimed=untimed)

    def context(self, head: Tree = LIBRARY, kernels: tuple[str, ...] = ("geglu",), minutes: int = 120) -> FakeContext:
        self.nights += 1
        context = optimizing({"benchmark": self.benchmark, "verify": self.verdicts, "doctor": report()})
        context.host = (("gpu_uuid", "GPU-1"), ("driver", self.driver), ("torch", "2.11.0"), ("triton", "3.6.0"))
        context.database, context.blobs, context.now_s = self.database, self.blobs, self.now
        options = replace(context.request.options, budget_minutes=minutes)
        context.request = replace(
            context.request,
            verb=Verb.nightly,
            kernel="nightly",
            kernels=kernels,
            base_sha=sha(self.nights),
            snapshot=context.put(packed(head)),
            options=options,
        )
        self.contexts.append(context)
        return context

    def night(self, head: Tree = LIBRARY, **more: Any) -> NightlySummary:
        return run(self.context(head, **more))

    def quiet(self, nights: int) -> None:
        for _ in range(nights):
            assert self.night().changes == ()

    def points(self) -> list[tuple[str, str]]:
        with self.database.read() as session:
            return [
                (key.digest(), point.revision) for key, points in history.read(session, REPOSITORY) for point in points
            ]


def run(context: FakeContext) -> NightlySummary:
    result = context.run(Nightly())
    *news, update = result.updates
    assert isinstance(update, ReportUpdate)
    assert all(isinstance(one, AssetsUpdate | RegressionUpdate) for one in news)
    assert not result.checkpoint
    return from_json(NightlySummary, result.output["summary"])


def test_a_night_proves_and_times_every_kernel_and_keeps_its_numbers() -> None:
    library = Library()
    summary = library.night(kernels=())
    assert {kernel.kernel for kernel in summary.kernels if kernel.skipped is not None} == {"dyt"}, (
        "nobody knows its problem"
    )
    measured = {kernel.kernel: kernel.points for kernel in summary.kernels if kernel.skipped is None}
    assert set(measured) == set(KERNELS)
    assert all(count >= 5 for count in measured.values()), "times and peaks of each pass, and the values"
    assert (summary.changes, summary.left, summary.gpu) == ((), (), "NVIDIA H200")
    assert summary.spent_s == pytest.approx(1.0 + 2 * len(KERNELS))
    with library.database.read() as session:
        metrics = {key.metric for key, _ in history.read(session, REPOSITORY, "geglu")}
        assert {key.testbed.gpu_uuid for key, _ in history.read(session, REPOSITORY)} == {"GPU-1"}
    assert metrics == set(Metric)


def test_a_kernel_whose_verdict_decides_nothing_is_timed_and_said_to_be_unproved() -> None:
    library = Library(verdicts=Verdict(Status.timeout, (Found("case", "it took longer than a minute"),)))
    (kernel,) = library.night().kernels
    assert (kernel.wrong, kernel.unproved) == (None, "it took longer than a minute")
    with library.database.read() as session:
        metrics = {key.metric for key, _ in history.read(session, REPOSITORY, "geglu")}
    assert metrics == {Metric.time_us, Metric.peak_bytes}


def test_values_are_judged_next_to_the_commit_at_which_they_were_proved_last() -> None:
    asked: list[tuple[str | None, str | None]] = []

    def verdict(request: VerifyRequest) -> Verdict:
        assert request.original is not None
        good = library.contexts[-1].files[-1].get("good.tar.gz")
        asked.append((request.original.tree, good))
        return WRONG if library.nights == 2 else Verdict(Status.passed)

    library = Library(verdicts=verdict)
    library.night()
    first = library.contexts[0].request.snapshot
    (change,) = library.night(changed("geglu")).changes
    assert (change.metric, change.state) == ("wrong_values", "confirmed")
    library.night(changed("geglu", "softmax"))
    assert asked[0] == ("head.tar.gz", None), "of its first night nothing is known"
    assert set(asked[1:]) == {("good.tar.gz", first)}


def test_the_same_commit_on_the_same_testbed_is_not_measured_twice() -> None:
    library = Library()
    library.night(kernels=KERNELS)
    library.nights -= 1
    again = library.night(kernels=KERNELS)
    assert (again.known, again.kernels) == (KERNELS, ())
    assert library.contexts[-1].order == ["doctor host"]


def test_a_commit_that_a_branch_is_put_back_to_is_not_measured_again() -> None:
    library = Library()
    library.quiet(2)
    library.nights = 0
    again = library.night()
    assert (again.known, again.kernels) == (("geglu",), ())


def test_a_clock_that_is_put_back_leaves_nights_in_the_order_of_the_commits() -> None:
    library = Library()
    library.now = MONDAY + 30 * DAY_S
    library.quiet(3)
    library.now = MONDAY
    library.slow = 1.2
    assert {change.state for change in library.night(changed("geglu")).changes} == {SeriesState.confirmed}


def test_a_clock_that_jumps_years_ahead_removes_no_nights() -> None:
    library = Library()
    library.now = MONDAY
    library.quiet(3)
    before = library.points()
    with library.database.write() as session:
        retention.move_on(session, library.now)
    library.now += 3650 * DAY_S
    library.night()
    assert set(before) <= set(library.points())


def test_what_changed_comes_first_and_then_what_was_measured_longest_ago() -> None:
    library = Library()
    library.night(kernels=("softmax",))
    library.night(kernels=("geglu", "rms_norm"))
    summary = library.night(changed("rms_norm"), kernels=KERNELS)
    assert [kernel.kernel for kernel in summary.kernels] == ["rms_norm", "softmax", "geglu"]


def test_a_budget_that_ends_leaves_the_rest_to_the_next_night_first() -> None:
    library = Library()
    library.night(kernels=KERNELS)
    everything = changed(*KERNELS)
    context = library.context(everything, kernels=KERNELS, minutes=1)
    context.answers["verify"] = Verdict(Status.passed)
    context.seconds = 40.0
    first = run(context)
    assert ([kernel.kernel for kernel in first.kernels], first.left) == (["geglu"], ("rms_norm", "softmax"))
    # What was left is changed still, although the last night's commit has it already.
    second = library.night(changed("geglu", base=everything), kernels=KERNELS, minutes=1)
    assert {kernel.kernel for kernel in second.kernels} == set(KERNELS)


def test_a_night_that_is_cut_off_goes_on_without_a_double_point() -> None:
    library = Library()
    context = library.context(kernels=KERNELS)
    whole = dict(context.answers)
    calls = {"left": 3}

    def dying(request: BenchmarkRequest) -> BenchmarkResult:
        calls["left"] -= 1
        if calls["left"] < 2:
            raise KeyboardInterrupt
        return library.benchmark(request)

    context.answers["benchmark"] = dying
    with pytest.raises(KeyboardInterrupt):
        context.run(Nightly())
    before = library.points()
    assert before
    context.answers.update(whole)
    given, memos = dict(context.given), dict(context.memos)
    context.stage = Nightly.name
    result = Nightly().run(context)
    assert (context.given.keys() >= given.keys(), context.memos.items() >= memos.items()) == (True, True)
    summary = from_json(NightlySummary, _json(result.output["summary"]))
    points = library.points()
    assert {kernel.kernel for kernel in summary.kernels} == set(KERNELS)
    assert (len(points), set(before) <= set(points)) == (len(set(points)), True)


def _json(form: Any) -> Any:
    import json

    return json.loads(json.dumps(form))


def test_a_slower_kernel_is_confirmed_against_the_last_good_commit_in_three_runs_of_both() -> None:
    library = Library()
    library.quiet(3)
    library.slow = 1.08
    summary = library.night(changed("geglu"))
    times = [change for change in summary.changes if change.metric == Metric.time_us]
    assert {change.state for change in times} == {SeriesState.confirmed}
    assert {(change.good, change.bad) for change in times} == {(sha(3), sha(4))}
    assert all(change.ratio == pytest.approx(1.08) for change in times)
    compare = [request for place, request in library.contexts[-1].asked if "compare" in place]
    assert len(compare) == 3, "the passes share the runs"
    assert compare[0].original is not None
    assert (compare[0].candidate.tree, compare[0].original.tree) == ("head.tar.gz", "good.tar.gz")
    assert library.night(changed("geglu")).changes == (), "what is known is not reported a second time"


def test_every_size_is_timed_and_compared_where_a_run_has_time_for_one() -> None:
    sizes = (*SIZES, Workload((("T", 1024), ("I", 11008))), Workload((("T", 8), ("I", 11008))))
    slow, other = Library(sizes=sizes, has_time=1), Library(sizes=sizes)
    for library in (slow, other):
        library.quiet(3)
        library.slow = 1.08
    changes = [library.night(changed("geglu")).changes for library in (slow, other)]
    assert changes[0] == changes[1]
    assert {change.workload for change in changes[0]} == {size.label() for size in sizes}
    assert len(slow.points()) == len(other.points())


def test_noise_that_the_comparison_does_not_find_is_no_change() -> None:
    library = Library()
    library.quiet(3)
    context = library.context()
    real = library.benchmark

    def noisy(request: BenchmarkRequest) -> BenchmarkResult:
        library.slow = 1.0 if request.original is not None else 1.2
        return real(request)

    context.answers["benchmark"] = noisy
    summary = run(context)
    assert {change.state for change in summary.changes} == {SeriesState.quiet}


def test_a_kernel_that_is_fast_again_is_recovered_by_a_comparison_with_the_good_commit() -> None:
    library = Library()
    library.quiet(3)
    library.slow = 1.08
    library.night()
    library.slow = 1.0
    summary = library.night()
    assert {(change.state, change.evidence) for change in summary.changes} == {
        (SeriesState.recovered, NightEvidence.recovery)
    }
    assert library.night().changes == ()


def test_a_doubled_peak_is_confirmed_by_the_peaks_of_both() -> None:
    library = Library()
    library.quiet(2)
    library.memory = 2.0
    changes = library.night().changes
    assert {(change.metric, change.state, change.ratio) for change in changes} == {
        (Metric.peak_bytes.value, SeriesState.confirmed.value, 2.0)
    }


def test_wrong_values_are_proved_at_both_commits_and_a_wrong_kernel_is_not_timed() -> None:
    library = Library()
    library.quiet(2)

    def verdict(request: VerifyRequest) -> Verdict:
        return WRONG if request.candidate.tree == "head.tar.gz" else Verdict(Status.passed)

    library.verdicts = verdict
    summary = library.night()
    (change,) = summary.changes
    assert (change.metric, change.state) == (Metric.wrong_values, SeriesState.confirmed)
    assert summary.kernels[0].wrong == "output 0 is off by 0.3"
    assert not [place for place in library.contexts[-1].order if place.startswith("benchmark")]


def test_a_new_driver_opens_a_new_series_with_the_last_commit_as_its_past_and_is_named() -> None:
    library = Library()
    library.quiet(3)
    library.driver, library.slow = "590.1", 1.2
    context = library.context()

    def on_new_driver(request: BenchmarkRequest) -> BenchmarkResult:
        result: BenchmarkResult = benchmark(1.0)(request)
        host = (("gpu_uuid", "GPU-1"), ("driver", "590.1"), ("torch", "2.11.0"), ("triton", "3.6.0"))
        rows = tuple(
            replace(row, timings=tuple(replace(one, median_us=240.0) for one in row.timings)) for row in result.rows
        )
        return replace(result, rows=rows, host=host)

    context.answers["benchmark"] = on_new_driver
    summary = run(context)
    assert (summary.changes, summary.new_testbed) == ((), (f"driver {DRIVER} -> 590.1",))
    with library.database.read() as session:
        lengths = {
            key.testbed.driver: len(points)
            for key, points in history.read(session, REPOSITORY)
            if key.metric is Metric.time_us
        }
    assert lengths == {DRIVER: 3, "590.1": 2}


def test_a_regression_in_the_night_of_a_new_driver_is_found_all_the_same() -> None:
    library = Library()
    library.quiet(3)
    library.driver, library.slow = "590.1", 1.2
    summary = library.night(changed("geglu"))
    assert {change.state for change in summary.changes} == {SeriesState.confirmed}


def test_a_driver_that_changes_during_a_night_leaves_the_kernel_to_the_next_one_which_finds_its_regression() -> None:
    library = Library()
    library.quiet(3)
    library.slow, context = 1.2, library.context(changed("geglu"))
    library.driver = "590.1"
    (kernel,) = run(context).kernels
    assert kernel.skipped is not None
    assert f"driver {DRIVER} -> 590.1" in kernel.skipped.message
    summary = library.night(changed("geglu"))
    assert {change.state for change in summary.changes} == {SeriesState.confirmed}
    assert {(change.good, change.bad) for change in summary.changes} == {(sha(3), sha(5))}, "the last that measured it"


def test_a_host_without_a_gpu_ends_the_night_with_what_to_do() -> None:
    context = Library().context()
    context.answers["doctor"] = report(gpu=None)
    with pytest.raises(UserFacingError) as caught:
        context.run(Nightly())
    assert caught.value.failure == NO_GPU


def test_a_kernel_that_is_not_there_is_named_before_any_gpu_host_is_asked() -> None:
    context = Library().context(kernels=("softmax", "gegluu"))
    context.answers["doctor"] = report(gpu=None)
    with pytest.raises(UserFacingError, match="there is no kernel `gegluu`") as caught:
        context.run(Nightly())
    assert caught.value.failure.fix.startswith("The nearest names: `geglu`")
    assert not context.asked


def test_nights_on_postgresql_find_a_regression_and_its_end(postgres_server: Postgres) -> None:
    database = Database(postgres_server.empty_database().replace("postgresql://", "postgresql+psycopg://", 1))
    library = Library(database=database)
    library.quiet(2)
    library.slow, library.memory = 1.2, 2.0
    slower = library.night(changed("geglu"))
    library.slow = library.memory = 1.0
    recovered = library.night(LIBRARY)
    database.dispose()
    for summary, state in ((slower, SeriesState.confirmed), (recovered, SeriesState.recovered)):
        assert {(change.metric, change.state) for change in summary.changes} == {
            (metric, state) for metric in (Metric.time_us, Metric.peak_bytes)
        }


def test_the_issue_of_a_regression_has_a_plot_of_its_series_which_is_published_first() -> None:
    library = Library()
    library.quiet(3)
    library.slow = 1.2
    context = library.context(changed("geglu"))
    result = context.run(Nightly())
    assets, news = result.updates[:2]
    assert isinstance(assets, AssetsUpdate) and isinstance(news, RegressionUpdate)
    (image,) = news.images
    assert assets.images == (image,)
    assert image.alt.endswith("4 nights, changed in number 4")
    assert image.digest in context.blobs
    library.slow = 1.0
    assert not any(isinstance(one, AssetsUpdate) for one in library.context(LIBRARY).run(Nightly()).updates), (
        "a recovery has no plot"
    )


def test_what_a_job_measured_since_is_no_night_and_hides_no_regression() -> None:
    library = Library()
    library.quiet(3)
    with library.database.write() as session:
        series = list(history.read(session, REPOSITORY))
        for night in range(60, 67):
            later = [(key, replace(points[-1], revision=sha(night), source=PointSource.job)) for key, points in series]
            history.add(session, [(key, replace(one, value=one.value * 1.5)) for key, one in later])
    library.slow = 1.2
    summary = library.night(changed("geglu"))
    times = [change for change in summary.changes if change.metric == Metric.time_us]
    assert {(change.state, change.good) for change in times} == {(SeriesState.confirmed, sha(3))}


def test_a_kernel_that_cannot_be_measured_does_not_stop_the_others() -> None:
    library = Library()
    context = library.context(kernels=KERNELS)
    context.answers["verify rms_norm-verify"] = "the sandbox is broken"
    summary = run(context)
    skipped = {kernel.kernel: kernel.skipped.code for kernel in summary.kernels if kernel.skipped is not None}
    assert skipped == {"rms_norm": FailureCode.environment}
    assert [kernel.kernel for kernel in summary.kernels if kernel.points] == ["geglu", "softmax"]


def test_a_good_commit_whose_snapshot_is_gone_leaves_the_change_undecided() -> None:
    library = Library()
    library.quiet(3)
    kept = set(library.blobs)
    library.slow = 1.5
    context = library.context(changed("geglu"))
    for digest in kept - {context.request.snapshot}:
        del library.blobs[digest]
    summary = run(context)
    assert {change.state for change in summary.changes} == {SeriesState.undecided}


def test_a_regression_that_stands_on_an_old_driver_is_gone_once_a_changed_kernel_is_as_good_on_the_new_one() -> None:
    library = Library()
    library.quiet(3)
    library.slow = 1.2
    slow = changed("geglu")
    assert {change.state for change in library.night(slow).changes} == {SeriesState.confirmed}
    library.driver = "590.1"
    still = library.night(slow)
    elsewhere = [change for change in still.changes if change.evidence == NightEvidence.recovery]
    assert {change.state for change in elsewhere} == {SeriesState.confirmed}, "it was looked at again on the new driver"
    assert library.night(slow).changes == (), "and is not until the kernel changes"
    library.slow = 1.0
    context = library.context(LIBRARY)
    mended = run(context)
    assert SeriesState.recovered in {change.state for change in mended.changes}
    with library.database.read() as session:
        assert history.standing(session, REPOSITORY, "NVIDIA H200") == ()


MONDAY = 1_700_438_400.0  # 2023-11-20, 00:00 UTC
DAY_S = 86_400.0


def nights_of_a_week(library: Library, first_day: int, count: int) -> list[NightlySummary]:
    summaries = []
    for day in range(first_day, first_day + count):
        library.now = MONDAY + day * DAY_S + 7200
        summaries.append(library.night())
    return summaries


def test_what_became_faster_is_told_in_the_first_night_of_the_next_week_after_three_runs() -> None:
    library = Library()
    nights_of_a_week(library, 0, 7)
    assert nights_of_a_week(library, 7, 1)[0].improved == ()
    library.slow = 0.8
    assert all(summary.improved == () for summary in nights_of_a_week(library, 8, 6)), "once a week"
    library.now = MONDAY + 14 * DAY_S + 7200
    context = library.context()
    result = context.run(Nightly())
    (digest,) = [update for update in result.updates if isinstance(update, DigestUpdate)]
    assert digest.since == MONDAY + 7 * DAY_S
    assert {(one.timed_pass, one.state) for one in digest.improved} == {
        (name, SeriesState.improved) for name in ("forward", "backward", "full")
    }
    assert all(one.ratio == pytest.approx(0.8) for one in digest.improved)
    assert len([place for place in context.order if "compare" in place]) == 3, "the passes share the runs"
    assert nights_of_a_week(library, 21, 1)[0].improved == (), "what was told is the level from then on"


def test_an_improvement_that_the_comparison_does_not_find_is_not_told() -> None:
    library = Library()
    nights_of_a_week(library, 0, 7)
    real = library.benchmark

    def lucky(request: BenchmarkRequest) -> BenchmarkResult:
        library.slow = 1.0 if request.original is not None else 0.9
        return real(request)

    library.now = MONDAY + 7 * DAY_S
    context = library.context()
    context.answers["benchmark"] = lucky
    assert run(context).improved == ()


CSV = "benchmark/data/all_benchmark_data.csv"


def row(kernel: str, provider: str, ms: float) -> str:
    cells = (kernel, provider, "forward", "speed", "ms", "H", "hidden", "4096", ms, ms * 0.99, ms * 1.02, "{}")
    return ",".join([*map(str, cells), "NVIDIA H200", "2026-11-25 02:00:00", "0.8.5"]) + "\n"


def scripted(library: Library, result: TestsResult) -> NightlySummary:
    """Measure a kernel whose problem nobody knows and that has a benchmark script."""
    old = HEAD + row("dyt", "liger", 9.0)
    head = LIBRARY.overlaid((FileChange("benchmark/scripts/benchmark_dyt.py", "# measures\n"), FileChange(CSV, old)))
    context = library.context(head, kernels=("dyt",))
    context.answers["tests"] = result
    return run(context)


def test_a_kernel_without_a_known_problem_is_timed_by_the_librarys_own_script_and_said_to_be_unproved() -> None:
    written = (
        HEAD + row("dyt", "liger", 9.0) + row("dyt", "liger", 0.2) + row("dyt", "torch", 0.5) + row("x", "liger", 1)
    )
    library = Library()
    summary = scripted(library, TestsResult(True, 0, (), "exit code 0", "", (SourceFile(CSV, written),)))
    (kernel,) = summary.kernels
    assert (kernel.by_script, kernel.points, kernel.skipped) == (True, 1, None)
    with library.database.read() as session:
        ((key, points),) = history.read(session, REPOSITORY, "dyt")
    assert (key.provider, key.timed_pass, key.testbed.driver) == ("kernel", "forward", DRIVER)
    assert [(point.revision, point.value, point.source) for point in points] == [(sha(1), 200.0, PointSource.night)]


def test_a_script_that_fails_or_writes_nothing_new_leaves_the_kernel_unmeasured() -> None:
    for result in (
        TestsResult(False, 1, (), "exit code 1", "no module named x"),
        TestsResult(True, 0, (), "exit code 0", "", (SourceFile(CSV, HEAD + row("dyt", "liger", 9.0)),)),
    ):
        (kernel,) = scripted(Library(), result).kernels
        assert kernel.skipped is not None
        assert kernel.skipped.code is FailureCode.tests


def test_values_that_become_wrong_in_the_night_of_a_new_driver_are_found_against_the_last_right_commit() -> None:
    library = Library()
    library.quiet(3)

    def verdict(request: VerifyRequest) -> Verdict:
        return WRONG if request.candidate.tree == "head.tar.gz" else Verdict(Status.passed)

    library.driver, library.verdicts = "590.1", verdict
    (change,) = library.night(changed("geglu")).changes
    assert (change.metric, change.state, change.good) == (Metric.wrong_values, SeriesState.confirmed, sha(3))


def test_values_that_a_new_driver_makes_wrong_at_every_commit_are_no_regression() -> None:
    library = Library()
    library.quiet(3)
    library.driver, library.verdicts = "590.1", WRONG
    summary = library.night(changed("geglu"))
    assert (summary.changes, summary.kernels[0].wrong) == ((), "output 0 is off by 0.3")


UNPROVED = Verdict(Status.unproved, (Found("interpreted", "nobody saw what it decides"),))


def test_a_kernel_that_was_never_proved_becomes_wrong_and_recovers_all_the_same() -> None:
    library = Library()
    right = LIBRARY

    def verdict(request: VerifyRequest) -> Verdict:
        is_next_to_itself = request.original is not None and request.candidate.tree == request.original.tree
        judged = read_tarball(library.blobs[library.contexts[-1].files[-1][str(request.candidate.tree)]])
        is_wrong = "ANOTHER" in (judged.read(f"{OPS}/geglu.py") or "")
        # Next to itself a kernel that is wrong by far is refused: nothing says whether it or its problem is.
        return UNPROVED if not is_wrong else Verdict(Status.refused) if is_next_to_itself else WRONG

    wrong, library.verdicts = changed("geglu"), verdict
    for _ in range(3):
        assert library.night(right).kernels[0].unproved
    night = library.night(wrong)
    assert [(one.metric, one.state, one.good) for one in night.changes] == [("wrong_values", "confirmed", sha(3))]
    assert night.kernels[0].wrong == "output 0 is off by 0.3"
    assert library.night(changed("softmax", base=wrong)).changes == (), "it is told once"
    mended = library.night(changed("softmax"))
    assert [(one.metric, one.state) for one in mended.changes] == [("wrong_values", "recovered")]
    assert mended.kernels[0].unproved
    assert library.night(right).changes == ()
    library.verdicts = Verdict(Status.passed)
    assert library.night(right).kernels[0].unproved is None


def test_what_can_no_longer_be_proved_is_neither_wrong_nor_the_new_judge() -> None:
    library = Library()
    library.quiet(2)
    library.verdicts = lambda request: UNPROVED if request.candidate.tree == "head.tar.gz" else Verdict(Status.passed)
    assert library.night(changed("geglu")).kernels[0].unproved
    library.verdicts = lambda request: WRONG if request.candidate.tree == "head.tar.gz" else Verdict(Status.passed)
    (change,) = library.night(changed("geglu", "softmax")).changes
    assert (change.metric, change.state, change.good) == ("wrong_values", "confirmed", sha(2))
    library.verdicts = lambda request: UNPROVED if request.candidate.tree == "head.tar.gz" else Verdict(Status.passed)
    assert library.night(changed("geglu", "rms_norm")).changes == (), "nothing says that it is right again"


def test_wrong_values_that_a_person_accepted_are_timed_and_told_no_more_on_another_driver_too() -> None:
    library = Library()
    library.quiet(2)
    good = library.verdicts
    library.verdicts = lambda request: WRONG if request.candidate.tree == "head.tar.gz" else good
    assert library.night(changed("geglu")).kernels[0].wrong
    with library.database.write() as session:
        assert history.triage(session, REPOSITORY, regression_key("geglu", "NVIDIA H200"), "x: as meant", 1.0) == 1
    for driver in (DRIVER, "590.1", "590.1"):
        library.driver = driver
        (kernel,) = library.night(changed("geglu")).kernels
        assert (kernel.wrong, kernel.unproved) == (None, "wrong, which was accepted: output 0 is off by 0.3")
        assert kernel.points > 2, "it is timed"
    library.slow = 1.2
    slower = library.night(changed("geglu"))
    assert {(one.metric, one.state) for one in slower.changes} == {(Metric.time_us, SeriesState.confirmed)}
    library.verdicts = good
    assert library.night(changed("geglu")).kernels[0].unproved is None
    library.verdicts = lambda request: WRONG if request.candidate.tree == "head.tar.gz" else good
    again = library.night(changed("geglu"))
    assert again.kernels[0].wrong, "what was right since is news"
    assert [(one.metric, one.state) for one in again.changes] == [(Metric.wrong_values, SeriesState.confirmed)]


def test_a_kernel_that_has_another_name_begins_anew_and_the_report_names_both_once() -> None:
    library = Library()
    first = library.night(kernels=())
    assert (first.came, first.gone) == ((), ()), "nothing was there before"
    path = f"{OPS}/geglu.py"
    head = LIBRARY.overlaid((FileChange(path, None), FileChange(f"{OPS}/gated_gelu.py", LIBRARY.read(path) or "")))
    renamed = library.night(head, kernels=())
    assert (renamed.came, renamed.gone) == (("gated_gelu",), ("geglu",))
    assert nightly_sections(renamed).count("new: `gated_gelu`; removed: `geglu`") == 1
    again = library.night(head, kernels=())
    assert (again.came, again.gone) == ((), ())
    assert library.night(head, kernels=("rms_norm",)).gone == (), "a night of some kernels looks at no other"
