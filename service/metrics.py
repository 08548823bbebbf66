"""The counters of the service, in Prometheus' form."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

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
