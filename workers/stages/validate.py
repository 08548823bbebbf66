"""Validate: the library's style check, its tests as a hard gate, the benchmark, the plots and the report; then ready for review."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import BenchmarkResult, TestsResult, Verdict, from_json, to_json
from workers.authors.llm.protocol import Failed
from workers.authors.protocol import AuthorRefusal, Feedback
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    Failure,
    FailureCode,
    FileChange,
    ReadyUpdate,
    StageName,
    StyleOutcome,
    Update,
    UserFacingError,
    ValidateSummary,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import Design
from workers.reports.plots import draw_plots
from workers.reports.provenance import provenance, reproduce
from workers.stages.bench import (
    CreateBench,
    changes_from_json,
    keep_json,
    merged,
    only_new,
    own_result,
    reopen_create,
)
from workers.stages.briefs import HEARD, new_points
from workers.stages.gate import failing, library_plots
from workers.stages.profiling import profiled_if_asked
from workers.stages.search import AttemptLog
from workers.stages.writing import (
    COMPILER,
    MODEL,
    ProvedKernel,
    compile_and_prove,
    kept_design,
    kept_kernel,
    rendered,
    repaired,
    write,
)
from workers.stylecheck import check_style

MAX_TEST_ATTEMPTS = 3
MOST_SHOWN = 20  # failing tests, to a model


@dataclass(frozen=True)
class Tested:
    """A kernel that passed the library's tests."""

    kernel: ProvedKernel
    tests: TestsResult
    notes: tuple[str, ...]


class Validate:
    """The last stage of ``create``."""

    name = StageName.validate

    def run(self, context: StageContext) -> StageResult:
        """A report on a kernel that passes the library's own checks, with its benchmark data committed."""
        bench = reopen_create(context)
        earlier = own_result(context, self.name)
        left = context.result_of(StageName.generate)
        generated = left if earlier is None else left | earlier
        before = changes_from_json(generated["changes"])
        log = AttemptLog(context, self.name)
        tested = pass_tests(bench, log, new_points(context.feedback, earlier), generated, before)
        kernel = tested.kernel
        context.note("measuring")
        form = bench.form(kernel.design, kernel.changes)
        measured = bench.gate.benchmark("benchmark", bench.problem, form, lasting=False)
        profile = profiled_if_asked(bench, bench.name, bench.problem, form, measured)
        script = _run_script(bench, kernel, measured)
        rows = script is not None and script.passed
        data = (
            bench.layout.data_changes(kernel.design, script.collected, measured, bench.tree) if script and rows else ()
        )
        plots = library_plots(bench.gate, bench.layout, bench.tree, data)
        images = draw_plots(context, bench.name, kernel.verdict, measured)
        summary = ValidateSummary(
            kernel.style,
            replace(tested.tests, collected=()),
            kernel.verdict,
            measured,
            replace(script, collected=()) if script else None,
            images,
            (*provenance(context.request, measured), *((("model", kernel.model),) if kernel.model else ())),
            reproduce(
                bench.name, asks=kernel.author == MODEL, profiles=profile is not None, to=context.request.options.to
            ),
            (*tested.notes, *plots),
            kernel.answered,
            log.attempts,
            profile,
        )
        updates = self._updates(bench, before, kernel, data, summary)
        output: dict[str, Any] = kept_kernel(kernel) | {
            "changes": to_json(merged(before, (*kernel.changes, *data))),
            "summary": to_json(summary),
            HEARD: len(context.feedback),
        }
        keep_json(context, "report.json", summary)
        return StageResult(output, updates)

    def _updates(
        self,
        bench: CreateBench,
        before: tuple[FileChange, ...],
        kernel: ProvedKernel,
        data: tuple[FileChange, ...],
        summary: ValidateSummary,
    ) -> tuple[Update, ...]:
        context = bench.context
        revised = only_new(kernel.changes, bench.tree, before)
        rows = only_new(data, bench.tree, before)
        commits = [
            CommitUpdate(purpose, changes, self.name, context.attempt)
            for purpose, changes in ((CommitPurpose.revision, revised), (CommitPurpose.benchmark_data, rows))
            if changes
        ]
        return (
            *commits,
            AssetsUpdate(summary.images),
            ReadyUpdate(),
            CheckpointUpdate(self.name, context.attempt, summary, not context.request.options.auto),
        )


def pass_tests(
    bench: CreateBench,
    log: AttemptLog,
    points: tuple[Feedback, ...],
    generated: dict[str, Any],
    branch: tuple[FileChange, ...],
) -> Tested:
    """Run the library's tests until they pass, with a repair by the author after each failure, three attempts in all.

    ``generated`` is the last output with a kernel, ``branch`` its files, ``points`` a review of them.

    Raises:
        UserFacingError: they still fail; the failure lists the tests and the attempts.
    """
    context, kernel = bench.context, _kernel(bench, log, points, generated, branch)
    tried: list[str] = []
    for attempt in range(1, MAX_TEST_ATTEMPTS + 1):
        context.note(f"running the library's tests, attempt {attempt} of {MAX_TEST_ATTEMPTS}")
        tests = bench.gate.tests(f"tests-{attempt}", bench.layout.tests(kernel.design, bench.tree), kernel.changes)
        if tests.passed:
            return Tested(kernel, tests, tuple(tried))
        tried.append(f"the library's tests, attempt {attempt}: {tests.summary}")
        if attempt == MAX_TEST_ATTEMPTS:
            break
        again = _again(bench, log, kernel, tests, attempt)
        if again is None:
            tried.append(
                "the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one"
            )
            continue
        kernel = replace(again, answered=kernel.answered)
        tried.append("the author wrote the kernel again, and it was proved again")
    message = f"the library's tests for `{bench.name}` fail: {tests.summary}"
    fix = "Read the failing tests below; if the problem is what is wrong, give a new `/kernel create`."
    raise UserFacingError(Failure(FailureCode.tests, message, fix, log=failing(tests), attempts=tuple(tried)))


def _kernel(
    bench: CreateBench,
    log: AttemptLog,
    points: tuple[Feedback, ...],
    generated: dict[str, Any],
    branch: tuple[FileChange, ...],
) -> ProvedKernel:
    """The kernel of the branch, or a model's revision of it where a review has points and a model may be asked."""
    if points and bench.asks_models():
        return write(bench, log, points, generated, bench.tree.overlaid(branch))
    design = kept_design(bench, generated)
    paths = {change.path for change in rendered(bench, design)}
    changes = tuple(change for change in branch if change.path in paths)
    style = _check_style(bench, design, changes)
    verdict = from_json(Verdict, generated["verdict"])
    author, model = str(generated.get("author", COMPILER)), generated.get("model")
    return ProvedKernel(author, design, changes, style, verdict, model=model)


def _again(
    bench: CreateBench, log: AttemptLog, kernel: ProvedKernel, tests: TestsResult, attempt: int
) -> ProvedKernel | None:
    """The author's next kernel after failing tests, proved; None where it is the same one."""
    if kernel.author == MODEL:
        failed = Failed(
            kernel.design.source or "", "tests", tests.summary, tuple(failing(tests).splitlines())[:MOST_SHOWN]
        )
        return repaired(bench, log, kernel.design, failed, f"tests-{attempt}-")
    compiled = bench.compiled((Feedback(failing(tests)),))
    if isinstance(compiled, AuthorRefusal) or compiled.source == kernel.design.source:
        return None
    return compile_and_prove(bench, bench.designed(compiled.plan, compiled.source), f"-{attempt}")


def _check_style(bench: CreateBench, design: Design, changes: tuple[FileChange, ...]) -> StyleOutcome:
    bench.context.note("running the library's style check")

    def check() -> Any:
        outcome, _ = check_style(bench.layout.style_check(changes, bench.tree), bench.tree, changes)
        return to_json(outcome)

    outcome = from_json(StyleOutcome, bench.context.memo("style", check))
    if not outcome.passed:
        message = f"the library's style check fails on `{design.name}`"
        raise UserFacingError(
            Failure(FailureCode.style, message, "Please report it: the layout wrote it.", log=outcome.log)
        )
    return outcome


def _run_script(bench: CreateBench, kernel: ProvedKernel, measured: BenchmarkResult) -> TestsResult | None:
    if measured.predicted:
        return None
    bench.context.note("running the library's own benchmark script")
    return bench.gate.tests("script", bench.layout.benchmark(kernel.design, bench.tree), kernel.changes)
