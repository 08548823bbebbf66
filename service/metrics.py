"""The metrics: what is counted, and what the models took."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog
from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, Metric

from workers.contracts import ModelUse

WEBHOOKS = Counter("kernelsmith_webhooks", "Webhook requests by the status they were answered with.", ["status"])
CONNECTIONS_DROPPED = Counter(
    "kernelsmith_connections_dropped",
    "Connections that sent no whole request in time (late), or made room for others (too_many).",
    ["reason"],
)
DELIVERIES = Counter(
    "kernelsmith_deliveries", "Deliveries that were handled, by event and outcome.", ["event", "outcome"]
)
UPDATES = Counter(
    "kernelsmith_updates", "Updates that were published or not, by kind and outcome.", ["kind", "outcome"]
)
PUBLISH_SECONDS = Histogram(
    "kernelsmith_publish_seconds", "Time that one update took.", ["kind"], buckets=(0.1, 0.3, 1, 3, 10, 30)
)
LOOP_FAULTS = Counter("kernelsmith_loop_faults", "Errors that reached the top of a background loop.", ["loop"])
DELIVERY_SECONDS = Histogram(
    "kernelsmith_delivery_seconds",
    "Time from the webhook to the end of handling.",
    buckets=(0.3, 1, 3, 10, 30, 100, 300, 1000, 3600),
)


log = structlog.get_logger(__name__)

MICRO_DOLLARS = "micro_dollars"


class ModelMetrics:
    """Numbers that are read when they are asked for; none where the database gives no answer."""

    def __init__(self, use: Callable[[], ModelUse]) -> None:
        self._use = use

    def collect(self) -> Iterable[Metric]:
        """Requests and seconds by provider, purpose and outcome, tokens and dollars by model."""
        try:
            use = self._use()
        except Exception as error:  # noqa: BLE001 - whatever keeps them away, the other numbers are wanted all the more
            log.warning("numbers_missing", numbers="models", error=f"{type(error).__name__}: {error}")
            return
        by = ["provider", "purpose", "outcome"]
        requests = CounterMetricFamily(
            "kernelsmith_model_requests", "Requests to language models that ended.", labels=by
        )
        seconds = CounterMetricFamily("kernelsmith_model_seconds", "Seconds that those took.", labels=by)
        for one in use.requests:
            requests.add_metric([one.provider, one.purpose, one.outcome], one.count)
            seconds.add_metric([one.provider, one.purpose, one.outcome], one.duration_s)
        tokens = CounterMetricFamily(
            "kernelsmith_model_tokens", "Tokens that were charged.", labels=["provider", "model", "kind"]
        )
        dollars = CounterMetricFamily(
            "kernelsmith_model_dollars", "Dollars, of the models that have a price.", labels=["provider", "model"]
        )
        for taken in use.amounts:
            if taken.unit == MICRO_DOLLARS:
                dollars.add_metric([taken.provider, taken.model], taken.amount / 1_000_000)
            else:
                tokens.add_metric([taken.provider, taken.model, taken.unit.removesuffix("_tokens")], taken.amount)
        yield from (requests, seconds, tokens, dollars)
