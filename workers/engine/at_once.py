"""Several questions at once, a thread each: who waits for whose prefix, and who hears that its answer is not needed any more."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from workers.contracts import UserFacingError
from workers.models.protocol import Answer, ModelError, Question
from workers.models.recording import digest_of

MOST_AT_ONCE = 4
LOOK_S = 1.0  # how often what has been answered is looked at while the others go on
# For a provider to begin its answer to the first of those that share a prefix: it has read the question by then.
MOST_WAIT_S = 5.0

Outcome = Answer | ModelError | UserFacingError
ShouldStop = Callable[[Mapping[str, Answer | ModelError]], bool]


@dataclass(frozen=True)
class Signals:
    """What questions that are asked at once exchange."""

    stop: threading.Event = field(default_factory=threading.Event)  # something broke: what it comes to is not kept
    not_needed: threading.Event = field(default_factory=threading.Event)  # others answered enough
    began: Callable[[], None] = lambda: None  # its answer begins to stream in

    def ended(self) -> bool:
        """Whether there is no sense in asking any more."""
        return self.stop.is_set() or self.not_needed.is_set()


Ask = Callable[[str, Question, Signals], Answer]


class AtOnce:
    """Asks several questions at once; ``known`` are outcomes of earlier runs.

    Those of a group that share a prefix, by ``prefix_of``, wait until the first of them has begun to be answered, or has ended, or
    has taken too long: the provider's cache has the prefix only then.
    """

    def __init__(
        self,
        ask: Ask,
        questions: Mapping[str, Question],
        known: Mapping[str, Answer | ModelError],
        prefix_of: Callable[[Question], str | None] = lambda _: None,
    ) -> None:
        self._ask = ask
        self._questions = questions
        self._prefix_of = prefix_of
        self._gates: dict[str, threading.Event] = {}
        self._guard = threading.Lock()
        self._outcomes: dict[str, Outcome] = dict(known)
        self.signals = Signals()

    def run(self, should_stop: ShouldStop | None) -> dict[str, Outcome]:
        """The outcome of each. Once ``should_stop`` is true of the answers so far, the others are cancelled."""
        left = _by_question({key: question for key, question in self._questions.items() if key not in self._outcomes})
        if left and self._outcomes:
            self._look(should_stop)
        with ThreadPoolExecutor(MOST_AT_ONCE, "question") as pool:
            futures = [
                pool.submit(contextvars.copy_context().run, self._in_turn, keys, gate, leads)
                for keys, gate, leads in self._gated(left)
            ]
            try:
                self._watch(futures, should_stop)
            finally:
                # Either all have ended, or something broke: then the rest is asked in vain.
                self.signals.stop.set()
                self._open_all()
            wait(futures, return_when=ALL_COMPLETED)
        for future in futures:
            future.result()
        return {key: self._outcomes[key] for key in self._questions}

    def _watch(self, futures: Sequence[Future[None]], should_stop: ShouldStop | None) -> None:
        pending = set(futures)
        while pending:
            done, pending = wait(pending, None if should_stop is None else LOOK_S, FIRST_EXCEPTION)
            if any(future.exception() is not None for future in done):
                return
            if pending and not self.signals.not_needed.is_set():
                self._look(should_stop)

    def _look(self, should_stop: ShouldStop | None) -> None:
        with self._guard:
            outcomes = {key: self._outcomes[key] for key in self._questions if key in self._outcomes}
        answered = {key: it for key, it in outcomes.items() if not isinstance(it, UserFacingError)}
        if should_stop is not None and answered and should_stop(answered):
            self.signals.not_needed.set()
            self._open_all()

    def _in_turn(self, keys: Sequence[str], gate: threading.Event, leads: bool) -> None:
        signals = Signals(self.signals.stop, self.signals.not_needed, gate.set if leads else lambda: None)
        try:
            if not leads:
                gate.wait(MOST_WAIT_S)
            for key in keys:
                outcome = self._outcome(key, signals)
                with self._guard:
                    self._outcomes[key] = outcome
        finally:
            if leads:
                gate.set()

    def _outcome(self, key: str, signals: Signals) -> Outcome:
        try:
            return self._ask(key, self._questions[key], signals)
        except (ModelError, UserFacingError) as error:
            # One that came to nothing, or a budget that has no room for it, is no reason to end the others.
            return error

    def _gated(self, left: Sequence[Sequence[str]]) -> list[tuple[Sequence[str], threading.Event, bool]]:
        leading, following = [], []
        for keys in left:
            prefix = self._prefix_of(self._questions[keys[0]]) if len(left) > 1 else None
            known = None if prefix is None else self._gates.get(prefix)
            if known is not None:
                following.append((keys, known, False))
                continue
            gate = threading.Event()
            self._gates[prefix if prefix is not None else f"key {keys[0]}"] = gate
            leading.append((keys, gate, True))
        # Those that are waited for first: the threads are few.
        return [*leading, *following]

    def _open_all(self) -> None:
        for gate in self._gates.values():
            gate.set()


def _by_question(questions: Mapping[str, Question]) -> list[list[str]]:
    # The very same question twice is asked one after the other, so that a replay gives each key its own answer again.
    groups: dict[str, list[str]] = {}
    for key, question in questions.items():
        groups.setdefault(digest_of(question), []).append(key)
    return list(groups.values())
