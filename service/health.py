"""Whether the service lives, whether it can work, and its numbers: /livez, /readyz, /metrics."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import structlog
from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from service.metrics import ModelMetrics
from workers.contracts import ModelUse
from workers.inbox import StoreTrouble, trouble_of

log = structlog.get_logger(__name__)

FIXES = {
    "database": "check DATABASE_URL, and that the database runs and its disk is not full",
    "artifacts": "check KERNELSMITH_ARTIFACTS_URL, and that there is room and a right to write",
    "redis": "check REDIS_URL, and that Redis runs",
    "github": "check KERNELSMITH_TOKEN, or KERNELSMITH_APP_ID and KERNELSMITH_PRIVATE_KEY_PATH, and KERNELSMITH_API_URL",
    "threads": "restart the service; its log says why a thread ended",
    "gpu": "start `kernelsmith work --only gpu` on a host of that queue; where it runs, see its log and `kernelsmith doctor`",
    "workers": "see the log before `process_ended`: mostly memory, or a full disk of the temporary directory (TMPDIR)",
}


ANSWER_S = 4.0  # a check that takes longer is late; monitors give up after 5 to 10 seconds
PATIENCE_S = 30.0  # for which what was well is taken to be so while its check is late

Ask = Callable[[], tuple[bool, str]]


@dataclass(frozen=True)
class Health:
    """Where the answers come from. Each check tells whether all is well, and gives a detail; ``TimeoutError``: it is late."""

    needed: Mapping[str, Ask]
    waited_for: Mapping[str, Ask]  # without it jobs wait, and commands are heard all the same
    counts: Callable[[], dict[str, dict[str, int]]]
    remaining: Callable[[], dict[str, int]]
    model_use: Callable[[], ModelUse] = ModelUse


@dataclass(frozen=True)
class HealthCheck:
    """One thing that the service, or a job, needs."""

    name: str
    ok: bool
    detail: str
    fix: str
    needed: bool


class Probe:
    """Asks for one thing, in a thread of its own and once at a time, so that nothing that hangs holds up an answer.

    A busy host is no broken one: what is late counts as it was last seen for ``PATIENCE_S``. What says that it is broken is
    believed at once.
    """

    def __init__(self, name: str, ask: Ask, *, needed: bool) -> None:
        self.name = name
        self._ask = ask
        self._needed = needed
        self._asked: Future[tuple[bool, str]] | None = None
        self._well_s: float | None = None

    async def check(self) -> HealthCheck:
        """Ask, or wait with those who asked already; always gives an answer, whatever is broken."""
        if self._asked is None or self._asked.done():
            self._asked = _in_thread(self._ask)
        asked = asyncio.wrap_future(self._asked)
        await asyncio.wait([asked], timeout=ANSWER_S)
        if not asked.done():
            return self._late(f"no answer in {ANSWER_S:.0f} s")
        error = asked.exception()
        if error is not None:
            return self._failed(error)
        ok, detail = asked.result()
        self._well_s = time.monotonic() if ok else None
        return self._check(ok, detail)

    def _failed(self, error: BaseException) -> HealthCheck:
        trouble = trouble_of(error)
        if isinstance(error, TimeoutError):
            return self._late(str(error))
        if trouble is not None and trouble.late:
            return self._late(trouble.detail)
        self._well_s = None
        # The error goes to the log, and its kind alone to whoever asks: its text may hold an address or a user's name.
        log.error("check_failed", check=self.name, error=f"{type(error).__name__}: {error}", fix=self._fix(trouble))
        return self._check(False, type(error).__name__ if trouble is None else trouble.detail, trouble)

    def _late(self, detail: str) -> HealthCheck:
        since_s = math.inf if self._well_s is None else time.monotonic() - self._well_s
        ok = since_s < PATIENCE_S
        log.warning("check_late", check=self.name, detail=detail, ready=ok, fix=FIXES[self.name])
        return self._check(ok, f"{detail}; all was well {since_s:.0f} s ago" if ok else detail)

    def _check(self, ok: bool, detail: str, trouble: StoreTrouble | None = None) -> HealthCheck:
        return HealthCheck(self.name, ok, detail, self._fix(trouble), self._needed)

    def _fix(self, trouble: StoreTrouble | None) -> str:
        return FIXES[self.name] if trouble is None else trouble.fix


def _in_thread(ask: Ask) -> Future[tuple[bool, str]]:
    future: Future[tuple[bool, str]] = Future()

    def run() -> None:
        try:
            future.set_result(ask())
        # A readiness check answers whatever is broken: database, driver, or our own code.
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)

    threading.Thread(target=run, name="check", daemon=True).start()
    return future


def health_router(health: Health) -> APIRouter:
    """The routes that an operator and a monitor ask. Those of the process itself wait for no thread."""
    router = APIRouter()
    probes = [
        Probe(name, ask, needed=needed)
        for asks, needed in ((health.needed, True), (health.waited_for, False))
        for name, ask in asks.items()
    ]

    @router.get("/livez")
    async def live() -> Response:
        return PlainTextResponse("alive\n")

    @router.get("/readyz")
    async def ready() -> Response:
        checks = await asyncio.gather(*(probe.check() for probe in probes))
        body = {
            check.name: {"ok": check.ok, "detail": check.detail} | ({} if check.ok else {"fix": check.fix})
            for check in checks
        }
        return JSONResponse(body, status_code=200 if all(check.ok for check in checks if check.needed) else 503)

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
        """The rows by table and state, and what is left of GitHub's rate limits."""
        rows = GaugeMetricFamily("kernelsmith_rows", "Rows by table and state.", labels=["table", "state"])
        for table, states in self._counts().items():
            for state, count in states.items():
                rows.add_metric([table, state], count)
        yield rows
        left = GaugeMetricFamily(
            "kernelsmith_github_rate_limit_remaining", "Requests left in this hour.", labels=["signed_as"]
        )
        for signed_as, count in self._health.remaining().items():
            left.add_metric([signed_as], count)
        yield left

    def _counts(self) -> dict[str, dict[str, int]]:
        try:
            return self._health.counts()
        except Exception as error:  # noqa: BLE001 - whatever keeps them away, the other numbers are wanted all the more
            log.warning("numbers_missing", numbers="rows", error=f"{type(error).__name__}: {error}")
            return {}
