"""Whether the service lives, whether it can work, and its numbers: /livez, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog
from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from service.model_metrics import ModelMetrics
from workers.contracts import ModelUse

log = structlog.get_logger(__name__)

CURES = {
    "database": "check DATABASE_URL, and that the database runs and its disk is not full",
    "redis": "check REDIS_URL, and that Redis runs",
    "github": "check KERNELSMITH_TOKEN, or KERNELSMITH_APP_ID and KERNELSMITH_PRIVATE_KEY_PATH, and KERNELSMITH_API_URL",
    "threads": "restart the service; its log says why a thread ended",
    "gpu": "start `kernelsmith work --only gpu` on a host of that queue; where it runs, see its log and `kernelsmith doctor`",
}


@dataclass(frozen=True)
class Health:
    """Where the answers come from."""

    stores: Callable[[], Iterable[tuple[str, bool, str]]]
    gpu_hosts: Callable[[], tuple[bool, str]]
    github: Callable[[], tuple[bool, str]]
    dead_threads: Callable[[], tuple[str, ...]]
    counts: Callable[[], dict[str, dict[str, int]]]
    remaining: Callable[[], dict[str, int]]
    model_use: Callable[[], ModelUse] = ModelUse


@dataclass(frozen=True)
class Check:
    """One thing that the service, or a job, needs."""

    name: str
    ok: bool
    detail: str
    needed: bool = True  # False: without it jobs wait, and commands are heard all the same


def checks(health: Health) -> tuple[Check, ...]:
    """Ask everything that is needed; a check that fails in itself says so."""
    found = [Check(*item) for item in _stores(health)]
    found.append(Check("github", *health.github()))
    dead = health.dead_threads()
    found.append(Check("threads", not dead, f"ended: {', '.join(dead)}" if dead else "all run"))
    return (*found, _gpu_hosts(health))


def _gpu_hosts(health: Health) -> Check:
    try:
        return Check("gpu", *health.gpu_hosts(), needed=False)
    except Exception as error:  # noqa: BLE001 - a readiness check answers whatever is broken: database, driver, or our own code
        return Check("gpu", ok=False, detail=_told("gpu", error), needed=False)


def _stores(health: Health) -> Iterable[tuple[str, bool, str]]:
    try:
        return tuple(health.stores())
    except Exception as error:  # noqa: BLE001 - as above
        return (("database", False, _told("database", error)),)


def _told(check: str, error: Exception) -> str:
    """Write the error to the log, and give its kind alone: its text may hold an address or a user's name."""
    log.warning("check_failed", check=check, error=f"{type(error).__name__}: {error}")
    return type(error).__name__


def health_router(health: Health) -> APIRouter:
    """Give the routes that an operator and a monitor ask."""
    router = APIRouter()

    @router.get("/livez")
    def live() -> Response:
        return PlainTextResponse("alive\n")

    @router.get("/readyz")
    def ready() -> Response:
        found = checks(health)
        body = {
            check.name: {"ok": check.ok, "detail": check.detail}
            | ({} if check.ok else {"cure": CURES.get(check.name, "see the log")})
            for check in found
        }
        return JSONResponse(body, status_code=200 if all(check.ok for check in found if check.needed) else 503)

    @router.get("/metrics")
    def metrics() -> Response:
        registry = CollectorRegistry()
        registry.register(_Rows(health))
        registry.register(ModelMetrics(health.model_use))
        return Response(generate_latest(REGISTRY) + generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


class _Rows:
    """Numbers that are read when they are asked for."""

    def __init__(self, health: Health) -> None:
        self._health = health

    def collect(self) -> Iterable[Metric]:
        """Give the rows by table and state, and what is left of GitHub's rate limits."""
        rows = GaugeMetricFamily("kernelsmith_rows", "Rows by table and state.", labels=["table", "state"])
        for table, states in self._counts().items():
            for state, count in states.items():
                rows.add_metric([table, state], count)
        yield rows
        left = GaugeMetricFamily(
            "kernelsmith_github_rate_limit_remaining", "Requests left in this hour.", labels=["credentials"]
        )
        for credentials, count in self._health.remaining().items():
            left.add_metric([credentials], count)
        yield left

    def _counts(self) -> dict[str, dict[str, int]]:
        try:
            return self._health.counts()
        except Exception as error:  # noqa: BLE001 - whatever keeps them away, the other numbers are wanted all the more
            log.warning("numbers_missing", numbers="rows", error=f"{type(error).__name__}: {error}")
            return {}
