"""One variant from proposal to outcome: written by a strategy or a model, tuned, proved and measured against the original."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpu_runner.contracts import BenchmarkResult, Status, Verdict, to_json
from workers.authors.llm import read_variant, variant_question
from workers.authors.llm.failures import failed_verdict
from workers.authors.llm.protocol import (
    AnswerFault,
    Failed,
    Remark,
    Reply,
    Task,
    UnusableAnswer,
    VariantAnswer,
    VariantBrief,
)
from workers.authors.table import author_named
from workers.contracts import AuthorName, Failure, Notes, Outcome, PlannedStrategy, Variant
from workers.layouts.regions import changed_outside_calls
from workers.models.protocol import Answer
from workers.reports.notebook import notes_page, results_csv
from workers.stages.asking import Silence, ask_or_silence
from workers.stages.bench import OptimizeBench, Profiled, aim_of, keep_json
from workers.stages.briefs import variant_brief
from workers.stages.gate import ENDING, ORIGINAL_ALONE, PAIRED_S, script_rows, timing_budget_s
from workers.stages.headroom import learnings, predicted_learnings
from workers.stages.search import DUPLICATE, Answers, AttemptLog, EarlyStop, Judged, Search, SearchQuestion
from workers.strategies.catalog import ModelChange, strategy_named
from workers.strategies.protocol import DoesNotApply, ModelTurn, Proposed, Situation, Table
from workers.strategies.search import VARIANT, breaches, in_regime, score
from workers.strategies.source import changed_but_idle, fingerprint

LEAST_GAIN = 1.01  # over its parent
EXPECTED_GAIN = 1.05  # where nothing can be timed, only what is expected to be worth it is proposed
NO_TABLE: Table = ()


def situation_of(
    bench: OptimizeBench,
    known: Profiled,
    source: str | None = None,
    earlier: tuple[Variant, ...] = (),
    model: ModelTurn = ModelTurn.never,
) -> Situation:
    """The situation before a variant; ``source`` is the text of its parent's file, None for v0's."""
    options = bench.context.request.options
    aimed_at = in_regime(known.benchmark.rows, aim_of(bench.problem, options).regime)
    return Situation(
        kernel=bench.kernel,
        problem=bench.problem,
        graph=bench.graph,
        source=bench.original if source is None else source,
        original=bench.original,
        reading=known.reading,
        benchmark=replace(known.benchmark, rows=aimed_at),
        bounds=known.profile.bounds,
        goal=options.goal,
        scope=options.scope,
        overwrites=known.verdict.overwrites,
        tree=bench.tree,
        style=bench.layout.section_style(bench.kernel, bench.tree),
        author=author_named(AuthorName.compiler),
        earlier=earlier,
        model=model,
    )


@dataclass(frozen=True)
class Gated:
    """A variant that went through the gate, with its verdict where it came so far."""

    variant: Variant
    verdict: Verdict | None = None


@dataclass
class VariantTrials:
    """The variants of one optimize job, one after the other."""

    bench: OptimizeBench
    known: Profiled

    def __post_init__(self) -> None:
        self.context = self.bench.context
        self.gate = self.bench.gate  # one for all, which counts the seconds of their scripts

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
        answer = strategy.propose(situation_of(self.bench, self.known, source, earlier))
        base = self.unwritten(number, planned, parent)
        if isinstance(answer, DoesNotApply):
            return self.keep(replace(base, outcome=Outcome.does_not_apply, reason=answer.sentence))
        return self.keep(self.gated(base, answer, planned, earlier, parent, name).variant)

    def unwritten(self, number: int, planned: PlannedStrategy, parent: Variant | None) -> Variant:
        """A variant before anything of it is written."""
        origin = "v0" if parent is None else parent.name
        return Variant(f"v{number}", origin, planned.strategy, planned.title, _unwritten(planned), Outcome.failed)

    def text_of(self, variant: Variant) -> str:
        """The text of a variant's file."""
        assert variant.source is not None, "only a variant with a file is a parent or a winner"
        return self.context.load(variant.source).decode()

    def gated(
        self,
        variant: Variant,
        answer: Proposed,
        planned: PlannedStrategy,
        earlier: tuple[Variant, ...],
        parent: Variant | None,
        key: str,
    ) -> Gated:
        """Carry a proposal through the gate that all variants pass; ``key`` begins the keys of what is asked of the runner."""
        variant = replace(variant, notes=answer.notes, settings=answer.settings)
        self._note(variant)  # what is supposed is written down before anything runs, so that no result can colour it
        tuned, table = self._tuned(variant, answer)
        text = answer.source if answer.settle is None else answer.settle(answer.source, table)
        digest = self.context.artifact(f"{variant.name}.py", text.encode(), "text/x-python")
        variant = replace(variant, source=digest, settings=(*variant.settings, *tuned))
        same = self._same(text, earlier)
        if same is not None:
            return Gated(replace(variant, outcome=Outcome.duplicate, reason=f"It is the same code as {same}."))
        verdict = self._verified(variant, text, key)
        variant = replace(variant, status=verdict.status)
        if verdict.status is not Status.passed:
            first = verdict.evidence[0].message if verdict.evidence else "no evidence came with it"
            reason = f"The verdict is {verdict.status.value}: {first}"
            wrong = replace(variant, outcome=Outcome.incorrect, reason=reason, notes=_learned(variant, reason))
            return Gated(wrong, verdict)
        before = self.bench.original if parent is None else self.text_of(parent)
        idle = changed_but_idle(before, text, verdict.kernels) if self.known.benchmark.predicted else ()
        if idle:  # times would show that it gains nothing; and what no call reaches cannot be proved
            reason = f"No case runs a kernel that it changes: {', '.join(f'`{name}`' for name in idle)}"
            return Gated(
                replace(variant, outcome=Outcome.no_gain, reason=reason, notes=_learned(variant, reason)), verdict
            )
        weighed = self._weighed(variant, self._measured(variant, text, key), planned, parent)
        return Gated(self._scripted(weighed, text) if weighed.outcome is Outcome.kept else weighed, verdict)

    def _same(self, text: str, earlier: tuple[Variant, ...]) -> str | None:
        code = fingerprint(text)
        if code == fingerprint(self.bench.original):
            return "v0"
        known = (v for v in earlier if v.source is not None)
        return next((v.name for v in known if fingerprint(self.text_of(v)) == code), None)

    def _tuned(self, variant: Variant, answer: Proposed) -> tuple[tuple[tuple[str, str], ...], Table]:
        if not answer.knobs or self.known.benchmark.predicted:
            return (), NO_TABLE
        self.context.note(f"{variant.name}: tuning {len(answer.knobs)} settings")
        bench = self.bench
        module = bench.kernel.module
        tuned = bench.gate.tune(
            f"{variant.name}-tune", bench.problem, bench.form(answer.source), answer.knobs, bench.workloads, module
        )
        if tuned.architecture is None or not tuned.table:
            return (), NO_TABLE
        settings = tuple(
            (
                f"{c.tuned_pass.value}, {c.workload.label()}",
                ", ".join(f"{n}={v}" for n, v in c.settings) or "the default",
            )
            for c in tuned.choices
        )
        return settings, ((tuned.architecture, tuple((p.value, rows) for p, rows in tuned.table)),)

    def _verified(self, variant: Variant, text: str, key: str) -> Verdict:
        bench = self.bench
        self.context.note(f"{variant.name}: a smoke test of its values")
        return bench.gate.verify(
            f"{key}-verify",
            bench.problem,
            bench.form(text),
            original=bench.form(),
            multiples=bench.multiples,
            quick=True,
        )

    def _measured(self, variant: Variant, text: str, key: str) -> BenchmarkResult:
        bench = self.bench
        self.context.note(f"{variant.name}: measuring it against v0")
        return bench.gate.benchmark(
            f"{key}-benchmark",
            bench.problem,
            bench.form(text),
            workloads=bench.workloads,
            budget_s=timing_budget_s(len(bench.workloads), PAIRED_S),
            original=bench.form(),
            contenders=ORIGINAL_ALONE,
        )

    def _scripted(self, variant: Variant, text: str) -> Variant:
        bench = self.bench
        trouble = script_rows(self.gate, variant.name, bench.kernel, bench.layout, bench.tree, bench.change(text))
        learned = variant.notes.learnings.rstrip(".")
        return replace(variant, notes=_learned(variant, f"{learned}. {trouble}")) if trouble else variant

    def _weighed(
        self, variant: Variant, measured: BenchmarkResult, planned: PlannedStrategy, parent: Variant | None
    ) -> Variant:
        options = self.context.request.options
        rows = measured.rows
        if measured.predicted:
            expected = math.sqrt(planned.gain_low * planned.gain_high)
            outcome = Outcome.proposed if expected >= EXPECTED_GAIN else Outcome.no_gain
            notes = _learned(variant, predicted_learnings(planned))
            return replace(variant, rows=rows, outcome=outcome, notes=notes)
        aim = (options.goal, options.scope, aim_of(self.bench.problem, options).regime)
        gained, broken = score(rows, *aim), breaches(rows, *aim)
        variant = replace(variant, rows=rows, score=gained, breaches=broken, notes=_learned(variant, learnings(rows)))
        if gained is None or _fails_somewhere(measured):
            return replace(variant, outcome=Outcome.failed, reason=_unmeasured(measured))
        if broken:
            return replace(variant, outcome=Outcome.guardrail)
        # A change that adds nothing to the variant that it was made to is one more thing to maintain, and nothing else.
        before = (parent.score if parent is not None else None) or 1.0
        return replace(variant, outcome=Outcome.kept if gained >= before * LEAST_GAIN else Outcome.no_gain)

    def keep(self, variant: Variant) -> Variant:
        """Keep a variant's record as an artifact."""
        keep_json(self.context, f"{variant.name}.json", variant)
        self._note(variant)
        if variant.rows:
            self.context.artifact(f"{variant.name}_results.csv", results_csv(variant.rows).encode(), "text/csv")
        return variant

    def _note(self, variant: Variant) -> None:
        self.context.artifact(f"{variant.name}_notes.md", notes_page(variant).encode(), "text/markdown")


def _unwritten(planned: PlannedStrategy) -> Notes:
    return Notes(planned.trigger, "", planned.gain or "not known")


def _learned(variant: Variant, text: str) -> Notes:
    return replace(variant.notes, learnings=text)


def _fails_somewhere(measured: BenchmarkResult) -> bool:
    """Whether the variant raises or is wrong at a size: what it gains at the others does not count then."""
    return any(t.error is not None for row in measured.rows for t in row.timings if t.contender == VARIANT)


def _unmeasured(measured: BenchmarkResult) -> str:
    errors = [t.error for row in measured.rows for t in row.timings if t.error is not None and t.contender == VARIANT]
    return f"It could not be measured: {errors[0]}" if errors else "It could not be measured within the time."


# Changes that a model writes: asked for one at a time, repaired by the runner's evidence, through the gate of all variants.

MOST_SOURCE = 60_000  # characters of an answer that could not be used, for its repair
REPAIRED = (Outcome.incorrect, Outcome.duplicate)  # what another proposal may do better


@dataclass(frozen=True)
class VariantStart:
    """What a variant is made from: its number, the strategy's plan, its parent, all variants tried, and a review's points."""

    number: int
    planned: PlannedStrategy
    parent: Variant | None
    earlier: tuple[Variant, ...]
    remarks: tuple[Remark, ...] = ()
    failed: Failed | None = None  # what the parent came to behind this gate, such as the library's tests
    fallen: frozenset[str] = frozenset()  # names of those that this one mends

    @property
    def beaten(self) -> Variant | None:
        """The variant that it must be better than: its parent, or where it only mends that one, what it was made from."""
        known = {variant.name: variant for variant in self.earlier}
        ancestor = self.parent
        while ancestor is not None and ancestor.name in self.fallen:
            ancestor = known.get(ancestor.parent)
        return ancestor


@dataclass(frozen=True)
class Made:
    """A variant that a model wrote, and its replies to the remarks."""

    variant: Variant
    replies: tuple[Reply, ...] = ()


class VariantSearch(Search[VariantBrief, VariantAnswer, Made]):
    """One change that a model writes, and its repairs; ``silence`` is why nobody answered."""

    wanted = "change"

    def __init__(self, trials: VariantTrials, log: AttemptLog, start: VariantStart) -> None:
        super().__init__(trials.context, log, trials.context.request.options.repairs)
        self.trials, self.start = trials, start
        self.silence: Silence | None = None
        self.unwritten = trials.unwritten(start.number, start.planned, start.parent)
        source = trials.bench.original if start.parent is None else trials.text_of(start.parent)
        self.brief = variant_brief(trials.bench, trials.known, source, start.parent, start.earlier, start.remarks)

    def asks(self, round_: int, last: Judged[Made] | None) -> Sequence[SearchQuestion[VariantBrief]]:
        """The change, or its repair."""
        brief = replace(self.brief, failed=self.start.failed if last is None else last.failed)
        # A review says which change it wants; else each variant looks at the kernel from another side.
        strategy = self.start.planned.strategy
        angle = 0 if brief.remarks else sum(1 for variant in self.start.earlier if variant.strategy == strategy)
        key = f"variant-{self.unwritten.name}" + (f"-repair-{round_}" if round_ else "")
        return [SearchQuestion(key, Task.optimize, round_, angle, brief, variant_question(brief, angle))]

    def note(self, round_: int, count: int) -> str:
        """What runs now."""
        doing = f"asking a model to repair it, round {round_}" if round_ else "asking a model for a change"
        return f"{self.unwritten.name}: {doing}"

    def answers(
        self, round_: int, asks: Sequence[SearchQuestion[VariantBrief]], early: EarlyStop[Judged[Made]]
    ) -> Answers | None:
        """The model's answer; None where nobody answers, which ends no job that has other variants."""
        (ask,) = asks
        answer = ask_or_silence(self.context, ask.key, ask.question)
        if isinstance(answer, Silence):
            self.silence = answer
            return None
        return {ask.key: answer}

    def read(self, answer: Answer, ask: SearchQuestion[VariantBrief]) -> VariantAnswer:
        """An answer as a change that leaves alone what the kernel's call does not use."""
        return _keeping_to_the_call(read_variant(answer, ask.brief), ask.brief)

    def shown(self, answer: Answer) -> str:
        """An answer that could not be read, for its repair."""
        return "" if answer.data is None else json.dumps(answer.data)[:MOST_SOURCE]

    def unusable(self, failed: Failed, ask: SearchQuestion[VariantBrief]) -> Judged[Made]:
        """A variant without a file."""
        reason = f"No answer could be used: {failed.sentence.rstrip('.')}."
        made = Made(replace(self.unwritten, outcome=Outcome.unusable, reason=reason))
        return Judged(made, failed.status, failed.sentence, failed=failed)

    def identity(self, proposal: VariantAnswer) -> str:
        """Never the same: a variant is compared with those before it, in its trial."""
        return str(len(self.log.attempts))

    def judge(self, key: str, proposal: VariantAnswer, ask: SearchQuestion[VariantBrief]) -> Judged[Made]:
        """Keep what was proposed, and send it through the gate of all variants."""
        notes, name = Notes(proposal.hypothesis, proposal.change, proposal.expected), key.removeprefix("variant-")
        content = json.dumps(to_json(notes), indent=2).encode()
        self.context.artifact(f"{name}-notes.json", content, "application/json")
        self.context.artifact(f"{name}-proposed.py", proposal.source.encode(), "text/x-python")
        start, proposed = self.start, Proposed(proposal.source, notes)
        gated = self.trials.gated(self.unwritten, proposed, start.planned, start.earlier, start.beaten, name)
        failed = _failed(proposal.source, gated)
        status = DUPLICATE if gated.verdict is None else gated.verdict.status.value
        made = Made(gated.variant, proposal.replies)
        return Judged(made, status, "" if failed is None else failed.sentence, failed=failed)

    def failure(self, last: Judged[Made] | None) -> Failure:
        """A variant that fails is an outcome of its own."""
        raise NotImplementedError


class ModelAuthor:
    """Writes variants; run again from its start after each pause, it decides by what is kept alone."""

    def __init__(self, trials: VariantTrials, log: AttemptLog) -> None:
        self.trials, self._log = trials, log
        self.silence: Silence | None = None

    def planned(self) -> PlannedStrategy:
        """The plan of a change that is asked for by a person or a failing test, whatever room there is for it."""
        plan = ModelChange().plan(situation_of(self.trials.bench, self.trials.known, model=ModelTurn.first))
        assert plan is not None, "a change that is asked for by name is always planned"
        return plan

    def write(self, start: VariantStart) -> Made | None:
        """The variant that a model's answers come to, None where there is no answer at all; then it is not asked again.

        Raises:
            UserFacingError: the GPU host failed; what was measured and answered before is kept.
        """
        first, search = len(self._log.attempts), VariantSearch(self.trials, self._log, start)
        search.search()
        self._log.keep()
        self.silence = search.silence or self.silence
        if not search.tried:
            return None
        made = search.tried[-1].judged.result
        return replace(made, variant=self.trials.keep(replace(made.variant, attempts=self._log.attempts[first:])))


def _keeping_to_the_call(read: VariantAnswer, brief: VariantBrief) -> VariantAnswer:
    other = changed_outside_calls(brief.source, read.source, (brief.problem.call,))
    if other is None:
        return read
    sentence = (
        f"`{other}` stands in the file as well and has nothing to do with `{brief.problem.call}`: it stays as it is"
    )
    raise UnusableAnswer(AnswerFault.path, sentence)


def _failed(source: str, gated: Gated) -> Failed | None:
    variant, verdict = gated.variant, gated.verdict
    if variant.outcome not in REPAIRED or (verdict is not None and verdict.status in ENDING):
        return None
    if verdict is None:
        return Failed(source, DUPLICATE, f"{variant.reason} Propose another change.")
    return failed_verdict(verdict, source)
