"""Finalize: the winner in the library's place, its tests as a hard gate, the measurement, the report; or back to the original."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    Status,
    TestsResult,
    Verdict,
    VerifyRequest,
    from_json,
    to_json,
)
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    FinalizeSummary,
    OptimizeSummary,
    Outcome,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    StyleOutcome,
    Update,
    Variant,
)
from workers.engine.protocol import StageContext, StageResult
from workers.reports.plots import draw_plots
from workers.reports.provenance import provenance, reproduce_optimize
from workers.stages.situation import Profiled, left_by_profile
from workers.stages.standing import Bench, reopen_bench
from workers.stages.suites import failed_nodes, json_bytes, run_suite
from workers.stages.workbench import SNAPSHOT_FILE, answer_of, changes_from_json, changes_to_json, merged
from workers.stylecheck import check_style

MOST_TRIES = 3  # the winner and two repairs
START_S, SECONDS_A_WORKLOAD = 25.0, 9.0
NOTHING = "No variant was better than what stands, within the guardrails: nothing is changed."
AT_THE_FLOOR = "What stands is at the floor already: there is nothing to gain."
BACK = "Every variant that was tried failed the library's own tests or the full verdict: the original stands."


@dataclass(frozen=True)
class Passed:
    """A variant that passed the gate, in the form in which it will be committed."""

    variant: Variant
    changes: tuple[FileChange, ...]
    style: StyleOutcome
    tests: TestsResult
    verdict: Verdict


class Finalize:
    """The last stage of ``optimize``."""

    name = StageName.finalize

    def run(self, context: StageContext) -> StageResult:
        """Give a report, and a pull request with the kernel and its benchmark data where a variant passed the gate."""
        bench, known = reopen_bench(context), left_by_profile(context)
        compared = from_json(OptimizeSummary, context.result_of(StageName.optimize)["summary"])
        passed, tried = _gate(context, bench, compared)
        if passed is None:
            return _unchanged(context, known, compared, tried)
        context.note("measuring the winner beside the original, eager and torch.compile")
        measured = _measured(context, bench, passed.changes)
        script, data = _script(context, bench, passed.changes, measured)
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
            notes=tried,
        )
        context.artifact("report.json", json_bytes(summary), "application/json")
        context.artifact("winner.patch", summary.diff.encode(), "text/x-diff")
        before = _before(context)
        output = {"changes": changes_to_json(merged(before, (*passed.changes, *data))), "summary": to_json(summary)}
        return StageResult(output, _updates(context, bench, before, passed, data, summary))


def _before(context: StageContext) -> tuple[FileChange, ...]:
    try:
        return changes_from_json(context.result_of(StageName.finalize)["changes"])
    except KeyError:
        return ()


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
    return StageResult({"changes": [], "summary": to_json(summary)}, (ReportUpdate(summary),), checkpoint=False)


def _gate(context: StageContext, bench: Bench, compared: OptimizeSummary) -> tuple[Passed | None, tuple[str, ...]]:
    """Try the winner, then the next best twice: none is committed before it has passed everything."""
    tried: list[str] = []
    for variant in _candidates(compared)[:MOST_TRIES]:
        passed = _try(context, bench, variant, tried)
        if passed is not None:
            return passed, tuple(tried)
    return None, tuple(tried)


def _candidates(compared: OptimizeSummary) -> list[Variant]:
    if compared.winner is None:
        return []
    first = next(variant for variant in compared.variants if variant.name == compared.winner)
    others = [v for v in compared.variants if v.outcome is Outcome.kept and v.name != first.name]
    return [first, *sorted(others, key=lambda v: v.score or 0.0, reverse=True)]


def _try(context: StageContext, bench: Bench, variant: Variant, tried: list[str]) -> Passed | None:
    assert variant.source is not None, "a variant that was kept has a file"
    changes, style = _styled(context, bench, variant)
    if not style.passed:
        tried.append(f"{variant.name}: the library's style check fails on it")
        return None
    context.note(f"running the library's whole test file with {variant.name}")
    suite = bench.layout.suite_of(bench.standing, bench.tree)
    tests = run_suite(context, f"tests-{variant.name}", suite, changes, lasting=True)
    worse = _newly_failing(context, bench, tests)
    if worse:
        tried.append(f"{variant.name}: {worse}")
        return None
    context.note(f"proving {variant.name} on all sizes")
    request = VerifyRequest(bench.problem.source, bench.form(changes[0].text), original=bench.form())
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    answer = context.gpu(f"verify-{variant.name}", request, Action.verify, beside, lasting=True)
    verdict = from_json(Verdict, answer_of(answer))
    if verdict.status is not Status.passed:
        first = verdict.evidence[0].message if verdict.evidence else ""
        tried.append(f"{variant.name}: the full verdict is {verdict.status.value}. {first}".rstrip())
        return None
    return Passed(variant, changes, style, tests, verdict)


def _newly_failing(context: StageContext, bench: Bench, tests: TestsResult) -> str | None:
    """Say which tests fail that pass without the change; None where there are none and something passed."""
    if tests.passed:
        return None
    failed = failed_nodes(tests)
    if not failed:
        return f"the library's tests did not run: {tests.summary}"
    context.note("running the library's test file without the change, to tell its own failures apart")
    suite = bench.layout.suite_of(bench.standing, bench.tree)
    today = run_suite(context, "tests-today", suite, (), lasting=True)
    new = sorted(failed - failed_nodes(today))
    if not new and any(case.outcome.value == "passed" for case in tests.cases):
        return None
    named = ", ".join(new[:3]) + (f" and {len(new) - 3} more" if len(new) > 3 else "")
    return f"the library's tests fail that pass without the change: {named}" if new else "no test of the library passes"


def _styled(context: StageContext, bench: Bench, variant: Variant) -> tuple[tuple[FileChange, ...], StyleOutcome]:
    changes = bench.change(context.load(variant.source or "").decode())

    def check() -> Any:
        outcome, fixes = check_style(bench.layout.style_check(changes, bench.tree), bench.tree, changes)
        return {"outcome": to_json(outcome), "fixes": changes_to_json(fixes)}

    stored = context.memo(f"style-{variant.name}", check)
    return merged(changes, changes_from_json(stored["fixes"])), from_json(StyleOutcome, stored["outcome"])


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
