"""One variant from proposal to outcome: written, tuned, proved beside the original, measured against it, and judged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpu_runner.contracts import (
    Action,
    BenchmarkRequest,
    BenchmarkResult,
    GpuResult,
    Status,
    TuneRequest,
    TuneResult,
    Verdict,
    VerifyRequest,
    from_json,
)
from workers.contracts import Notes, Outcome, PlannedStrategy, Variant
from workers.engine.protocol import StageContext
from workers.reports.notebook import notes_page, results_csv
from workers.stages.learnings import learnings, predicted_learnings
from workers.stages.situation import Profiled, situation_of
from workers.stages.standing import Bench, aim_of
from workers.stages.suites import json_bytes
from workers.stages.workbench import SNAPSHOT_FILE, answer_of
from workers.strategies.catalog import strategy_named
from workers.strategies.protocol import DoesNotApply, Proposed, Table
from workers.strategies.search import VARIANT, breaches, score
from workers.strategies.source import fingerprint

START_S = 25.0  # until every contender has imported the library; the rest is for measuring
SECONDS_A_WORKLOAD = 4.0
TUNE_SECONDS_A_WORKLOAD = 9.0
LEAST_GAIN = 1.01  # over its parent
EXPECTED_GAIN = 1.05  # where nothing can be timed, only what is expected to be worth it is kept
ORIGINAL_ALONE = ("original",)
NO_TABLE: Table = ()


@dataclass(frozen=True)
class Tried:
    """A variant that has been through the gate, with its verdict where it came so far."""

    variant: Variant
    verdict: Verdict | None = None


@dataclass
class Trials:
    """The variants of one optimize job, one after the other."""

    context: StageContext
    bench: Bench
    known: Profiled

    def run(
        self, number: int, planned: PlannedStrategy, parent: Variant | None, earlier: tuple[Variant, ...]
    ) -> Variant:
        """Carry one variant through, and keep its file, its notes and its results as artifacts.

        Raises:
            UserFacingError: the GPU host failed; what was measured before is kept.
        """
        name = f"v{number}"
        strategy = strategy_named(planned.strategy)
        self.context.note(f"{name}: {strategy.title}")
        source = None if parent is None else self.text_of(parent)
        answer = strategy.propose(situation_of(self.context, self.bench, self.known, source, earlier))
        base = self.unwritten(number, planned, parent)
        if isinstance(answer, DoesNotApply):
            return self.keep(replace(base, outcome=Outcome.does_not_apply, reason=answer.sentence))
        return self.keep(self.tried(base, answer, planned, earlier, parent, name).variant)

    def unwritten(self, number: int, planned: PlannedStrategy, parent: Variant | None) -> Variant:
        """Give a variant before anything of it is written."""
        origin = "v0" if parent is None else parent.name
        return Variant(f"v{number}", origin, planned.strategy, planned.title, _unwritten(planned), Outcome.failed)

    def text_of(self, variant: Variant) -> str:
        """Give the text of a variant's file."""
        assert variant.source is not None, "only a variant with a file is a parent or a winner"
        return self.context.load(variant.source).decode()

    def tried(
        self,
        variant: Variant,
        answer: Proposed,
        planned: PlannedStrategy,
        earlier: tuple[Variant, ...],
        parent: Variant | None,
        key: str,
    ) -> Tried:
        """Carry a proposal through the gate that all variants pass; ``key`` begins the keys of what is asked of the runner."""
        variant = replace(variant, notes=answer.notes, settings=answer.settings)
        self._note(variant)  # what is supposed is written down before anything runs, so that no result can colour it
        tuned, table = self._tuned(variant, answer)
        text = answer.source if answer.settle is None else answer.settle(answer.source, table)
        digest = self.context.artifact(f"{variant.name}.py", text.encode(), "text/x-python")
        variant = replace(variant, source=digest, settings=(*variant.settings, *tuned))
        same = self._same(text, earlier)
        if same is not None:
            return Tried(replace(variant, outcome=Outcome.duplicate, reason=f"It is the same code as {same}."))
        verdict = self._verified(variant, text, key)
        variant = replace(variant, status=verdict.status)
        if verdict.status is not Status.passed:
            first = verdict.evidence[0].message if verdict.evidence else "no evidence came with it"
            reason = f"The verdict is {verdict.status.value}: {first}"
            wrong = replace(variant, outcome=Outcome.incorrect, reason=reason, notes=_learned(variant, reason))
            return Tried(wrong, verdict)
        return Tried(self._weighed(variant, self._measured(variant, text, key), planned, parent), verdict)

    def _same(self, text: str, earlier: tuple[Variant, ...]) -> str | None:
        found = fingerprint(text)
        if found == fingerprint(self.bench.original):
            return "v0"
        known = (v for v in earlier if v.source is not None)
        return next((v.name for v in known if fingerprint(self.text_of(v)) == found), None)

    def _tuned(self, variant: Variant, answer: Proposed) -> tuple[tuple[tuple[str, str], ...], Table]:
        if not answer.knobs or self.known.benchmark.predicted:
            return (), NO_TABLE
        self.context.note(f"{variant.name}: tuning {len(answer.knobs)} settings")
        workloads = self.bench.workloads
        request = TuneRequest(
            self.bench.problem.source,
            self.bench.form(answer.source),
            answer.knobs,
            workloads=workloads,
            budget_s=START_S + TUNE_SECONDS_A_WORKLOAD * len(workloads),
            module=self.bench.standing.module,
        )
        found = from_json(TuneResult, answer_of(self._ask(f"{variant.name}-tune", request, Action.tune)))
        if found.architecture is None or not found.table:
            return (), NO_TABLE
        told = tuple(
            (
                f"{c.tuned_pass.value}, {c.workload.label()}",
                ", ".join(f"{n}={v}" for n, v in c.settings) or "the default",
            )
            for c in found.choices
        )
        return told, ((found.architecture, tuple((p.value, rows) for p, rows in found.table)),)

    def _verified(self, variant: Variant, text: str, key: str) -> Verdict:
        self.context.note(f"{variant.name}: a smoke test of its values")
        request = VerifyRequest(
            self.bench.problem.source,
            self.bench.form(text),
            quick=True,
            original=self.bench.form(),
            multiples=self.bench.multiples,
        )
        return from_json(Verdict, answer_of(self._ask(f"{key}-verify", request, Action.verify)))

    def _measured(self, variant: Variant, text: str, key: str) -> BenchmarkResult:
        self.context.note(f"{variant.name}: measuring it against v0")
        request = BenchmarkRequest(
            self.bench.problem.source,
            self.bench.form(text),
            workloads=self.bench.workloads,
            budget_s=START_S + SECONDS_A_WORKLOAD * len(self.bench.workloads),
            original=self.bench.form(),
            contenders=ORIGINAL_ALONE,
        )
        return from_json(BenchmarkResult, answer_of(self._ask(f"{key}-benchmark", request, Action.benchmark)))

    def _weighed(
        self, variant: Variant, measured: BenchmarkResult, planned: PlannedStrategy, parent: Variant | None
    ) -> Variant:
        options = self.context.request.options
        rows = measured.rows
        if measured.predicted:
            outcome = (
                Outcome.kept if math.sqrt(planned.gain_low * planned.gain_high) >= EXPECTED_GAIN else Outcome.no_gain
            )
            told = predicted_learnings(planned)
            return replace(variant, rows=rows, outcome=outcome, notes=_learned(variant, told))
        aim = (options.goal, options.scope, aim_of(self.bench.problem, options).regime)
        found, broken = score(rows, *aim), breaches(rows, *aim)
        variant = replace(variant, rows=rows, score=found, breaches=broken, notes=_learned(variant, learnings(rows)))
        if found is None or _fails_somewhere(measured):
            return replace(variant, outcome=Outcome.failed, reason=_unmeasured(measured))
        if broken:
            return replace(variant, outcome=Outcome.guardrail)
        # A change that adds nothing to the variant that it was made to is one more thing to maintain, and nothing else.
        before = (parent.score if parent is not None else None) or 1.0
        return replace(variant, outcome=Outcome.kept if found >= before * LEAST_GAIN else Outcome.no_gain)

    def _ask(self, key: str, request: object, action: Action) -> GpuResult:
        beside = {SNAPSHOT_FILE: self.context.request.snapshot}
        return self.context.gpu(key, request, action, beside, lasting=True)

    def keep(self, variant: Variant) -> Variant:
        """Keep a variant's record as an artifact."""
        self.context.artifact(f"{variant.name}.json", json_bytes(variant), "application/json")
        self._note(variant)
        if variant.rows:
            self.context.artifact(f"{variant.name}_results.csv", results_csv(variant.rows).encode(), "text/csv")
        return variant

    def _note(self, variant: Variant) -> None:
        self.context.artifact(f"{variant.name}_notes.md", notes_page(variant).encode(), "text/markdown")


def _unwritten(planned: PlannedStrategy) -> Notes:
    return Notes(planned.trigger, "", f"between {planned.gain_low:.2f} and {planned.gain_high:.2f} times as fast")


def _learned(variant: Variant, text: str) -> Notes:
    return replace(variant.notes, learnings=text)


def _fails_somewhere(measured: BenchmarkResult) -> bool:
    """Tell whether the variant raises or is wrong at a size: what it gains at the others does not count then."""
    return any(t.error is not None for row in measured.rows for t in row.timings if t.contender == VARIANT)


def _unmeasured(measured: BenchmarkResult) -> str:
    errors = [t.error for row in measured.rows for t in row.timings if t.error is not None and t.contender == VARIANT]
    return f"It could not be measured: {errors[0]}" if errors else "It could not be measured within the time."
