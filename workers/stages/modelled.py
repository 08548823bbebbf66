"""Changes that a model writes: asked for one at a time, repaired by the runner's evidence, through the gate of all variants."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from gpu_runner.contracts import Verdict, to_json
from workers.authors.llm import read_variant, variant_question
from workers.authors.llm.protocol import (
    Failed,
    Fault,
    Remark,
    Reply,
    Task,
    UnusableAnswer,
    VariantAnswer,
    VariantBrief,
)
from workers.contracts import Notes, Outcome, PlannedStrategy, Variant
from workers.layouts.regions import changed_beside
from workers.stages.authoring.attempts import DUPLICATE, Book
from workers.stages.authoring.judging import ENDING, MAX_LOG
from workers.stages.listening import Mute, Silence, heard
from workers.stages.model_brief import variant_brief
from workers.stages.proving import MAX_EVIDENCE, evidence_line
from workers.stages.situation import situation_of
from workers.stages.trial import Trials, Tried
from workers.strategies.catalog import ModelChange
from workers.strategies.protocol import ModelTurn, Proposed

MOST_SOURCE = 60_000  # characters of an answer that could not be used, for its repair
# What another proposal may do better.
MENDED = (Outcome.incorrect, Outcome.duplicate)


@dataclass(frozen=True)
class Start:
    """What a variant is made from: its number, the strategy's plan, its parent, all that were tried, and what a review said."""

    number: int
    planned: PlannedStrategy
    parent: Variant | None
    earlier: tuple[Variant, ...]
    remarks: tuple[Remark, ...] = ()
    failed: Failed | None = None  # what the parent came to behind this gate, such as the library's tests
    fallen: frozenset[str] = frozenset()  # names of those that this one mends

    @property
    def beaten(self) -> Variant | None:
        """Give the variant that it must be better than: its parent, or where it only mends that one, what it was made from."""
        known = {variant.name: variant for variant in self.earlier}
        found = self.parent
        while found is not None and found.name in self.fallen:
            found = known.get(found.parent)
        return found


@dataclass(frozen=True)
class Made:
    """A variant that a model wrote, and what it says to the remarks."""

    variant: Variant
    replies: tuple[Reply, ...] = ()


class ModelAuthor:
    """Writes variants; run again from its start after each pause, it decides by what is kept alone."""

    def __init__(self, trials: Trials, book: Book) -> None:
        self.trials, self._book, self._context = trials, book, trials.context
        self.silence: Silence | None = None

    def planned(self) -> PlannedStrategy:
        """Give the plan of a change that is asked for by a person or a failing test, whatever room there is for it."""
        situation = situation_of(self._context, self.trials.bench, self.trials.known, model=ModelTurn.first)
        found = ModelChange().plan(situation)
        assert found is not None, "a change that is asked for by name is always planned"
        return found

    def write(self, start: Start) -> Made | None:
        """Give the variant that a model's answers come to, None where there is no answer at all; then it is not asked again.

        Raises:
            UserFacingError: the GPU host failed; what was measured and answered before is kept.
        """
        trials, first = self.trials, len(self._book.attempts)
        unwritten = trials.unwritten(start.number, start.planned, start.parent)
        source = trials.bench.original if start.parent is None else trials.text_of(start.parent)
        options = self._context.request.options
        aim = (options.goal, options.scope)
        given = (start.parent, start.earlier, start.remarks, options.regime)
        brief = variant_brief(trials.bench, trials.known, aim, source, *given)
        found, failed = None, start.failed
        for round_ in range(1 + options.repairs):
            if round_ and self._context.cancelled():
                break
            told = self._round(replace(brief, failed=failed), unwritten, start, round_)
            if told is None:
                break
            found, failed = told
            if failed is None:
                break
        self._book.keep()
        if found is None:
            return None
        return replace(found, variant=trials.keep(replace(found.variant, attempts=self._book.attempts[first:])))

    def _round(
        self, brief: VariantBrief, unwritten: Variant, start: Start, round_: int
    ) -> tuple[Made, Failed | None] | None:
        """Give what one answer came to, with what the next one is told of it where another may do better."""
        key = f"{unwritten.name}-repair-{round_}" if round_ else unwritten.name
        doing = f"asking a model to repair it, round {round_}" if round_ else "asking a model for a change"
        self._context.note(f"{unwritten.name}: {doing}")
        # A review says which change it wants; else each variant looks at the kernel from another side.
        before = sum(1 for variant in start.earlier if variant.strategy == start.planned.strategy)
        angle = 0 if brief.remarks else before
        answer = heard(self._context, f"variant-{key}", variant_question(brief, angle))
        if isinstance(answer, Silence):
            self.silence = answer
            return None
        number = self._book.add(Task.optimize, round_, angle, f"variant-{key}", answer.usage)
        if isinstance(answer, Mute):
            return self._unusable(unwritten, number, Failed("", answer.status, answer.sentence))
        try:
            read = _keeping_to_the_call(read_variant(answer, brief), brief)
        except UnusableAnswer as unusable:
            said = "" if answer.data is None else json.dumps(answer.data)[:MOST_SOURCE]
            return self._unusable(unwritten, number, Failed(said, unusable.fault.value, str(unusable)))
        return self._judged(read, unwritten, start, number, key)

    def _unusable(self, unwritten: Variant, number: int, failed: Failed) -> tuple[Made, Failed]:
        self._book.ended(number, failed.status, failed.sentence)
        self._book.keep()
        reason = f"No answer could be used: {failed.sentence.rstrip('.')}."
        return Made(replace(unwritten, outcome=Outcome.unusable, reason=reason)), failed

    def _judged(
        self, read: VariantAnswer, unwritten: Variant, start: Start, number: int, key: str
    ) -> tuple[Made, Failed | None]:
        notes = Notes(read.hypothesis, read.change, read.expected)
        self._context.artifact(f"{key}-notes.json", json.dumps(to_json(notes), indent=2).encode(), "application/json")
        self._context.artifact(f"{key}-proposed.py", read.source.encode(), "text/x-python")
        proposed = Proposed(read.source, notes)
        tried = self.trials.tried(unwritten, proposed, start.planned, start.earlier, start.beaten, key)
        failed = _failed(read.source, tried)
        ended = DUPLICATE if tried.verdict is None else tried.verdict.status.value
        self._book.ended(number, ended, "" if failed is None else failed.sentence)
        self._book.keep()
        return Made(tried.variant, read.replies), failed


def _keeping_to_the_call(read: VariantAnswer, brief: VariantBrief) -> VariantAnswer:
    beside = changed_beside(brief.source, read.source, (brief.problem.call,))
    if beside is None:
        return read
    sentence = (
        f"`{beside}` stands in the file as well and has nothing to do with `{brief.problem.call}`: it stays as it is"
    )
    raise UnusableAnswer(Fault.path, sentence)


def _failed(source: str, tried: Tried) -> Failed | None:
    variant, verdict = tried.variant, tried.verdict
    if variant.outcome not in MENDED or (verdict is not None and verdict.status in ENDING):
        return None
    if verdict is None:
        return Failed(source, DUPLICATE, f"{variant.reason} Propose another change.")
    return failed_by(verdict, source)


def failed_by(verdict: Verdict, source: str) -> Failed:
    """Give a verdict that is not passed as a model is told of it."""
    found = verdict.evidence[:MAX_EVIDENCE]
    log = next((item.log for item in found if item.log), "")
    sentence = found[0].message if found else verdict.status.value
    return Failed(source, verdict.status.value, sentence, tuple(map(evidence_line, found)), log[-MAX_LOG:])
