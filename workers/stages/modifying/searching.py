"""The search for a change: proposals asked for at once, then repairs of the one that came furthest, until one is proved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from workers.authors.llm import change_question, read_change
from workers.authors.llm.protocol import ChangeAnswer, ChangeBrief, Failed, Remark, Task, UnusableAnswer
from workers.authors.protocol import Feedback
from workers.contracts import Failure, FailureCode, FileChange, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.protocol import Answer, ModelError
from workers.stages.authoring.attempts import DUPLICATE, Book
from workers.stages.authoring.early import Early
from workers.stages.authoring.unanswered import ask_for_repair, ask_once, nobody_answered
from workers.stages.modifying.briefing import change_brief
from workers.stages.modifying.judging import Fell, Proved, Step, judged, proposed_changes
from workers.stages.modifying.preflight import Subject
from workers.strategies.source import fingerprint

MOST_SOURCE = 60_000  # characters of an answer that could not be used, for its repair
PASSED, BREAKS = "passed", "breaks a call"
CODES = {Step.style: FailureCode.style, Step.tests: FailureCode.tests}


@dataclass(frozen=True)
class _Proposal:
    """A usable answer. ``number`` is its attempt's."""

    number: int
    key: str
    answer: ChangeAnswer
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class Given:
    """What a search starts from: a review's points, and the last attempt's files with the problem that came with them."""

    remarks: tuple[Remark, ...] = ()
    done: tuple[Feedback, ...] = ()
    before: tuple[FileChange, ...] = ()
    problem: str | None = None

    def brief(self, subject: Subject, before: tuple[FileChange, ...], problem: str | None) -> ChangeBrief:
        """Give the brief of the next proposal."""
        return change_brief(subject, self.remarks, self.done, before, problem)


class Search:
    """One search; it is run again from its start after each pause, so that it decides by what is kept alone."""

    def __init__(self, context: StageContext, subject: Subject, given: Given, book: Book) -> None:
        self._context, self._subject, self._given, self._book = context, subject, given, book
        self._brief = given.brief(subject, given.before, given.problem)
        self._seen: dict[str, int] = {}
        self._fallen: list[Fell] = []

    def run(self) -> Proved:
        """Give the first change that passes everything; one that keeps the call as it is today comes before one that does not.

        Raises:
            UserFacingError: none passes; the failure lists the attempts. Or nobody answers, or the host failed.
        """
        found = self._candidates()
        for number in range(1, self._context.request.options.repairs + 1):
            if found is not None:
                break
            found = self._repaired(number)
        if found is None:
            raise UserFacingError(self._failure())
        number, proved = found
        self._book.chosen(number)
        return proved

    def _candidates(self) -> tuple[int, Proved] | None:
        count = self._context.request.options.candidates
        self._context.note(f"asking a model for {count} changes" if count > 1 else "asking a model for a change")
        questions = {f"candidate-{n + 1}": change_question(self._brief, n, count) for n in range(count)}
        early = Early(self._context, self._trials, lambda result: isinstance(result, Proved) and result.broken is None)
        answers = ask_once(self._context, questions, enough=early.enough)
        task = Task.revise if self._brief.remarks else Task.modify
        read = [
            self._read(key, answer, (task, 0, place), self._brief, self._given.problem)
            for place, (key, answer) in enumerate(answers.items())
        ]
        self._book.keep()
        silent = [answer for answer in answers.values() if isinstance(answer, ModelError)]
        if len(silent) == count:
            raise UserFacingError(nobody_answered(silent, "a change", "", self._book.sentences()))
        reserve: tuple[int, Proved] | None = None
        for proposal in read:
            proved = None if proposal is None else self._judge(proposal)
            if proposal is None or proved is None:
                continue
            if proved.broken is None:
                return proposal.number, proved
            reserve = reserve or (proposal.number, proved)
        return reserve

    def _trials(self, answers: Mapping[str, Answer | ModelError]) -> dict[str, Callable[[], Proved | Fell]]:
        """Give what of some answers can be judged, by the question's key."""
        found: dict[str, Callable[[], Proved | Fell]] = {}
        seen: set[str] = set()
        for key, answer in answers.items():
            try:
                change = None if isinstance(answer, ModelError) else read_change(answer, self._brief)
            except UnusableAnswer:
                continue
            if change is not None:
                change = replace(change, problem=change.problem or self._given.problem)
                changes = proposed_changes(change, self._subject)
                if (known := _identity(change, changes)) not in seen:
                    seen.add(known)
                    found[key] = partial(judged, self._context, key, self._subject, change, changes)
        return found

    def _repaired(self, number: int) -> tuple[int, Proved] | None:
        last = self._furthest()
        if last is None or self._context.cancelled():
            return None
        repairs = self._context.request.options.repairs
        self._context.note(f"asking a model to repair its change, round {number} of {repairs}")
        brief = replace(self._given.brief(self._subject, last.changes, last.problem), failed=last.failed)
        key = f"repair-{number}"
        answer = ask_for_repair(self._context, key, change_question(brief, number), self._book.sentences())
        proposal = self._read(key, answer, (Task.repair, number, number), brief, last.problem)
        self._book.keep()
        if isinstance(answer, ModelError):
            raise UserFacingError(nobody_answered([answer], "a change", "", self._book.sentences()))
        proved = None if proposal is None else self._judge(proposal)
        return None if proposal is None or proved is None else (proposal.number, proved)

    def _read(
        self,
        key: str,
        answer: Answer | ModelError,
        asked: tuple[Task, int, int],  # with the round and the variation
        brief: ChangeBrief,
        carried: str | None,  # the problem of the proposal that this one starts from
    ) -> _Proposal | None:
        number = self._book.add(*asked, key, answer.usage)
        if isinstance(answer, ModelError):
            self._book.unanswered(number, answer)
            return None
        try:
            change = read_change(answer, brief)
        except UnusableAnswer as unusable:
            self._book.ended(number, unusable.fault.value, str(unusable))
            said = answer.text if answer.data is None else json.dumps(answer.data, sort_keys=True)
            failed = Failed(said[:MOST_SOURCE], unusable.fault.value, str(unusable))
            kept = tuple(FileChange(path, text) for path, text in brief.before)
            self._fallen.append(Fell(failed, Step.answer, kept, carried))
            return None
        change = replace(change, problem=change.problem or carried)
        changes = proposed_changes(change, self._subject)
        known = self._seen.setdefault(_identity(change, changes), number)
        if known != number:
            self._book.ended(number, DUPLICATE, f"it is the same change as attempt {known}")
            return None
        return _Proposal(number, key, change, changes)

    def _judge(self, proposal: _Proposal) -> Proved | None:
        result = judged(self._context, proposal.key, self._subject, proposal.answer, proposal.changes)
        if isinstance(result, Fell):
            self._fallen.append(result)
            self._book.ended(proposal.number, result.failed.status, result.failed.sentence)
        elif result.broken is not None:
            self._book.ended(proposal.number, BREAKS, result.broken)
        else:
            self._book.ended(proposal.number, PASSED)
        self._book.keep()
        return None if isinstance(result, Fell) else result

    def _furthest(self) -> Fell | None:
        # Of two that came as far, the later one has seen more.
        ranked = sorted(enumerate(self._fallen), key=lambda item: (item[1].step, item[0]))
        return ranked[-1][1] if ranked else None

    def _failure(self) -> Failure:
        last = self._furthest()
        told = f"; the one that came furthest ended as `{last.failed.status}`: {last.failed.sentence}" if last else ""
        count = len(self._book.attempts)
        message = f"none of {count} changes of `{self._subject.standing.name}` that a model proposed passes{told}"
        log = "\n".join(part for part in (*last.failed.evidence, last.failed.log) if part) if last else ""
        cure = "Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page."
        code = CODES.get(last.step, FailureCode.verdict) if last else FailureCode.verdict
        return Failure(code, message, cure, log=log or None, attempts=self._book.sentences())


def _identity(change: ChangeAnswer, changes: tuple[FileChange, ...]) -> str:
    parts = [f"{item.path} {fingerprint(item.text or '')}" for item in changes]
    return "\n".join([*parts, fingerprint(change.problem or "")])
