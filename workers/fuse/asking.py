"""How a run outside of any job asks language models: within the limits of one job, over all that the run asks."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from workers.contracts import AuthorName, UserFacingError
from workers.engine.questions import NO_MODEL
from workers.fuse.run import Authors
from workers.models.ledger import (
    Amount,
    Budget,
    BudgetScope,
    BudgetUnit,
    Metered,
    Price,
    RequestEnd,
    Reservation,
    Room,
    charged,
    granted,
    most_of,
    price_of,
)
from workers.models.protocol import Answer, ModelError, Provider, Question, Trouble
from workers.runtime import installed_models
from workers.settings import Settings

WAIT_S = 0.5  # between two looks at a budget that is promised to others


class RunLedger:
    """The requests of a run, a line of JSON each in ``path``, so that a run that goes on has what is left."""

    def __init__(self, path: Path, budgets: Sequence[Budget], prices: Mapping[str, Price]) -> None:
        self._path, self._prices, self._lock = path, prices, Lock()
        self._budgets = [budget for budget in budgets if budget.scope is BudgetScope.job]
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        known = [json.loads(line) for line in lines]
        self._used = {unit: sum(row[unit.value] or 0 for row in known) for unit in BudgetUnit}
        self._open: dict[str, tuple[Provider, Amount]] = {}

    def reserve(self, provider: Provider, question: Question, cancelled: Callable[[], bool]) -> Reservation:
        """Reserve the most that a request can use; where that is promised to others, wait for them.

        Raises:
            BudgetReachedError: the budget has no room for what it is likely to take.
            ModelError: it was cancelled while it waited.
        """
        price = price_of(self._prices, provider.name, provider.model)
        while True:
            with self._lock:
                rooms = [Room(each, self._used[each.unit], self._promised(each.unit), "") for each in self._budgets]
                sent = granted(question, price, rooms, time.time(), waits=True)
                if sent is not None:
                    request_id = uuid.uuid4().hex
                    self._open[request_id] = provider, most_of(sent, price)
                    return Reservation(request_id, sent)
            if cancelled():
                raise ModelError(Trouble.cancelled, "the wait for a budget was cancelled", provider=provider.name)
            time.sleep(WAIT_S)

    def answered(self, ending: RequestEnd) -> None:
        """Settle a request that was answered."""
        self.failed(ending)

    def failed(self, ending: RequestEnd) -> None:
        """Settle a request."""
        with self._lock:
            provider, most = self._open.pop(ending.request_id)
            usage, cost = charged(ending, most, price_of(self._prices, provider.name, provider.model))
            tokens = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_written_tokens
            row = {BudgetUnit.tokens: tokens, BudgetUnit.micro_dollars: cost}
            for unit, count in row.items():
                self._used[unit] += count or 0
            told = {"provider": provider.name, "model": provider.model, "outcome": ending.outcome}
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(told | {unit.value: count for unit, count in row.items()}) + "\n")

    def _promised(self, unit: BudgetUnit) -> int:
        return sum(most.of(unit) for _, most in self._open.values())


def asker(
    authors: Authors, settings: Settings, path: Path, *, fresh: bool = False
) -> Callable[[Question], Answer] | None:
    """How the models of the settings are asked; None where no author wants one, or none is configured. ``path`` is the ledger's.

    Raises:
        UserFacingError: an author is a model, and none is configured.
    """
    wanted = {authors.extract, authors.dispatch, authors.compose}
    models = None if wanted == {AuthorName.compiler} else installed_models(settings)
    if models is None or not models.providers:
        if AuthorName.llm in wanted:
            raise UserFacingError(NO_MODEL)
        return None
    if fresh:
        path.unlink(missing_ok=True)
    ledger = RunLedger(path, settings.budgets(), settings.model_prices)

    def ask(question: Question) -> Answer:
        sent = models.prepare(question)
        return models.ask(sent, [Metered(each, ledger) for each in models.providers_for(sent)], lambda: False)

    return ask
