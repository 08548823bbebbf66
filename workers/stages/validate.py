"""Validate: the library's style check, its tests as a hard gate, the benchmark, the plots and the report; then ready for review."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    CandidateSource,
    TestsResult,
    Verdict,
    from_json,
    to_json,
)
from workers.authors.llm.protocol import Failed
from workers.authors.protocol import Feedback, Refusal
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
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.judging import MODEL
from workers.stages.authoring.remarks import HEARD, new_points
from workers.stages.authoring.writing import COMPILER, Written, mended, reads_words, restored, stored, write
from workers.stages.profiling import profiled_if_asked
from workers.stages.proving import prove, styled_changes
from workers.stages.suites import failing, json_bytes, library_plots, run_suite
from workers.stages.workbench import (
    SNAPSHOT_FILE,
    Workbench,
    answer_of,
    changes_from_json,
    changes_to_json,
    merged,
    only_new,
    own_result,
    reopen,
)

MAX_TEST_ATTEMPTS = 3
MOST_TOLD = 20  # failing tests, to a model


@dataclasses.dataclass(frozen=True)
class Gate:
    """What passed the library's tests."""

    kernel: Written
    tests: TestsResult
    notes: tuple[str, ...]


class Validate:
    """The last stage of ``create``."""

    name = StageName.validate

    def run(self, context: StageContext) -> StageResult:
        """Give a report on a kernel that passes the library's own checks, with its benchmark data committed."""
        bench = reopen(context)
        earlier = own_result(context, self.name)
        left = context.result_of(StageName.generate)
        generated = left if earlier is None else left | earlier
        before = changes_from_json(generated["changes"])
        book = Book(context, self.name)
        gate = pass_gate(context, bench, book, new_points(context.feedback, earlier), generated, before)
        kernel = gate.kernel
        context.note("measuring")
        measured = _measure(context, bench, gate)
        profile = profiled_if_asked(context, bench.name, bench.problem, _form(bench, gate), measured)
        script = _run_script(context, bench, gate, measured)
        data = _data_changes(bench, gate, script, measured)
        plots = library_plots(context, bench.layout, bench.tree, data)
        images = draw_plots(context, bench.name, kernel.verdict, measured)
        summary = ValidateSummary(
            kernel.style,
            dataclasses.replace(gate.tests, collected=()),
            kernel.verdict,
            measured,
            dataclasses.replace(script, collected=()) if script else None,
            images,
            (*provenance(context.request, measured), *((("model", kernel.model),) if kernel.model else ())),
            reproduce(bench.name, asks=kernel.author == MODEL, profiles=profile is not None),
            (*gate.notes, *plots),
            kernel.answered,
            book.attempts,
            profile,
        )
        updates = self._updates(context, bench, before, gate, data, summary)
        output: dict[str, Any] = stored(kernel) | {
            "changes": changes_to_json(merged(before, (*kernel.changes, *data))),
            "summary": to_json(summary),
            HEARD: len(context.feedback),
        }
        context.artifact("report.json", json_bytes(summary), "application/json")
        return StageResult(output, updates)

    def _updates(
        self,
        context: StageContext,
        bench: Workbench,
        before: tuple[FileChange, ...],
        gate: Gate,
        data: tuple[FileChange, ...],
        summary: ValidateSummary,
    ) -> tuple[Update, ...]:
        revised = only_new(gate.kernel.changes, bench.tree, before)
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


def pass_gate(
    context: StageContext,
    bench: Workbench,
    book: Book,
    points: tuple[Feedback, ...],
    generated: dict[str, Any],
    standing: tuple[FileChange, ...],
) -> Gate:
    """Run the library's tests until they pass, asking the author again with what failed, three attempts in all.

    ``generated`` is the last output that holds a kernel, ``standing`` the files of the branch, ``points`` a review of them.

    Raises:
        UserFacingError: they still fail; the failure says which tests, and what was tried.
    """
    kernel = standing_kernel(context, bench, book, points, generated, standing)
    tried: list[str] = []
    for attempt in range(1, MAX_TEST_ATTEMPTS + 1):
        context.note(f"running the library's tests, attempt {attempt} of {MAX_TEST_ATTEMPTS}")
        tests = run_suite(context, f"tests-{attempt}", bench.layout.tests(kernel.design, bench.tree), kernel.changes)
        if tests.passed:
            return Gate(kernel, tests, tuple(tried))
        tried.append(f"the library's tests, attempt {attempt}: {tests.summary}")
        if attempt == MAX_TEST_ATTEMPTS:
            break
        again = _again(context, bench, book, kernel, tests, attempt)
        if again is None:
            tried.append(
                "the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one"
            )
            continue
        kernel = dataclasses.replace(again, answered=kernel.answered)
        tried.append("the author wrote the kernel again, and it was proved again")
    message = f"the library's tests for `{bench.name}` fail: {tests.summary}"
    cure = "Read the failing tests below; if the problem is what is wrong, give a new `/kernel create`."
    raise UserFacingError(Failure(FailureCode.tests, message, cure, log=failing(tests), attempts=tuple(tried)))


def standing_kernel(
    context: StageContext,
    bench: Workbench,
    book: Book,
    points: tuple[Feedback, ...],
    generated: dict[str, Any],
    standing: tuple[FileChange, ...],
) -> Written:
    """Give the kernel of the branch, or a model's revision of it where a review has points and a model may be asked."""
    if points and reads_words(context):
        return write(context, bench, book, points, generated, bench.tree.overlaid(standing))
    design = restored(bench, generated)
    changes = tuple(change for change in standing if change.path in _rendered(bench, design))
    style = _check_standing(context, bench, design, changes)
    verdict = from_json(Verdict, generated["verdict"])
    author, model = str(generated.get("author", COMPILER)), generated.get("model")
    return Written(author, design, changes, style, verdict, model=model)


def _again(
    context: StageContext, bench: Workbench, book: Book, kernel: Written, tests: TestsResult, attempt: int
) -> Written | None:
    """Give the author's next kernel after failing tests, proved; None where it is the same one."""
    if kernel.author == MODEL:
        failed = Failed(
            kernel.design.source or "", "tests", tests.summary, tuple(failing(tests).splitlines())[:MOST_TOLD]
        )
        return mended(context, bench, book, kernel.design, failed, f"tests-{attempt}-")
    compiled = bench.compiled((Feedback(failing(tests)),))
    if isinstance(compiled, Refusal) or compiled.source == kernel.design.source:
        return None
    design = bench.designed(compiled.plan, compiled.source)
    changes, style = styled_changes(context, bench, design, f"style-{attempt}")
    verdict = prove(context, bench, design, changes, f"verify-{attempt}", COMPILER)
    return Written(COMPILER, design, changes, style, verdict)


def _rendered(bench: Workbench, design: Design) -> set[str]:
    return {change.path for change in bench.layout.kernel_changes(design, bench.tree)}


def _check_standing(
    context: StageContext, bench: Workbench, design: Design, changes: tuple[FileChange, ...]
) -> StyleOutcome:
    context.note("running the library's style check")
    from workers.stylecheck import check_style

    def check() -> Any:
        outcome, _ = check_style(bench.layout.style_check(changes, bench.tree), bench.tree, changes)
        return to_json(outcome)

    outcome = from_json(StyleOutcome, context.memo("style", check))
    if not outcome.passed:
        message = f"the library's style check fails on `{design.name}`"
        raise UserFacingError(
            Failure(FailureCode.style, message, "Please report it: the layout wrote it.", log=outcome.log)
        )
    return outcome


def _form(bench: Workbench, gate: Gate) -> CandidateSource:
    return bench.layout.candidate(gate.kernel.design, gate.kernel.changes, SNAPSHOT_FILE)


def _measure(context: StageContext, bench: Workbench, gate: Gate) -> BenchmarkResult:
    request = BenchmarkRequest(bench.problem.source, _form(bench, gate))
    result = context.gpu("benchmark", request, Action.benchmark, {SNAPSHOT_FILE: context.request.snapshot})
    return from_json(BenchmarkResult, answer_of(result))


def _run_script(context: StageContext, bench: Workbench, gate: Gate, measured: BenchmarkResult) -> TestsResult | None:
    if measured.predicted:
        return None
    context.note("running the library's own benchmark script")
    return run_suite(context, "script", bench.layout.benchmark(gate.kernel.design, bench.tree), gate.kernel.changes)


def _data_changes(
    bench: Workbench, gate: Gate, script: TestsResult | None, measured: BenchmarkResult
) -> tuple[FileChange, ...]:
    if script is None or not script.passed:
        return ()
    return bench.layout.data_changes(gate.kernel.design, script.collected, measured, bench.tree)
