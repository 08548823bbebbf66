"""Finalize: the winner in the library's place, its tests as a hard gate, the measurement, the report; or back to the original."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from gpu_runner.contracts import Status, TestsResult, Verdict, from_json, to_json
from workers.authors.llm.failures import MAX_LOG, failed_verdict
from workers.authors.llm.protocol import Failed
from workers.contracts import (
    AssetsUpdate,
    CheckpointUpdate,
    CloseUpdate,
    CommitPurpose,
    CommitUpdate,
    FileChange,
    FinalizeSummary,
    NewVersion,
    OptimizeSummary,
    PullRequestUpdate,
    ReadyUpdate,
    ReportUpdate,
    StageName,
    StyleOutcome,
    Update,
    Variant,
)
from workers.engine.protocol import StageContext, StageResult
from workers.layouts.protocol import LogEntry, Placed
from workers.reports.pages import report_page
from workers.reports.plots import draw_plots
from workers.reports.provenance import provenance, reproduce_optimize
from workers.stages.bench import (
    OptimizeBench,
    Profiled,
    changes_from_json,
    keep_json,
    merged,
    only_new,
    own_result,
    reopen_optimize,
)
from workers.stages.confines import diff
from workers.stages.gate import failed_nodes, failing, library_plots, run_script, timing_budget_s
from workers.stages.headroom import time_of
from workers.stages.search import AttemptLog
from workers.stages.variants import ModelAuthor, VariantStart, VariantTrials
from workers.stages.writing import STYLE
from workers.strategies.search import comparison_with_original
from workers.tree import Tree

MOST_TRIES = 3  # the winner and two repairs
MOST_SHOWN = 20  # lines of failing tests, to a model
TESTS = "tests"


@dataclass(frozen=True)
class Passed:
    """A variant that passed the gate, in the form in which it will be committed."""

    variant: Variant
    placed: Placed
    style: StyleOutcome
    tests: TestsResult
    verdict: Verdict


class Application:
    """Tries the winner; a repair is a model's new variant where a model wrote what failed, and the next best kept one else.

    Where the repository keeps versions, the other kept variants go through the same gate first, in their order; ``versions`` are
    those that passed, and the next best is the last of them.
    """

    def __init__(self, bench: OptimizeBench, known: Profiled, compared: OptimizeSummary) -> None:
        self._context, self._bench = bench.context, bench
        self._author = ModelAuthor(VariantTrials(bench, known), AttemptLog(bench.context, StageName.finalize))
        self._variants = compared.variants
        self._waiting = _candidates(compared)
        self._others = tuple[Variant, ...]()
        if bench.layout.keeps_versions:
            self._waiting, others = self._waiting[:1], self._waiting[1:]
            self._others = tuple(sorted(others, key=self._variants.index))
        self._tree = bench.tree
        self.versions = tuple[Passed, ...]()
        self._tried: list[str] = []
        self._fallen = frozenset[str]()

    def run(self) -> tuple[Passed | None, tuple[Variant, ...], tuple[str, ...]]:
        """What passed, all variants by now, and what was tried before; none is committed before it has passed everything.

        Raises:
            UserFacingError: the GPU host failed.
        """
        for variant in self._others:
            result = self._try(variant)
            if isinstance(result, Passed):
                self.versions = (*self.versions, result)
                self._tree = self._tree.overlaid(result.placed.changes)
        for number in range(1, MOST_TRIES + 1):
            if not self._waiting:
                break
            variant = self._waiting.pop(0)
            result = self._try(variant)
            if isinstance(result, Passed):
                return result, self._variants, tuple(self._tried)
            if number < MOST_TRIES:
                self._repair(variant, result)
        if self.versions:
            last, self.versions = self.versions[-1], self.versions[:-1]
            return last, self._variants, tuple(self._tried)
        return None, self._variants, tuple(self._tried)

    def _repair(self, variant: Variant, failed: Failed) -> None:
        """Have the model that wrote a variant write it again with what failed, through the gate of all variants first."""
        if not variant.attempts or self._silent() or not self._bench.asks_models():
            return
        self._fallen |= {variant.name}
        number, planned = len(self._variants) + 1, self._author.planned()
        start = VariantStart(number, planned, variant, self._variants, failed=failed, fallen=self._fallen)
        made = self._author.write(start)
        if (silence := self._author.silence) is not None:
            self._tried.append(silence.note())
        if made is None:
            return
        self._variants = (*self._variants, made.variant)
        if made.variant.accepted:
            self._tried.append(
                f"{made.variant.name}: a model repaired {variant.name}; it was verified and measured again"
            )
            self._waiting.insert(0, made.variant)
        else:
            why = f": {made.variant.reason}" if made.variant.reason else ""
            end = f"a model's repair of {variant.name} ended as {made.variant.outcome.value}"
            self._tried.append(f"{made.variant.name}: {end}{why}")

    def _silent(self) -> bool:
        return self._author.silence is not None

    def _try(self, variant: Variant) -> Passed | Failed:
        assert variant.source is not None, "a variant that was accepted has a file"
        context, bench = self._context, self._bench
        placed = bench.layout.placed(bench.kernel, context.load(variant.source).decode(), self._tree)
        changes, style = bench.gate.style(f"style-{variant.name}", bench.layout, bench.tree, placed.changes)
        placed = replace(placed, changes=changes)
        if not style.passed:
            sentence = "the library's style check fails on it"
            return self._fell(variant, sentence, Failed("", STYLE, sentence, log=style.log[-MAX_LOG:]))
        context.note(f"running the library's whole test file with {variant.name}")
        suite = bench.layout.suite_of(bench.kernel, bench.tree)
        tests = bench.gate.tests(f"tests-{variant.name}", suite, changes, lasting=True)
        worse = _newly_failing(bench, tests)
        if worse:
            evidence = tuple(failing(tests).splitlines())[:MOST_SHOWN]
            return self._fell(variant, worse, Failed("", TESTS, worse, evidence))
        context.note(f"proving {variant.name} on all sizes")
        key, form = f"verify-{variant.name}", bench.form_of(placed)
        verdict = bench.gate.verify(key, bench.problem, form, original=bench.form(), multiples=bench.multiples)
        if verdict.status is not Status.passed:
            first = verdict.evidence[0].message if verdict.evidence else ""
            sentence = f"the full verdict is {verdict.status.value}. {first}".rstrip()
            return self._fell(variant, sentence, failed_verdict(verdict, ""))
        return Passed(variant, placed, style, tests, verdict)

    def _fell(self, variant: Variant, sentence: str, failed: Failed) -> Failed:
        self._tried.append(f"{variant.name}: {sentence}")
        return failed


def _candidates(compared: OptimizeSummary) -> list[Variant]:
    if compared.winner is None:
        return []
    first = next(variant for variant in compared.variants if variant.name == compared.winner)
    others = [v for v in compared.variants if v.accepted and v.name != first.name]
    return [first, *sorted(others, key=lambda v: v.score or 0.0, reverse=True)]


def _newly_failing(bench: OptimizeBench, tests: TestsResult) -> str | None:
    """Which tests fail that pass without the change; None where there are none and something passed."""
    if tests.passed:
        return None
    failed = failed_nodes(tests)
    if not failed:
        return f"the library's tests did not run: {tests.summary}"
    bench.context.note("running the library's test file without the change, to tell its own failures apart")
    suite = bench.layout.suite_of(bench.kernel, bench.tree)
    today = bench.gate.tests("tests-today", suite, bench.handed, lasting=True)
    new = sorted(failed - failed_nodes(today))
    if not new and any(case.outcome.value == "passed" for case in tests.cases):
        return None
    named = ", ".join(new[:3]) + (f" and {len(new) - 3} more" if len(new) > 3 else "")
    return f"the library's tests fail that pass without the change: {named}" if new else "no test of the library passes"


NO_CHANGE = "No variant was better than the existing kernel within the guardrails, so nothing is changed."
AT_THE_FLOOR = "The existing kernel is already at the floor: there is nothing to gain."
BACK = "Every variant that was tried failed the library's own tests or the full verdict: the original stays."


class Finalize:
    """The last stage of ``optimize``."""

    name = StageName.finalize

    def run(self, context: StageContext) -> StageResult:
        """A report, and a pull request with the kernel and its benchmark data where a variant passed the gate."""
        bench, known = reopen_optimize(context)
        compared = from_json(OptimizeSummary, context.result_of(StageName.optimize)["summary"])
        application = Application(bench, known, _taken_up(context, compared))
        passed, variants, tried = application.run()
        compared = replace(compared, variants=variants)
        if passed is None:
            return _unchanged(context, known, compared, tried)
        context.note("measuring the winner beside the original, eager and torch.compile")
        measured = bench.gate.benchmark(
            "benchmark",
            bench.problem,
            bench.form_of(passed.placed),
            workloads=bench.workloads,
            budget_s=timing_budget_s(len(bench.workloads)),
            original=bench.form(),
        )
        kept = (*application.versions, passed)
        changes = tuple(change for one in kept for change in one.placed.changes)
        script, data = run_script(bench.gate, bench.kernel, bench.layout, bench.tree, changes, measured)
        plots = library_plots(bench.gate, bench.layout, bench.tree, data)
        images = draw_plots(context, bench.kernel.name, passed.verdict, measured)
        logged = CommitLog(bench, known, kept)
        summary = FinalizeSummary(
            applied=True,
            winner=passed.variant,
            variants=compared.variants,
            style=passed.style,
            tests=replace(passed.tests, collected=()),
            verdict=passed.verdict,
            benchmark=measured,
            script=replace(script, collected=()) if script else None,
            diff=diff(changes, bench.tree),
            images=images,
            provenance=provenance(context.request, measured),
            reproduce=reproduce_optimize(context.request),
            stop=compared.stop,
            notes=(*tried, *plots),
            versions=logged.versions,
        )
        _keep(context, summary)
        context.artifact("winner.patch", summary.diff.encode(), "text/x-diff")
        before = _before(context)
        gone = tuple(replace(page, text=None) for page in _profile(context))
        commits = (*logged.commits[:-1], (*logged.commits[-1], *gone))
        output = {"changes": to_json(merged(before, (*sum(commits, ()), *data))), "summary": to_json(summary)}
        updates = _updates(bench, before, commits, data, summary)
        return StageResult(output, updates, checkpoint=not context.request.read_only)


def _keep(context: StageContext, summary: FinalizeSummary) -> None:
    keep_json(context, "report.json", summary)
    page = report_page(context.request.kernel, summary)
    context.artifact("report.md", page.encode(), "text/markdown")


class CommitLog:
    """What is committed: a commit for each that was kept, with the entry of a development log where the repository keeps one."""

    def __init__(self, bench: OptimizeBench, known: Profiled, kept: tuple[Passed, ...]) -> None:
        self.versions = tuple[NewVersion, ...]()
        self.commits = tuple[tuple[FileChange, ...], ...]()
        filled = bench.layout.measured(bench.kernel, measured_entry(known), bench.tree) if kept else ()
        tree = bench.tree.overlaid(filled)
        for one in kept:
            tree = tree.overlaid(one.placed.changes)
            pages = bench.layout.logged(one.placed.kernel, log_entry(one.variant, known), tree)
            self.commits = (*self.commits, (*one.placed.changes, *pages))
            if bench.layout.keeps_versions:
                self.versions = (*self.versions, _new_version(one, pages, bench.tree))
            tree = tree.overlaid(pages)


def _new_version(one: Passed, pages: tuple[FileChange, ...], before: Tree) -> NewVersion:
    paths = [change.path for change in (*one.placed.changes, *pages)]
    variant = one.variant
    return NewVersion(
        name=PurePosixPath(one.placed.kernel.path).parent.name,
        variant=variant.name,
        applied=(f"{variant.title}: {variant.notes.change} {variant.notes.hypothesis}".strip(),),
        created=tuple(path for path in paths if path not in before.files),
        modified=tuple(path for path in paths if path in before.files),
        log=pages[0].path if pages else None,
    )


def measured_entry(known: Profiled) -> LogEntry:
    """What a development log says of the kernel as it is: its times and what bounds it, and nothing where no GPU took part."""
    timed = [] if known.benchmark.predicted else [(row, time_of(row)) for row in known.benchmark.rows]
    metrics = tuple(
        f"{row.timed_pass.value} at {row.workload.label()}: {time_us:.1f} us on {known.benchmark.gpu}"
        for row, time_us in timed
        if time_us is not None
    )
    return LogEntry("", (), (), metrics, _bounds(known) if metrics else "")


def _bounds(known: Profiled) -> str:
    return ", ".join(f"{timed_pass.value} by {bound.value}" for timed_pass, bound in known.profile.bounds)


def log_entry(variant: Variant, known: Profiled) -> LogEntry:
    """What a development log says of a variant: what was measured stands there, and nothing where no GPU took part."""
    settings = tuple(f"{place}: {values}" for place, values in variant.settings)
    compared = [(row, pair) for row in variant.rows if (pair := comparison_with_original(row)) is not None]
    metrics = tuple(
        f"{row.timed_pass.value} at {row.workload.label()}: {pair.speedup:.2f} times as fast as before "
        f"({pair.speedup_low:.2f} to {pair.speedup_high:.2f}) on {known.benchmark.gpu}"
        for row, pair in compared
        if not known.benchmark.predicted
    )
    bounds = _bounds(known)
    return LogEntry(
        variant.title,
        (variant.notes.change, *settings),
        (variant.notes.hypothesis, f"expected: {variant.notes.expected}"),
        metrics,
        f"before this version: {bounds}" if metrics and bounds else "",
        tuple(
            f"slower: {metric}" for (_, pair), metric in zip(compared, metrics, strict=False) if pair.speedup_high < 1
        ),
        variant.notes.learnings if metrics else "",
    )


def _taken_up(context: StageContext, compared: OptimizeSummary) -> OptimizeSummary:
    """The comparison with what an earlier attempt of this stage had a model repair, so that it is not asked for again."""
    earlier = own_result(context, StageName.finalize)
    left = None if earlier is None else from_json(FinalizeSummary, earlier["summary"])
    if left is None or left.winner is None or left.winner.name in {variant.name for variant in compared.variants}:
        return compared
    return replace(compared, variants=left.variants, winner=left.winner.name)


def _before(context: StageContext) -> tuple[FileChange, ...]:
    """What is on the branch: what an earlier attempt of this stage left, else the profile."""
    try:
        return changes_from_json(context.result_of(StageName.finalize)["changes"])
    except KeyError:
        return _profile(context)


def _profile(context: StageContext) -> tuple[FileChange, ...]:
    return changes_from_json(context.result_of(StageName.profile).get("changes", ()))


def _updates(
    bench: OptimizeBench,
    before: tuple[FileChange, ...],
    made: tuple[tuple[FileChange, ...], ...],
    data: tuple[FileChange, ...],
    summary: FinalizeSummary,
) -> tuple[Update, ...]:
    context, commits = bench.context, []
    wanted = [*((CommitPurpose.optimization, changes) for changes in made), (CommitPurpose.benchmark_data, data)]
    for purpose, changes in wanted:
        new = only_new(changes, bench.tree, before)
        before = merged(before, new)
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
    why = AT_THE_FLOOR if known.nothing_to_gain else BACK if tried else NO_CHANGE
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
    _keep(context, summary)
    closed = (CloseUpdate(),) if _profile(context) else ()
    output = {"changes": to_json(_before(context)), "summary": to_json(summary)}
    return StageResult(output, (*closed, ReportUpdate(summary)), checkpoint=False)
