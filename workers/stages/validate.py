"""Validate: the library's style check, its tests as a hard gate, the benchmark, the plots and the report; then ready for review."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    TestsResult,
    Verdict,
    from_json,
    to_json,
)
from workers.authors.protocol import Feedback
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
from workers.stages.generate import prove, styled_changes
from workers.stages.suites import failing, json_bytes, run_suite
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
    with_source,
)

MAX_TEST_ATTEMPTS = 3


@dataclasses.dataclass(frozen=True)
class Gate:
    """What passed the library's tests."""

    design: Design
    changes: tuple[FileChange, ...]
    style: StyleOutcome
    verdict: Verdict
    tests: TestsResult
    notes: tuple[str, ...]


class Validate:
    """The last stage of ``create``."""

    name = StageName.validate

    def run(self, context: StageContext) -> StageResult:
        """Give a report on a kernel that passes the library's own checks, with its benchmark data committed."""
        bench = reopen(context)
        generated = context.result_of(StageName.generate)
        before = changes_from_json((own_result(context, self.name) or generated)["changes"])
        gate = pass_gate(context, bench, generated, before)
        context.note("measuring")
        measured = _measure(context, bench, gate)
        script = _run_script(context, bench, gate, measured)
        data = _data_changes(bench, gate, script, measured)
        images = draw_plots(context, bench.name, gate.verdict, measured)
        summary = ValidateSummary(
            gate.style,
            dataclasses.replace(gate.tests, collected=()),
            gate.verdict,
            measured,
            dataclasses.replace(script, collected=()) if script else None,
            images,
            provenance(context.request, measured),
            reproduce(bench.name),
            gate.notes,
        )
        updates = self._updates(context, bench, before, gate, data, summary)
        output: dict[str, Any] = {
            "changes": changes_to_json(merged(before, (*gate.changes, *data))),
            "source": gate.design.source,
            "summary": to_json(summary),
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
        revised = only_new(gate.changes, bench.tree, before)
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
    context: StageContext, bench: Workbench, generated: dict[str, Any], standing: tuple[FileChange, ...]
) -> Gate:
    """Run the library's tests until they pass, asking the author again with what failed, three attempts in all.

    Raises:
        UserFacingError: they still fail; the failure says which tests, and what was tried.
    """
    design, _ = bench.propose()
    design = with_source(design, str(generated["source"]))
    verdict = from_json(Verdict, generated["verdict"])
    changes = tuple(change for change in standing if change.path in _rendered(bench, design))
    style = _check_standing(context, bench, design, changes)
    tried: list[str] = []
    for attempt in range(1, MAX_TEST_ATTEMPTS + 1):
        context.note(f"running the library's tests, attempt {attempt} of {MAX_TEST_ATTEMPTS}")
        tests = run_suite(context, f"tests-{attempt}", bench.layout.tests(design, bench.tree), changes)
        if tests.passed:
            return Gate(design, changes, style, verdict, tests, tuple(tried))
        tried.append(f"the library's tests, attempt {attempt}: {tests.summary}")
        if attempt == MAX_TEST_ATTEMPTS:
            break
        again, _ = bench.propose((Feedback(failing(tests)),))
        if again.source == design.source:
            tried.append(
                "the author wrote the same kernel again, so the tests ran once more to tell a flaky test from a failing one"
            )
            continue
        design = again
        changes, style = styled_changes(context, bench, design, f"style-{attempt}")
        verdict = prove(context, bench, design, changes, f"verify-{attempt}")
        tried.append("the author wrote the kernel again, and it was proved again")
    message = f"the library's tests for `{bench.name}` fail: {tests.summary}"
    cure = "Read the failing tests below; if the problem is what is wrong, give a new `/kernel create`."
    raise UserFacingError(Failure(FailureCode.tests, message, cure, log=failing(tests), attempts=tuple(tried)))


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


def _measure(context: StageContext, bench: Workbench, gate: Gate) -> BenchmarkResult:
    candidate = bench.layout.candidate(gate.design, gate.changes, SNAPSHOT_FILE)
    request = BenchmarkRequest(bench.problem.source, candidate)
    result = context.gpu("benchmark", request, Action.benchmark, {SNAPSHOT_FILE: context.request.snapshot})
    return from_json(BenchmarkResult, answer_of(result))


def _run_script(context: StageContext, bench: Workbench, gate: Gate, measured: BenchmarkResult) -> TestsResult | None:
    if measured.predicted:
        return None
    context.note("running the library's own benchmark script")
    return run_suite(context, "script", bench.layout.benchmark(gate.design, bench.tree), gate.changes)


def _data_changes(
    bench: Workbench, gate: Gate, script: TestsResult | None, measured: BenchmarkResult
) -> tuple[FileChange, ...]:
    if script is None or not script.passed:
        return ()
    return bench.layout.data_changes(gate.design, script.collected, measured, bench.tree)
