"""The one search for a candidate that passes: several at once, ended early, then repairs of the one that came furthest."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from gpu_runner.contracts import to_json
from workers.authors.llm.protocol import Failed, Task, UnusableAnswer
from workers.contracts import Attempt, Failure, StageName, UserFacingError
from workers.engine.protocol import StageContext
from workers.models.protocol import Answer, ModelError, Question, Trouble, Usage
from workers.stages.asking import Mute, ask_for_repair, ask_once, nobody_answered

MAX_EVIDENCE = 500  # characters
ASKED = "asked"
NOT_JUDGED = "not judged"
NOT_NEEDED = "not needed"
NOT_FASTER = "not faster"
DUPLICATE = "duplicate"

Answers = Mapping[str, Answer | ModelError | Mute]
T = TypeVar("T")
Brief = TypeVar("Brief")
Proposal = TypeVar("Proposal")
Result = TypeVar("Result")


class AttemptLog:
    """What a model proposed in one attempt of a stage, in the order in which it was asked: for the comment and the job's page."""

    def __init__(self, context: StageContext, stage: StageName) -> None:
        self._context = context
        self._name = f"attempts-{stage.value}-{context.attempt}.json"
        self._head: dict[str, Any] = {"stage": stage.value, "attempt": context.attempt}
        self._attempts: list[Attempt] = []

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts so far."""
        return tuple(self._attempts)

    def add(self, task: Task, round_: int, variation: int, question: str, usage: Usage) -> int:
        """Add an attempt; its number."""
        number = len(self._attempts) + 1
        self._attempts.append(
            Attempt(number, task.value, round_, variation, question, ASKED, tokens=_tokens(usage) or None)
        )
        return number

    def unanswered(self, number: int, error: ModelError) -> None:
        """Why an attempt has no answer."""
        needed = error.trouble is not Trouble.not_needed
        self.ended(number, error.trouble.value if needed else NOT_NEEDED, str(error))

    def ended(self, number: int, outcome: str, evidence: str = "") -> None:
        """What became of an attempt."""
        self._change(number, outcome=outcome, evidence=evidence[:MAX_EVIDENCE])

    def measured(self, number: int, median_us: float) -> None:
        """How fast an attempt is."""
        self._change(number, median_us=median_us)

    def chosen(self, number: int) -> None:
        """Which attempt is taken; those that nobody has looked at by now were not needed."""
        for attempt in self.attempts:
            if attempt.outcome == ASKED:
                self._change(attempt.number, outcome=NOT_JUDGED)
        self._change(number, chosen=True)
        self.keep()

    def left(self, number: int, evidence: str) -> None:
        """The attempt that a search chose is proved and yet not taken: it is no better than the kernel before it."""
        self._change(number, outcome=NOT_FASTER, evidence=evidence[:MAX_EVIDENCE], chosen=False)
        self.keep()

    def keep(self) -> None:
        """Keep the log as an artifact."""
        form = self._head | {"attempts": [to_json(attempt) for attempt in self._attempts]}
        self._context.artifact(self._name, json.dumps(form, indent=2).encode(), "application/json")

    def sentences(self) -> tuple[str, ...]:
        """Each attempt in a sentence."""
        return tuple(_sentence(attempt) for attempt in self._attempts)

    def _change(self, number: int, **changes: Any) -> None:
        self._attempts[number - 1] = replace(self._attempts[number - 1], **changes)


def _sentence(attempt: Attempt) -> str:
    when = f"repair {attempt.round}" if attempt.round else attempt.task
    evidence = f": {attempt.evidence}" if attempt.evidence else ""
    return f"attempt {attempt.number} ({when}) ended as `{attempt.outcome}`{evidence}"


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_written_tokens


class EarlyStop(Generic[T]):
    """Looks at answers as they arrive. It only cancels questions; decisions are made later, from all the answers.

    ``trials`` selects from the answers so far, by key and in the order of the questions, what is worth judging, and
    ``wins`` says of a result that nothing else is needed. With ``every`` all are judged and none is cancelled.
    """

    def __init__(
        self,
        context: StageContext,
        trials: Callable[[Answers], Mapping[str, Callable[[], T]]],
        wins: Callable[[T], bool],
        *,
        every: bool = False,
    ) -> None:
        self._context, self._trials, self._wins, self._every = context, trials, wins, every
        self._lost: set[str] = set()
        self._open: tuple[str, Callable[[], T]] | None = None

    def should_stop(self, answered: Answers) -> bool:
        """Go on judging what has been answered; whether the other questions can be ended."""
        trials = dict(self._trials(answered))
        if self._every:
            for key, trial in trials.items():
                if key not in self._lost and self._decides(key, trial) is not None:
                    self._lost.add(key)
            return False
        # One after the other, as a host does it anyway: the proof of one that is not needed is time lost for whoever waits for it.
        waiting = [] if self._open is None else [self._open]
        for key, trial in (*waiting, *trials.items()):
            if key in self._lost:
                continue
            self._open = (key, trial)
            decides = self._decides(key, trial)
            if decides is None or decides:
                return bool(decides)
            self._lost.add(key)
        self._open = None
        return False

    def _decides(self, key: str, trial: Callable[[], T]) -> bool | None:
        """Whether one decides; None: nobody knows yet."""
        try:
            result = self._context.meanwhile(f"trial-{key}", trial)
        except UserFacingError:
            return True  # the host failed, or no candidate can pass: the run that follows says so
        return None if result is None else self._wins(result)


@dataclass(frozen=True)
class SearchQuestion(Generic[Brief]):
    """One question of a search; a repair has a ``round`` above 0."""

    key: str
    task: Task
    round: int
    variation: int
    brief: Brief
    question: Question


@dataclass(frozen=True)
class Judged(Generic[Result]):
    """The result of one proposal. ``failed`` is for a repair, None where there is nothing to repair.

    A ``reserve`` is used only where no other candidate passes.
    """

    result: Result
    status: str  # in the attempt log, with the evidence
    evidence: str = ""
    progress: tuple[int, ...] = ()  # how far it came; larger is further
    failed: Failed | None = None
    reserve: bool = False


@dataclass(frozen=True)
class TriedAttempt(Generic[Result]):
    """An attempt that was answered, by its number in the log."""

    number: int
    key: str
    model: str
    judged: Judged[Result]


class Search(ABC, Generic[Brief, Proposal, Result]):
    """Asks for candidates, then for repairs, and judges each until one passes.

    It is run again from its start after each pause, so it decides by what is kept alone. A subclass defines how to ask,
    read and judge.
    """

    wanted: str  # in the sentences about it, such as "kernel"
    without_model: str = ""  # how to do without one
    unanswered: str = "unanswered"  # the memo of what nobody answered

    def __init__(self, context: StageContext, log: AttemptLog, repairs: int, *, judges_all: bool = False) -> None:
        self.context, self.log, self.repairs, self.judges_all = context, log, repairs, judges_all
        self.tried: list[TriedAttempt[Result]] = []
        self._seen: dict[str, int] = {}

    @abstractmethod
    def asks(self, round_: int, last: Judged[Result] | None) -> Sequence[SearchQuestion[Brief]]:
        """The questions of a round: candidates in the first, then the repair of the one that came furthest."""

    @abstractmethod
    def read(self, answer: Answer, ask: SearchQuestion[Brief]) -> Proposal:
        """An answer as a proposal.

        Raises:
            UnusableAnswer: it is none.
        """

    @abstractmethod
    def unusable(self, failed: Failed, ask: SearchQuestion[Brief]) -> Judged[Result]:
        """What an answer came to that is no proposal."""

    @abstractmethod
    def identity(self, proposal: Proposal) -> str:
        """The same for proposals that are the same code."""

    @abstractmethod
    def judge(self, key: str, proposal: Proposal, ask: SearchQuestion[Brief]) -> Judged[Result]:
        """Send a proposal through the gate; ``key`` is its own within the attempt.

        Raises:
            UserFacingError: the host failed, or no proposal can pass on this problem.
        """

    @abstractmethod
    def failure(self, last: Judged[Result] | None) -> Failure:
        """Why no candidate passed."""

    def shown(self, answer: Answer) -> str:
        """An answer that could not be read, for its repair."""
        source = (answer.data or {}).get("source")
        return source if isinstance(source, str) else ""

    def best(self, passed: Sequence[TriedAttempt[Result]]) -> TriedAttempt[Result] | None:
        """The one of those that passed that is taken."""
        return next((it for it in passed if not it.judged.reserve), next(iter(passed), None))

    def run(self) -> TriedAttempt[Result]:
        """The proposal that is taken.

        Raises:
            UserFacingError: none passes; the failure lists the attempts. Or nobody answers, or the host failed.
        """
        taken = self.search()
        if taken is None:
            raise UserFacingError(self.failure(self.furthest()))
        self.log.chosen(taken.number)
        return taken

    def search(self) -> TriedAttempt[Result] | None:
        """The proposal that passes; None where none does within the rounds."""
        for round_ in range(1 + self.repairs):
            last = self.furthest()
            if round_ and (last is None or self.context.cancelled()):
                return None
            asks = self.asks(round_, last)
            self.context.note(self.note(round_, len(asks)))
            early = EarlyStop(self.context, partial(self._trials, asks), _decides, every=self.judges_all)
            answers = self.answers(round_, asks, early)
            if answers is None:
                return None
            taken = self._taken(asks, answers, early)
            if taken is not None:
                return taken
        return None

    def note(self, round_: int, count: int) -> str:
        """What runs now."""
        if round_:
            return f"asking a model to repair its {self.wanted}, round {round_} of {self.repairs}"
        return f"asking a model for {count} {self.wanted}s" if count > 1 else f"asking a model for a {self.wanted}"

    def answers(
        self, round_: int, asks: Sequence[SearchQuestion[Brief]], early: EarlyStop[Judged[Result]]
    ) -> Answers | None:
        """What the questions of a round came to; None where nobody is to be asked any more."""
        if round_:
            (ask,) = asks
            return {ask.key: ask_for_repair(self.context, ask.key, ask.question, self.log.sentences())}
        questions = {ask.key: ask.question for ask in asks}
        return dict(ask_once(self.context, questions, self.unanswered, early.should_stop))

    def furthest(self) -> Judged[Result] | None:
        """The attempt that came furthest; of two that came as far, the later one, which had more feedback."""
        return max(self.tried, key=lambda it: (it.judged.progress, it.number)).judged if self.tried else None

    def _taken(
        self, asks: Sequence[SearchQuestion[Brief]], answers: Answers, early: EarlyStop[Judged[Result]]
    ) -> TriedAttempt[Result] | None:
        read = [(ask, self._read(ask, answers[ask.key])) for ask in asks]
        self.log.keep()
        silent = [answer for answer in answers.values() if isinstance(answer, ModelError)]
        if len(silent) == len(asks):
            sentences = self.log.sentences()
            raise UserFacingError(nobody_answered(silent, f"a {self.wanted}", self.without_model, sentences))
        if self.judges_all:
            # So that hosts prove side by side what all has to be proved.
            early.should_stop({key: answer for key, answer in answers.items() if not isinstance(answer, Mute)})
        passed: list[TriedAttempt[Result]] = []
        for ask, usable in read:
            if usable is None:
                continue
            number, model, proposal = usable
            tried = TriedAttempt(number, ask.key, model, self.judge(ask.key, proposal, ask))
            self._note(tried)
            self.log.keep()
            if tried.judged.failed is None:
                passed.append(tried)
                if not (self.judges_all or tried.judged.reserve):
                    break
        return self.best(passed)

    def _read(self, ask: SearchQuestion[Brief], answer: Answer | ModelError | Mute) -> tuple[int, str, Proposal] | None:
        number = self.log.add(ask.task, ask.round, ask.variation, ask.key, answer.usage)
        if isinstance(answer, ModelError):
            self.log.unanswered(number, answer)
            return None
        if isinstance(answer, Mute):
            self._note(
                TriedAttempt(number, ask.key, "", self.unusable(Failed("", answer.status, answer.sentence), ask))
            )
            return None
        try:
            proposal = self.read(answer, ask)
        except UnusableAnswer as error:
            failed = Failed(self.shown(answer), error.fault.value, str(error))
            self._note(TriedAttempt(number, ask.key, answer.model, self.unusable(failed, ask)))
            return None
        known = self._seen.setdefault(self.identity(proposal), number)
        if known != number:
            what = "change" if self.wanted == "change" else "code"
            self.log.ended(number, DUPLICATE, f"it is the same {what} as attempt {known}")
            return None
        return number, f"{answer.provider} {answer.model}", proposal

    def _note(self, tried: TriedAttempt[Result]) -> None:
        self.tried.append(tried)
        self.log.ended(tried.number, tried.judged.status, tried.judged.evidence)

    def _trials(
        self, asks: Sequence[SearchQuestion[Brief]], answered: Mapping[str, Answer | ModelError]
    ) -> dict[str, Callable[[], Judged[Result]]]:
        """What of some answers can be judged, by the question's key."""
        trials: dict[str, Callable[[], Judged[Result]]] = {}
        seen: set[str] = set()
        by_key = {ask.key: ask for ask in asks}
        for key, answer in answered.items():
            try:
                proposal = None if isinstance(answer, ModelError) else self.read(answer, by_key[key])
            except UnusableAnswer:
                continue
            if proposal is not None and (known := self.identity(proposal)) not in seen:
                seen.add(known)
                trials[key] = partial(self.judge, key, proposal, by_key[key])
        return trials


def failed_text(failed: Failed | None) -> tuple[str, str | None]:
    """Of the attempt that came furthest: the end of a sentence on the search, and its log."""
    if failed is None:
        return "", None
    log = "\n".join(part for part in (*failed.evidence, failed.log) if part)
    return f"; the one that came furthest ended as `{failed.status}`: {failed.sentence}", log or None


def _decides(judged: Judged[Any]) -> bool:
    return judged.failed is None and not judged.reserve
