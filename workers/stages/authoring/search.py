"""The search for a proved kernel: candidates asked for at once, then repairs of the one that came furthest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from gpu_runner.contracts import Action, BenchmarkRequest, BenchmarkResult, Pass, from_json
from workers.authors.llm import kernel_question, read_kernel
from workers.authors.llm.protocol import Failed, KernelBrief, Reply, Task, UnusableAnswer
from workers.contracts import Choose, Failure, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.protocol import Answer, ModelError
from workers.stages.authoring.attempts import DUPLICATE, Book
from workers.stages.authoring.early import Early
from workers.stages.authoring.judging import Judged, judged
from workers.stages.authoring.unanswered import ask_for_repair, ask_once, nobody_answered
from workers.stages.headroom import geometric_mean, time_of
from workers.stages.workbench import SNAPSHOT_FILE, Workbench, answer_of
from workers.strategies.source import fingerprint


@dataclass(frozen=True)
class Terms:
    """How far a search goes. ``prefix`` begins its keys, so that one attempt of a stage may hold several searches."""

    candidates: int
    repairs: int
    choose: Choose = Choose.first
    prefix: str = ""


@dataclass(frozen=True)
class Found:
    """A proved kernel, and what its author says to the remarks."""

    judged: Judged
    replies: tuple[Reply, ...]
    model: str  # that gave it, as its provider names it


@dataclass(frozen=True)
class _Candidate:
    """A usable answer. ``number`` is its attempt's."""

    number: int
    key: str
    judged: Judged
    replies: tuple[Reply, ...]
    model: str


class Search:
    """One search; it is run again from its start after each pause, so that it decides by what is kept alone."""

    def __init__(self, context: StageContext, bench: Workbench, brief: KernelBrief, terms: Terms, book: Book) -> None:
        self._context, self._bench, self._brief = context, bench, brief
        self._terms, self._book = terms, book
        self._seen: dict[str, int] = {}
        self._judged: list[_Candidate] = []
        self._unusable: Failed | None = None

    def run(self) -> Found:
        """Give the kernel that is taken.

        Raises:
            UserFacingError: none is proved; the failure lists the attempts. Or nobody answers, or the host failed.
        """
        found = self._candidates()
        for number in range(1, self._terms.repairs + 1):
            if found is not None:
                break
            found = self._repaired(number)
        if found is None:
            raise UserFacingError(self._failure())
        self._book.chosen(found.number)
        return Found(found.judged, found.replies, found.model)

    def _candidates(self) -> _Candidate | None:
        count = self._terms.candidates
        self._context.note(f"asking a model for {count} kernels" if count > 1 else "asking a model for a kernel")
        questions = {
            f"{self._terms.prefix}candidate-{n + 1}": kernel_question(self._brief, n, count) for n in range(count)
        }
        every = self._terms.choose is Choose.best
        early = Early(self._context, self._trials, lambda found: found.proved, every=every)
        answers = ask_once(self._context, questions, f"{self._terms.prefix}unanswered", early.enough)
        errors = [answer for answer in answers.values() if isinstance(answer, ModelError)]
        task = Task.repair if self._brief.failed else Task.revise if self._brief.remarks else Task.generate
        usable = self._read_all(answers, task)
        self._book.keep()
        if len(errors) == count:
            raise UserFacingError(self._nobody(errors))
        if every:
            early.enough(answers)  # so that hosts prove side by side what all has to be proved
        proved = []
        for candidate in usable:
            found = self._judge(candidate)
            if found.judged.proved:
                proved.append(found)
                if self._terms.choose is Choose.first:
                    break
        return self._best(proved) if len(proved) > 1 else next(iter(proved), None)

    def _trials(self, answers: Mapping[str, Answer | ModelError]) -> dict[str, Callable[[], Judged]]:
        """Give what of some answers can be judged, by the question's key."""
        found: dict[str, Callable[[], Judged]] = {}
        seen: set[str] = set()
        for key, answer in answers.items():
            try:
                kernel = None if isinstance(answer, ModelError) else read_kernel(answer, self._brief)
            except UnusableAnswer:
                continue
            if kernel is not None and (known := fingerprint(kernel.source)) not in seen:
                seen.add(known)
                design = self._bench.designed(kernel.plan, kernel.source)
                found[key] = partial(judged, self._context, self._bench, design, key)
        return found

    def _read_all(self, answers: Mapping[str, Answer | ModelError], task: Task) -> list[_Candidate]:
        read = [
            self._read(key, answer, task, 0, place, self._brief) for place, (key, answer) in enumerate(answers.items())
        ]
        return [candidate for candidate in read if candidate is not None]

    def _read(
        self, key: str, answer: Answer | ModelError, task: Task, round_: int, variation: int, brief: KernelBrief
    ) -> _Candidate | None:
        number = self._book.add(task, round_, variation, key, answer.usage)
        if isinstance(answer, ModelError):
            self._book.unanswered(number, answer)
            return None
        try:
            kernel = read_kernel(answer, brief)
        except UnusableAnswer as unusable:
            self._book.ended(number, unusable.fault.value, str(unusable))
            source = (answer.data or {}).get("source")
            self._unusable = Failed(source if isinstance(source, str) else "", unusable.fault.value, str(unusable))
            return None
        known = self._seen.setdefault(fingerprint(kernel.source), number)
        if known != number:
            self._book.ended(number, DUPLICATE, f"it is the same code as attempt {known}")
            return None
        unjudged = Judged(self._bench.designed(kernel.plan, kernel.source), "", "")
        return _Candidate(number, key, unjudged, kernel.replies, f"{answer.provider} {answer.model}")

    def _judge(self, candidate: _Candidate) -> _Candidate:
        found = replace(candidate, judged=judged(self._context, self._bench, candidate.judged.design, candidate.key))
        self._judged.append(found)
        self._book.ended(found.number, found.judged.status, "" if found.judged.proved else _first(found.judged))
        self._book.keep()
        return found

    def _best(self, proved: list[_Candidate]) -> _Candidate:
        self._context.note(f"measuring {len(proved)} proved kernels")
        times = {candidate.number: self._median_us(candidate) for candidate in proved}
        for number, median_us in times.items():
            if median_us is not None:
                self._book.measured(number, median_us)
        # Without a GPU nothing is measured, and the first of them is as good as any.
        return min(proved, key=lambda it: (times[it.number] is None, times[it.number] or 0.0, it.number))

    def _median_us(self, candidate: _Candidate) -> float | None:
        form = self._bench.layout.candidate(candidate.judged.design, candidate.judged.changes, SNAPSHOT_FILE)
        request = BenchmarkRequest(self._bench.problem.source, form)
        beside = {SNAPSHOT_FILE: self._context.request.snapshot}
        result = self._context.gpu(f"benchmark-{candidate.key}", request, Action.benchmark, beside)
        rows = from_json(BenchmarkResult, answer_of(result)).rows
        full = [row for row in rows if row.timed_pass is Pass.full] or list(rows)
        times = [time_of(row) for row in full]
        known = [time_us for time_us in times if time_us is not None and time_us > 0]
        return geometric_mean(known) if known and len(known) == len(times) else None

    def _repaired(self, number: int) -> _Candidate | None:
        failed = self._most_promising()
        if failed is None or self._context.cancelled():
            return None
        self._context.note(f"asking a model to repair its kernel, round {number} of {self._terms.repairs}")
        brief, key = replace(self._brief, failed=failed), f"{self._terms.prefix}repair-{number}"
        answer = ask_for_repair(self._context, key, kernel_question(brief, number), self._book.sentences())
        candidate = self._read(key, answer, Task.repair, number, number, brief)
        self._book.keep()
        if isinstance(answer, ModelError):
            raise UserFacingError(self._nobody([answer]))
        found = None if candidate is None else self._judge(candidate)
        return found if found is not None and found.judged.proved else None

    def _most_promising(self) -> Failed | None:
        if not self._judged:
            return self._unusable
        # Of two that came as far, the later one has seen more.
        return max(self._judged, key=lambda it: (it.judged.progress, it.number)).judged.failed()

    def _nobody(self, errors: list[ModelError]) -> Failure:
        return nobody_answered(errors, "a kernel", "`--author compiler` needs no model.", self._book.sentences())

    def _failure(self) -> Failure:
        last = self._most_promising()
        told = f"; the one that came furthest ended as `{last.status}`: {last.sentence}" if last else ""
        tried = len(self._book.attempts)
        message = f"none of {tried} kernels of the model is proved{told}"
        log = "\n".join(part for part in (*last.evidence, last.log) if part) if last else ""
        cure = "Nothing of them was pushed. `/kernel retry` asks anew; the attempts are on the job's page."
        return Failure(FailureCode.verdict, message, cure, log=log or None, attempts=self._book.sentences())


def _first(found: Judged) -> str:
    return found.evidence[0] if found.evidence else found.sentence
