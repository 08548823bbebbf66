"""How a run asks language models: promised before, settled and kept in one transaction after; nothing is lost or paid twice."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from workers.contracts import Failure, FailureCode, UserFacingError
from workers.engine.at_once import AtOnce, ShouldStop, Signals
from workers.engine.lease import LeaseLost, leased
from workers.models.ledger import (
    Amount,
    BudgetReachedError,
    Metered,
    RequestEnd,
    Reservation,
    Room,
    charged,
    dollars,
    granted,
    most_of,
    price_of,
)
from workers.models.protocol import Answer, ModelError, PrefixCache, Provider, Question, Trouble, Usage
from workers.models.recording import Record, Refusal, Tried, digest_of, read_record, record_name, write_record
from workers.runtime import Runtime
from workers.store import attempts, jobs, spending
from workers.store.attempts import Lease
from workers.store.spending import SpendRequest, Spent

log = structlog.get_logger(__name__)

MOST_KEY = 200
WAIT_S = 0.5  # between two looks at a budget that is promised to others
LOOK_EVERY_S = 1.0  # whether the job was cancelled is in the database, and tokens arrive faster than one asks that

MEDIA_TYPE = "application/json"

NO_MODEL = Failure(
    FailureCode.model,
    "no language model is configured on this bot",
    "An operator configures one (docs/settings.md). `--author compiler` needs none.",
)


NOT_NEEDED = Refusal(Trouble.not_needed, "its answer was not waited for, since another one had decided")


class SiblingPatience:
    """How long what is promised to others is waited for: each of their requests ends in the time that one may take."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._until_s = time.monotonic() + most_s
        self._seen: tuple[Room, ...] = ()

    def lasts(self, rooms: tuple[Room, ...]) -> bool:
        """Whether to wait on; each time that a request of others has begun or ended the wait begins anew."""
        if rooms != self._seen:
            self._seen, self._until_s = rooms, time.monotonic() + self._most_s
        return time.monotonic() < self._until_s


class RequestLog:
    """Records the requests of one question, for one run under its lease."""

    def __init__(self, runtime: Runtime, lease: Lease, key: str) -> None:
        self._runtime = runtime
        self._lease = lease
        self._key = key
        self._paid = runtime.models().paid
        self._asked: dict[str, SpendRequest] = {}
        self.open: list[Spent] = []

    def reserve(self, provider: Provider, question: Question, cancelled: Callable[[], bool]) -> Reservation:
        """Reserve what a request can use; where the budget has no room, wait for requests in progress."""
        self.close()
        patience = SiblingPatience(self._runtime.settings.model_whole_time_limit_s)
        waited = False
        while True:
            if waited and cancelled():
                raise ModelError(Trouble.cancelled, "the wait for a budget was cancelled", provider=provider.name)
            promise = self._promise(provider, question, patience)
            if promise is not None:
                self._runtime.at_boundary("model_reserved")
                return promise
            if not waited:
                log.info("model_waits_for_budget", job=self._lease.job_id, question=self._key, provider=provider.name)
            waited = True
            time.sleep(WAIT_S)

    def _promise(self, provider: Provider, question: Question, patience: SiblingPatience) -> Reservation | None:
        settings, runtime = self._runtime.settings, self._runtime
        price = price_of(settings.model_prices, provider.name, provider.model)
        budgets = settings.budgets() if self._paid else ()
        with leased(runtime, self._lease) as (session, job, row):
            rooms = spending.rooms(session, job, budgets, runtime.clock())
            sent = granted(question, price, rooms, runtime.clock(), waits=patience.lasts(rooms))
            if sent is None:
                return None
            most = most_of(sent, price) if self._paid else Amount(0, 0, 0)
            wanted = SpendRequest(self._key, question.purpose, provider.name, provider.model, most)
            request_id = spending.promise(session, job, row, wanted, runtime.clock())
        self._asked[request_id] = wanted
        return Reservation(request_id, sent)

    def answered(self, ending: RequestEnd) -> None:
        """Note an answer; the reservation is settled when the answer is kept."""
        self.open.append(self._spent(ending))

    def failed(self, ending: RequestEnd) -> None:
        """Settle an attempt without an answer."""
        self.open.append(self._spent(ending))
        self.close()

    def close(self) -> None:
        """Settle what has ended, whoever has the lease by now: it was used."""
        if self.open:
            with self._runtime.database.write() as session:
                self.settle(session)
            self.open.clear()

    def settle(self, session: Session) -> None:
        """Settle what has ended in a transaction of the caller's, who clears ``open`` once that is written."""
        for spent in self.open:
            spending.settle(session, spent, self._runtime.clock())

    def tried(self) -> tuple[Tried, ...]:
        """All attempts of the key's requests, those of earlier runs first."""
        with self._runtime.database.read() as session:
            ended = spending.tried(session, self._lease.attempt_id, self._key)
        return (*ended, *(self._tried(spent) for spent in self.open))

    def _tried(self, spent: Spent) -> Tried:
        by = self._asked[spent.request_id]
        return Tried(by.provider, by.model, spent.outcome, spent.usage, spent.micro_dollars, spent.duration_s)

    def _spent(self, ending: RequestEnd) -> Spent:
        if not self._paid:
            return Spent(ending.request_id, ending.outcome, Usage(), None, ending.duration_s)
        by = self._asked[ending.request_id]
        price = price_of(self._runtime.settings.model_prices, by.provider, by.model)
        return Spent(ending.request_id, ending.outcome, *charged(ending, by.most, price), ending.duration_s)


class Questions:
    """The questions of one run; ``cancelled`` is true once the run must end."""

    def __init__(self, runtime: Runtime, lease: Lease, cancelled: Callable[[], bool]) -> None:
        self._runtime = runtime
        self._lease = lease
        self._cancelled = cancelled

    def ask(self, key: str, question: Question) -> Answer:
        """The answer that is kept under a key; where there is none it is asked for and kept."""
        # In a thread, as several are: a signal that ends this process then breaks in here, and not into the request, which is
        # cancelled and settled by what it has taken.
        outcome = self.ask_until({key: question}, None)[key]
        if isinstance(outcome, ModelError):
            raise outcome
        return outcome

    def _ask(self, key: str, question: Question, signals: Signals) -> Answer:
        if not 0 < len(key) <= MOST_KEY:
            raise ValueError(f"the key of a question has 1 to {MOST_KEY} characters, not {len(key)}")
        models = self._runtime.models()
        sent = models.prepare(question)
        known = self._known(key, digest_of(sent))
        if known is not None:
            return known.result()
        if not models.providers:
            raise UserFacingError(NO_MODEL)
        log = RequestLog(self._runtime, self._lease, key)
        try:
            outcome = self._outcome(sent, log, signals)
            self._runtime.at_boundary("model_answered")
            return self._kept(key, Record(sent, outcome, log.tried()), log, signals).result()
        finally:
            log.close()

    def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Answer | ModelError]:
        """Ask several at once; each is kept as it arrives."""
        return self.ask_until(questions, None)

    def ask_until(
        self, questions: Mapping[str, Question], should_stop: ShouldStop | None
    ) -> dict[str, Answer | ModelError]:
        """Ask several at once until ``should_stop`` is true of the answers; the rest is kept as not needed."""
        models = self._runtime.models()

        def prefix_of(question: Question) -> str | None:
            first = next(iter(models.providers_for(question)), None)
            return first.prefix(question) if isinstance(first, PrefixCache) else None

        if not models.paid:
            # A recording knows which answers were not needed: others would be missed here.
            should_stop = None
        known = self._all_known(questions)
        many = AtOnce(self._ask, questions, known, prefix_of)
        looks = should_stop is not None and len(questions) > max(1, len(known))
        with self._runtime.hosting(self._runtime, self._lease.job_id) if looks else contextlib.nullcontext():
            outcomes = many.run(should_stop)
        if any(isinstance(outcome, Answer) for outcome in outcomes.values()):
            # A budget that has no room for one more candidate is no reason to give up those that are there and paid for.
            short = {key: outcome for key, outcome in outcomes.items() if isinstance(outcome, BudgetReachedError)}
            outcomes |= {key: self._left_out(key, questions[key], error) for key, error in short.items()}
        for outcome in outcomes.values():
            if isinstance(outcome, UserFacingError):
                raise outcome
        return {key: outcome for key in questions if not isinstance(outcome := outcomes[key], UserFacingError)}

    def _outcome(self, sent: Question, log: RequestLog, signals: Signals) -> Answer | Refusal:
        if signals.not_needed.is_set():
            return NOT_NEEDED
        models = self._runtime.models()
        providers = [Metered(provider, log, signals.began) for provider in models.providers_for(sent)]
        try:
            return models.ask(sent, providers, self._watch(signals))
        except ModelError as error:
            if error.trouble is Trouble.cancelled and signals.not_needed.is_set():
                return replace(NOT_NEEDED, provider=error.provider, usage=error.usage, request_id=error.request_id)
            return Refusal.of(error)

    def _left_out(self, key: str, question: Question, error: BudgetReachedError) -> ModelError:
        """Keep a question as not asked, so that a later run of the attempt has the same answers."""
        log = RequestLog(self._runtime, self._lease, key)
        refusal = Refusal(Trouble.out_of_budget, error.failure.message)
        record = Record(self._runtime.models().prepare(question), refusal, log.tried())
        self._kept(key, record, log, Signals())
        return refusal.error()

    def _all_known(self, questions: Mapping[str, Question]) -> dict[str, Answer | ModelError]:
        prepare = self._runtime.models().prepare
        kept = {key: self._known(key, digest_of(prepare(question))) for key, question in questions.items()}
        return {key: record.answer_or_error() for key, record in kept.items() if record is not None}

    def _known(self, key: str, digest: str) -> Record | None:
        with leased(self._runtime, self._lease) as (session, job, row):
            kept = attempts.find_answer(session, row, key, digest)
            if kept is None:
                return None
            record = self._runtime.blobs.get(kept.record)
            name = record_name(row.stage, row.attempt, key)
            attempts.keep_artifact(session, job, name, kept.record, MEDIA_TYPE, len(record))
        return read_record(record)

    def _kept(self, key: str, record: Record, log: RequestLog, signals: Signals) -> Record:
        content = write_record(record)
        digest = self._runtime.blobs.put(content)
        # A request that was ended from here says nothing about its question.
        final = record.final and (isinstance(record.outcome, Answer) or not signals.stop.is_set())
        with self._runtime.database.write() as session:
            claimed = attempts.leased(session, self._lease)
            log.settle(session)
            if claimed is not None:
                job, row = claimed
                name = record_name(row.stage, row.attempt, key)
                attempts.keep_artifact(session, job, name, digest, MEDIA_TYPE, len(content))
                if final:
                    answered = isinstance(record.outcome, Answer)
                    attempts.keep_answer(session, row, key, digest_of(record.question), digest, answered=answered)
                jobs.record(session, job, "model_asked", summary_line(record), self._runtime.clock())
        log.open.clear()
        if claimed is None:
            raise LeaseLost(self._lease.job_id)
        self._runtime.at_boundary("model_kept")
        return record

    def _watch(self, signals: Signals) -> Callable[[], bool]:
        looked_at, gone = -LOOK_EVERY_S, False

        def cancelled() -> bool:
            nonlocal looked_at, gone
            now = time.monotonic()
            if not gone and now - looked_at >= LOOK_EVERY_S:
                looked_at = now
                with contextlib.suppress(SQLAlchemyError):
                    # A database that gives no answer for a moment is no reason to throw away what is being paid for.
                    gone = self._cancelled()
            return gone or signals.ended()

        return cancelled


def summary_line(record: Record) -> str:
    """A question's line in the job's timeline, without any of its text."""
    tokens = sum(sum((t.usage.input_tokens, t.usage.output_tokens, t.usage.cache_read_tokens, t.usage.cache_written_tokens))
                 for t in record.tried)  # fmt: skip
    costs = [t.micro_dollars for t in record.tried if t.micro_dollars is not None]
    paid = f", {dollars(sum(costs))}" if costs else ""
    ending = (
        f"answered by {record.outcome.provider}" if isinstance(record.outcome, Answer) else record.outcome.trouble.value
    )
    return f"{record.question.purpose}: {ending}, {tokens:,} tokens{paid}"
