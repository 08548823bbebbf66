"""Finalize: the winner in the library's place, its tests as a hard gate, the measurement, the report; or back to the original."""

from __future__ import annotations

import difflib
from dataclasses import replace

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    TestsResult,
    from_json,
    to_json,
)
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CloseUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    FinalizeSummary,
    OptimizeSummary,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    Update,
)
from workers.engine.protocol import StageContext, StageResult
from workers.reports.plots import draw_plots
from workers.reports.provenance import provenance, reproduce_optimize
from workers.stages.applying import Gate, Passed
from workers.stages.situation import Profiled, left_by_profile
from workers.stages.standing import Bench, reopen_bench
from workers.stages.suites import json_bytes, library_plots, run_suite
from workers.stages.workbench import SNAPSHOT_FILE, answer_of, changes_from_json, changes_to_json, merged, own_result

START_S, SECONDS_A_WORKLOAD = 25.0, 9.0
NOTHING = "No variant was better than what stands, within the guardrails: nothing is changed."
AT_THE_FLOOR = "What stands is at the floor already: there is nothing to gain."
BACK = "Every variant that was tried failed the library's own tests or the full verdict: the original stands."


class Finalize:
    """The last stage of ``optimize``."""

    name = StageName.finalize

    def run(self, context: StageContext) -> StageResult:
        """Give a report, and a pull request with the kernel and its benchmark data where a variant passed the gate."""
        bench, known = reopen_bench(context), left_by_profile(context)
        compared = from_json(OptimizeSummary, context.result_of(StageName.optimize)["summary"])
        passed, variants, tried = Gate(context, bench, known, _taken_up(context, compared)).run()
        compared = replace(compared, variants=variants)
        if passed is None:
            return _unchanged(context, known, compared, tried)
        context.note("measuring the winner beside the original, eager and torch.compile")
        measured = _measured(context, bench, passed.changes)
        script, data = _script(context, bench, passed.changes, measured)
        plots = library_plots(context, bench.layout, bench.tree, data)
        images = draw_plots(context, bench.standing.name, passed.verdict, measured)
        summary = FinalizeSummary(
            applied=True,
            winner=passed.variant,
            variants=compared.variants,
            style=passed.style,
            tests=replace(passed.tests, collected=()),
            verdict=passed.verdict,
            benchmark=measured,
            script=replace(script, collected=()) if script else None,
            diff=_diff(bench, passed.changes),
            images=images,
            provenance=provenance(context.request, measured),
            reproduce=reproduce_optimize(context.request),
            stop=compared.stop,
            notes=(*tried, *plots),
        )
        context.artifact("report.json", json_bytes(summary), "application/json")
        context.artifact("winner.patch", summary.diff.encode(), "text/x-diff")
        before = _before(context)
        passed = replace(passed, changes=(*passed.changes, *(replace(page, text=None) for page in _profile(context))))
        output = {"changes": changes_to_json(merged(before, (*passed.changes, *data))), "summary": to_json(summary)}
        updates = _updates(context, bench, before, passed, data, summary)
        return StageResult(output, updates, checkpoint=not context.request.read_only)


def _taken_up(context: StageContext, compared: OptimizeSummary) -> OptimizeSummary:
    """Give the comparison with what an earlier attempt of this stage had a model mend, so that it is not asked for again."""
    earlier = own_result(context, StageName.finalize)
    left = None if earlier is None else from_json(FinalizeSummary, earlier["summary"])
    if left is None or left.winner is None or left.winner.name in {variant.name for variant in compared.variants}:
        return compared
    return replace(compared, variants=left.variants, winner=left.winner.name)


def _before(context: StageContext) -> tuple[FileChange, ...]:
    """Give what is on the branch: what an earlier attempt of this stage left, else the profile."""
    try:
        return changes_from_json(context.result_of(StageName.finalize)["changes"])
    except KeyError:
        return _profile(context)


def _profile(context: StageContext) -> tuple[FileChange, ...]:
    return changes_from_json(context.result_of(StageName.profile).get("changes", ()))


def _updates(
    context: StageContext,
    bench: Bench,
    before: tuple[FileChange, ...],
    passed: Passed,
    data: tuple[FileChange, ...],
    summary: FinalizeSummary,
) -> tuple[Update, ...]:
    standing = bench.tree.overlaid(before)
    commits = []
    for purpose, changes in ((CommitPurpose.optimization, passed.changes), (CommitPurpose.benchmark_data, data)):
        new = tuple(change for change in changes if standing.read(change.path) != change.text)
        if new:
            commits.append(CommitUpdate(purpose, new, StageName.finalize, context.attempt))
    if context.request.read_only:
        return (AssetsUpdate(summary.images), ReportUpdate(summary))
    return (
        *commits,
        PullRequestUpdate(None, bench.problem.source, summary.verdict, summary),
        AssetsUpdate(summary.images),
        ReadyUpdate(),
        CheckpointUpdate(StageName.finalize, context.attempt, summary, not context.request.options.auto),
    )


def _unchanged(
    context: StageContext, known: Profiled, compared: OptimizeSummary, tried: tuple[str, ...]
) -> StageResult:
    why = AT_THE_FLOOR if known.nothing_to_gain else BACK if tried else NOTHING
    summary = FinalizeSummary(
        applied=False,
        winner=None,
        variants=compared.variants,
        style=None,
        tests=None,
        verdict=None,
        benchmark=known.benchmark,
        script=None,
        diff="",
        images=(),
        provenance=provenance(context.request, known.benchmark),
        reproduce=reproduce_optimize(context.request),
        stop=compared.stop,
        notes=(why, *tried),
    )
    context.artifact("report.json", json_bytes(summary), "application/json")
    closed = (CloseUpdate(),) if _profile(context) else ()
    output = {"changes": changes_to_json(_before(context)), "summary": to_json(summary)}
    return StageResult(output, (*closed, ReportUpdate(summary)), checkpoint=False)


def _measured(context: StageContext, bench: Bench, changes: tuple[FileChange, ...]) -> BenchmarkResult:
    request = BenchmarkRequest(
        bench.problem.source,
        bench.form(changes[0].text),
        workloads=bench.workloads,
        budget_s=START_S + SECONDS_A_WORKLOAD * len(bench.workloads),
        original=bench.form(),
    )
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    answer = context.gpu("benchmark", request, Action.benchmark, beside, lasting=True)
    return from_json(BenchmarkResult, answer_of(answer))


def _script(
    context: StageContext, bench: Bench, changes: tuple[FileChange, ...], measured: BenchmarkResult
) -> tuple[TestsResult | None, tuple[FileChange, ...]]:
    if measured.predicted:
        return None, ()
    context.note("running the library's own benchmark script")
    suite = bench.layout.script_of(bench.standing, bench.tree)
    script = run_suite(context, "script", suite, changes, lasting=True)
    if not script.passed:
        return script, ()
    return script, bench.layout.standing_data(bench.standing, script.collected, bench.tree)


def _diff(bench: Bench, changes: tuple[FileChange, ...]) -> str:
    path = bench.standing.path
    after = changes[0].text or ""
    lines = difflib.unified_diff(
        bench.original.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(lines)
