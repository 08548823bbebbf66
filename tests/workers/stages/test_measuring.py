from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_runner.contracts import (
    BenchmarkRequest,
    BenchmarkResult,
    HostReport,
    Pass,
    Status,
    Verdict,
    Workload,
    from_json,
    parse_problem,
)
from service.report.benchmarks import benchmark_table
from tests.workers.layouts.standing import NORM
from tests.workers.nightly.numbers import KEY, point
from tests.workers.stages.answers import SIZES, WRONG, benchmark
from tests.workers.stages.context import FakeContext, comparing
from tests.workers.stages.library import PATH, tree
from workers.contracts import (
    AssetsUpdate,
    FailureCode,
    FileChange,
    MeasureSummary,
    ReportUpdate,
    UserFacingError,
    Verb,
)
from workers.engine.protocol import StageResult
from workers.nightly.series import Metric, PointSource
from workers.stages.measure import MOST_KERNELS, Measure
from workers.store import history
from workers.tree import Tree

OPS = "src/liger_kernel/ops"
# The norm of this library says in a file of its own how it is called.
BASE = tree(**{".kernelsmith/problems/rms_norm.py": NORM})
SAME: Any = benchmark(1.0)


def changed(*names: str, base: Tree = BASE) -> Tree:
    """Give the library with another way in these kernels."""
    paths = [f"{OPS}/{name}.py" for name in names]
    return base.overlaid(tuple(FileChange(path, (base.read(path) or "") + "\n\nANOTHER = 1\n") for path in paths))


def measure(context: FakeContext) -> tuple[MeasureSummary, StageResult]:
    result = context.run(Measure())
    return from_json(MeasureSummary, result.output["summary"]), result


def speedups(measured: BenchmarkResult | None) -> set[float]:
    assert measured is not None
    return {comparison.speedup for row in measured.rows for comparison in row.comparisons}


def test_the_one_of_three_touched_kernels_that_is_slower_is_the_only_one_that_is_not_the_same() -> None:
    made = {"benchmark": SAME, "benchmark rms_norm-benchmark": benchmark(0.95)}
    context = comparing(made, BASE, changed("geglu", "rms_norm", "softmax"))
    summary, result = measure(context)
    assert {kernel.kernel: speedups(kernel.benchmark) for kernel in summary.kernels} == {
        "geglu": {1.0},
        "rms_norm": {0.95},
        "softmax": {1.0},
    }
    assert [type(update) for update in result.updates] == [AssetsUpdate, ReportUpdate]
    assert (result.checkpoint, summary.notes) == (False, ())
    assert "6 slower" not in summary.images[0].alt
    assert "3 slower, 6 same" in summary.images[0].alt


def test_head_is_measured_beside_base_each_from_its_own_snapshot() -> None:
    context = comparing({"benchmark": SAME}, BASE, changed("geglu"))
    measure(context)
    ((place, request),) = context.asked
    assert place == "benchmark geglu-benchmark"
    assert isinstance(request, BenchmarkRequest) and request.original is not None
    assert (request.candidate.tree, request.original.tree) == ("head.tar.gz", "base.tar.gz")
    assert "ANOTHER" in {f.path: f.text for f in request.candidate.files}[PATH]
    assert PATH not in {f.path for f in request.original.files}


def test_what_a_kernel_is_held_against_is_the_bases() -> None:
    weaker = NORM.replace("* w\n", "* 0\n")
    head = changed("rms_norm").overlaid((FileChange(".kernelsmith/problems/rms_norm.py", weaker),))
    context = comparing({"verify": Verdict(Status.passed)}, BASE, head, verb=Verb.verify)
    measure(context)
    assert [request.problem_source for _, request in context.asked] == [NORM]


def test_kernels_that_a_shared_file_touches_are_measured_too() -> None:
    base = BASE.overlaid(
        (FileChange(PATH, f"from liger_kernel.ops.utils import calculate_settings  # noqa: F401\n{BASE.read(PATH)}"),)
    )
    head = base.overlaid((FileChange(f"{OPS}/utils.py", (base.read(f"{OPS}/utils.py") or "") + "\nMORE = 1\n"),))
    summary, _ = measure(comparing({"benchmark": SAME}, base, head))
    assert [(kernel.kernel, kernel.touched) for kernel in summary.kernels] == [("geglu", (f"{OPS}/utils.py",))]


def test_named_kernels_are_measured_once_each_and_no_other() -> None:
    context = comparing({"benchmark": SAME}, BASE, changed("geglu", "rms_norm"), ["softmax", "geglu", "softmax"])
    summary, _ = measure(context)
    assert [(kernel.kernel, bool(kernel.touched)) for kernel in summary.kernels] == [
        ("softmax", False),
        ("geglu", True),
    ]


def test_a_named_kernel_that_is_nowhere_is_refused_with_those_that_are_there() -> None:
    context = comparing({}, BASE, changed("geglu"), ["gegelu"])
    with pytest.raises(UserFacingError) as caught:
        context.run(Measure())
    assert "gegelu" in caught.value.failure.message
    assert "geglu" in (caught.value.failure.fix or "")


def test_a_change_that_touches_no_kernel_is_an_answer_and_asks_nothing() -> None:
    head = BASE.overlaid((FileChange("README.md", "Hello.\n"),))
    summary, result = measure(comparing({}, BASE, head))
    assert (summary.kernels, summary.images, summary.provenance) == ((), (), ())
    assert [type(update) for update in result.updates] == [AssetsUpdate, ReportUpdate]


@pytest.mark.parametrize(("gone_from", "said"), [("base", "at the base"), ("head", "at the head")])
def test_a_kernel_that_one_side_lacks_is_told_and_the_others_are_measured(gone_from: str, said: str) -> None:
    without = BASE.overlaid((FileChange(PATH, None),))
    base, head = (without, changed("softmax")) if gone_from == "base" else (BASE, changed("softmax", base=without))
    summary, _ = measure(comparing({"benchmark": SAME}, base, head))
    found = {kernel.kernel: kernel for kernel in summary.kernels}
    assert found["softmax"].benchmark is not None
    skipped = found["geglu"].skipped
    assert skipped is not None
    assert (skipped.code, said in skipped.message) == (FailureCode.missing, True)


def test_a_kernel_whose_problem_nobody_knows_is_told_and_the_others_are_measured() -> None:
    base = tree()
    summary, _ = measure(comparing({"benchmark": SAME}, base, changed("geglu", "rms_norm", base=base)))
    found = {kernel.kernel: kernel for kernel in summary.kernels}
    assert found["geglu"].benchmark is not None
    skipped = found["rms_norm"].skipped
    assert skipped is not None and skipped.code is FailureCode.problem
    assert "CALL" in (skipped.fix or "")


def test_a_host_that_fails_on_one_kernel_is_told_and_the_others_are_measured() -> None:
    made = {"benchmark": SAME, "benchmark geglu-benchmark": "its host was lost three times"}
    summary, _ = measure(comparing(made, BASE, changed("geglu", "softmax")))
    found = {kernel.kernel: kernel for kernel in summary.kernels}
    skipped = found["geglu"].skipped
    assert skipped is not None and skipped.code is FailureCode.environment
    assert found["softmax"].benchmark is not None


def test_verify_proves_and_measures_nothing() -> None:
    made = {"verify": Verdict(Status.passed), "verify softmax-verify": WRONG}
    context = comparing(made, BASE, changed("geglu", "softmax"), verb=Verb.verify)
    summary, _ = measure(context)
    assert context.order == ["verify geglu-verify", "verify softmax-verify"]
    statuses = {kernel.kernel: kernel.verdict.status for kernel in summary.kernels if kernel.verdict is not None}
    assert statuses == {"geglu": Status.passed, "softmax": Status.incorrect_values}
    assert not any(request.quick for _, request in context.asked)


def test_more_kernels_than_a_run_may_take_are_named_with_the_fix() -> None:
    many = {f"{OPS}/copy_{n:02}.py": BASE.read(PATH) or "" for n in range(MOST_KERNELS + 2)}
    base = BASE.overlaid(tuple(FileChange(path, text) for path, text in many.items()))
    head = base.overlaid(tuple(FileChange(path, text + "\n\nANOTHER = 1\n") for path, text in many.items()))
    summary, _ = measure(comparing({"benchmark": SAME}, base, head))
    assert len(summary.kernels) == MOST_KERNELS
    assert summary.notes == (
        "Not measured, to keep the run short: copy_12, copy_13. Name them in a command of their own.",
    )


def test_only_the_sizes_that_were_asked_for_are_timed_within_the_time_of_all() -> None:
    def asked(*sizes: str) -> BenchmarkRequest:
        context = comparing({"benchmark": SAME}, BASE, changed("geglu"), timed_sizes=sizes)
        measure(context)
        ((_, request),) = context.asked
        assert isinstance(request, BenchmarkRequest)
        return request

    every = asked()
    problem = parse_problem(every.problem_source)
    wanted = problem.workloads[-1]
    assert every.workloads == () and len(problem.workloads) > 1
    assert asked(wanted.label()).workloads == (wanted,)
    assert asked(wanted.label()).budget_s == every.budget_s


@pytest.mark.parametrize("answers", ["each", "fails", "nothing more"])
def test_sizes_for_which_a_run_had_no_time_are_timed_in_further_runs(answers: str) -> None:
    sizes = tuple(Workload((("T", tokens), ("I", 11008))) for tokens in (4096, 1024, 8))

    def answer(request: BenchmarkRequest) -> Any:
        first, *rest = request.workloads or sizes
        if answers == "fails" and request.workloads:
            return "its host was lost three times"
        if answers == "nothing more":
            return replace(SAME(replace(request, workloads=sizes[:1])), complete=False, untimed=sizes[1:])
        return replace(SAME(replace(request, workloads=(first,))), complete=not rest, untimed=tuple(rest))

    context = comparing({"benchmark": answer}, BASE, changed("geglu"))
    summary, _ = measure(context)
    (kernel,) = summary.kernels
    assert kernel.benchmark is not None
    there = tuple(dict.fromkeys(row.workload for row in kernel.benchmark.rows))
    assert (*there, *kernel.benchmark.untimed) == sizes
    assert there == (sizes if answers == "each" else sizes[:1])
    assert kernel.benchmark.complete is (answers == "each")
    said = "The budget ended before `T=1024 I=11008`, `T=8 I=11008`." in benchmark_table(kernel.benchmark)
    assert said is (answers != "each")


def test_the_base_is_named_as_it_was_asked_for() -> None:
    context = comparing({"benchmark": SAME}, BASE, changed("geglu"))
    assert measure(context)[0].against == "the merge base with main"
    context = comparing({"benchmark": SAME}, BASE, changed("geglu"), against="v1.2")
    assert measure(context)[0].against == "v1.2"


HOST = (("gpu_uuid", "GPU-1"), ("driver", "580.159.04"), ("torch", "2.11.0"), ("triton", "3.6.0"))
GPU = HostReport("3.12", "2.11.0", "3.6.0", "NVIDIA H200", "sm_90", "580.159.04", 1, 4240.0, (), (), (), ())
WORKLOAD = SIZES[0].label()


def remembering(context: FakeContext, scatter: float = 0.005) -> FakeContext:
    """Give the context a host with a GPU, on which twenty nights measured the forward pass of geglu."""
    context.host = HOST
    context.answers["doctor"] = GPU
    key = replace(KEY, repository=context.request.origin.repository, workload=WORKLOAD)
    nights = [point(night, 200.0, low=200.0 * (1 - scatter), high=200.0 * (1 + scatter)) for night in range(20)]
    context.history(lambda session: history.add(session, [(key, one) for one in nights]))
    return context


def test_a_kernel_with_nights_is_compared_with_what_they_vary_by_and_takes_the_rounds_that_its_scatter_needs() -> None:
    for scatter, lengths in ((0.005, ()), (0.04, (Pass.forward,))):
        context = remembering(comparing({"benchmark": SAME}, BASE, changed("geglu", "softmax")), scatter)
        summary, _ = measure(context)
        assert context.order == ["doctor host", "benchmark geglu-benchmark", "benchmark softmax-benchmark"]
        asked = [[one.timed_pass for one in request.lengths] for _, request in context.asked[1:]]
        assert asked == [list(lengths), []]
        (usual,), nothing = (kernel.usual for kernel in summary.kernels)
        assert (usual.timed_pass, usual.workload, usual.nights, nothing) == ("forward", WORKLOAD, 20, ())


def test_without_nights_no_host_is_asked_what_it_is() -> None:
    context = comparing({"benchmark": SAME}, BASE, changed("geglu"))
    summary, _ = measure(context)
    assert (context.order, summary.kernels[0].usual) == (["benchmark geglu-benchmark"], ())


def test_nights_on_another_gpu_than_the_one_that_measured_are_not_compared_with() -> None:
    context = remembering(comparing({"benchmark": SAME}, BASE, changed("geglu")))
    context.answers["benchmark"] = lambda request: replace(SAME(request), gpu="NVIDIA B200")
    assert measure(context)[0].kernels[0].usual == ()


def test_the_base_that_was_measured_is_kept_as_a_number_of_its_commit() -> None:
    context = comparing({"benchmark": benchmark(0.5)}, BASE, changed("geglu"))
    measure(context)
    rows = context.history(lambda session: list(history.read(session, context.request.origin.repository)))
    times = {point.value for key, points in rows for point in points if key.metric is Metric.time_us}
    assert times == {200.0}, "not the head's"
    assert {(point.revision, point.source) for _, points in rows for point in points} == {("a" * 40, PointSource.job)}
