"""The gate before a variant is applied: style, the library's whole test file, the full verdict; then two repairs, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_runner.contracts import Action, Status, TestsResult, Verdict, VerifyRequest, from_json, to_json
from workers.authors.llm.protocol import Failed
from workers.contracts import FileChange, OptimizeSummary, Outcome, StageName, StyleOutcome, Variant
from workers.engine.protocol import StageContext
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.judging import MAX_LOG, STYLE
from workers.stages.authoring.writing import reads_words
from workers.stages.modelled import ModelAuthor, Start, failed_by
from workers.stages.situation import Profiled
from workers.stages.standing import Bench
from workers.stages.suites import failed_nodes, failing, run_suite
from workers.stages.trial import Trials
from workers.stages.workbench import SNAPSHOT_FILE, answer_of, changes_from_json, changes_to_json, merged
from workers.stylecheck import check_style

MOST_TRIES = 3  # the winner and two repairs
MOST_TOLD = 20  # lines of failing tests, to a model
TESTS = "tests"


@dataclass(frozen=True)
class Passed:
    """A variant that passed the gate, in the form in which it will be committed."""

    variant: Variant
    changes: tuple[FileChange, ...]
    style: StyleOutcome
    tests: TestsResult
    verdict: Verdict


class Gate:
    """Tries the winner; a repair is a model's mended variant where a model wrote what failed, and the next best kept one else."""

    def __init__(self, context: StageContext, bench: Bench, known: Profiled, compared: OptimizeSummary) -> None:
        self._context, self._bench = context, bench
        self._author = ModelAuthor(Trials(context, bench, known), Book(context, StageName.finalize))
        self._variants = compared.variants
        self._waiting = _candidates(compared)
        self._tried: list[str] = []
        self._fallen = frozenset[str]()

    def run(self) -> tuple[Passed | None, tuple[Variant, ...], tuple[str, ...]]:
        """Give what passed, all variants by now, and what was tried before; none is committed before it has passed everything.

        Raises:
            UserFacingError: the GPU host failed.
        """
        for number in range(1, MOST_TRIES + 1):
            if not self._waiting:
                break
            variant = self._waiting.pop(0)
            found = self._try(variant)
            if isinstance(found, Passed):
                return found, self._variants, tuple(self._tried)
            if number < MOST_TRIES:
                self._mend(variant, found)
        return None, self._variants, tuple(self._tried)

    def _mend(self, variant: Variant, failed: Failed) -> None:
        """Have the model that wrote a variant write it again with what failed, through the gate of all variants first."""
        if not variant.attempts or self._silent() or not reads_words(self._context):
            return
        self._fallen |= {variant.name}
        number, planned = len(self._variants) + 1, self._author.planned()
        start = Start(number, planned, variant, self._variants, failed=failed, fallen=self._fallen)
        made = self._author.write(start)
        if (silence := self._author.silence) is not None:
            self._tried.append(silence.note())
        if made is None:
            return
        self._variants = (*self._variants, made.variant)
        if made.variant.outcome is Outcome.kept:
            self._tried.append(
                f"{made.variant.name}: a model mended {variant.name}, and it was proved and measured again"
            )
            self._waiting.insert(0, made.variant)
        else:
            why = f": {made.variant.reason}" if made.variant.reason else ""
            told = f"a model's repair of {variant.name} ended as {made.variant.outcome.value}"
            self._tried.append(f"{made.variant.name}: {told}{why}")

    def _silent(self) -> bool:
        return self._author.silence is not None

    def _try(self, variant: Variant) -> Passed | Failed:
        assert variant.source is not None, "a variant that was kept has a file"
        context, bench = self._context, self._bench
        changes, style = _styled(context, bench, variant)
        if not style.passed:
            sentence = "the library's style check fails on it"
            return self._fell(variant, sentence, Failed("", STYLE, sentence, log=style.log[-MAX_LOG:]))
        context.note(f"running the library's whole test file with {variant.name}")
        suite = bench.layout.suite_of(bench.standing, bench.tree)
        tests = run_suite(context, f"tests-{variant.name}", suite, changes, lasting=True)
        worse = _newly_failing(context, bench, tests)
        if worse:
            evidence = tuple(failing(tests).splitlines())[:MOST_TOLD]
            return self._fell(variant, worse, Failed("", TESTS, worse, evidence))
        context.note(f"proving {variant.name} on all sizes")
        form, multiples = bench.form(changes[0].text), bench.multiples
        request = VerifyRequest(bench.problem.source, form, original=bench.form(), multiples=multiples)
        beside = {SNAPSHOT_FILE: context.request.snapshot}
        answer = context.gpu(f"verify-{variant.name}", request, Action.verify, beside, lasting=True)
        verdict = from_json(Verdict, answer_of(answer))
        if verdict.status is not Status.passed:
            first = verdict.evidence[0].message if verdict.evidence else ""
            sentence = f"the full verdict is {verdict.status.value}. {first}".rstrip()
            return self._fell(variant, sentence, failed_by(verdict, ""))
        return Passed(variant, changes, style, tests, verdict)

    def _fell(self, variant: Variant, sentence: str, failed: Failed) -> Failed:
        self._tried.append(f"{variant.name}: {sentence}")
        return failed


def _candidates(compared: OptimizeSummary) -> list[Variant]:
    if compared.winner is None:
        return []
    first = next(variant for variant in compared.variants if variant.name == compared.winner)
    others = [v for v in compared.variants if v.outcome is Outcome.kept and v.name != first.name]
    return [first, *sorted(others, key=lambda v: v.score or 0.0, reverse=True)]


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
