"""The application: every part of the service put together, with the threads that live as long as it does."""

from __future__ import annotations

import socket
import urllib.parse
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from service.addresses import Addresses
from service.deliveries import DeliveryProcessor, Missed, Unheard
from service.dispatch.desk import Desk
from service.dispatch.events import handles, settled
from service.dispatch.schedule import Nights
from service.github.clients import GitHubClients
from service.health import Ask, Health, health_router
from service.loops import Loop, Loops, Wake
from service.pages.routes import Pages, add_pages
from service.publisher.publisher import Publisher
from service.settings import ServiceSettings, checked
from service.webhook import Intake, Recorder, webhook_route
from workers import artifacts, history, inbox, outbox
from workers.redaction import know

STOP_S = 5.0  # for the recorder to write what waits
FINISH_S = 8.0  # for what was begun to be finished
GIVE_BACK_S = 17.0  # for a request to GitHub that hangs to end, and what it was for to be given back
MISSED_EVERY_S = 300.0
NIGHTS_EVERY_S = 300.0
PAGES_EVERY_S = 60.0
CANCELLED_BY = "the job's page"
UNHEARD_AFTER_S = 150.0  # by then what was delivered at the start has been acknowledged
MISSED_AGAIN_S = 20.0  # what arrived between the first look and the open port was missed as well

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Parts:
    """What the service is made of; tests step the processor and the publisher by hand."""

    settings: ServiceSettings
    clients: GitHubClients
    desk: Desk
    processor: DeliveryProcessor
    publisher: Publisher
    wake_deliveries: Wake
    wake_updates: Wake


def make_parts(settings: ServiceSettings, clients: GitHubClients | None = None) -> Parts:
    """Put the service together, without any thread or route.

    Raises:
        ConfigurationError: the settings do not let it start.
    """
    checked(settings)
    know(settings.all_secrets())
    clients = clients or GitHubClients(settings)
    addresses = Addresses(settings.public_url, settings.html_url)
    worker = f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    desk = Desk(
        inbox=inbox,
        clients=clients,
        put_artifact=artifacts.put,
        addresses=addresses,
        html_host=urllib.parse.urlsplit(settings.html_url).netloc,
        snapshot_limit_bytes=settings.snapshot_limit_mib << 20,
        work_s=settings.delivery_lease_s,
        clock=inbox.now,
    )
    return Parts(
        settings,
        clients,
        desk,
        DeliveryProcessor(inbox, desk, worker, settings.delivery_lease_s),
        Publisher(outbox, clients, addresses, artifacts.get, worker, settings.publish_lease_s),
        Wake(),
        Wake(),
    )


def make_loops(parts: Parts, recorder: Recorder) -> Loops:
    """The background threads, not started."""
    settings = parts.settings

    def handle() -> bool:
        recorder.give_way()
        busy = parts.processor.step()
        if busy:
            parts.wake_updates.ring()
        return busy

    deliveries = [
        Loop(f"deliveries-{n}", handle, parts.wake_deliveries, settings.poll_s)
        for n in range(settings.delivery_threads)
    ]
    publishers = [
        Loop(f"publisher-{n}", parts.publisher.step, parts.wake_updates, settings.poll_s)
        for n in range(settings.publisher_threads)
    ]
    missed = [Loop("missed-deliveries", Missed(parts.clients).step, Wake(), MISSED_EVERY_S, MISSED_AGAIN_S)]
    unheard = Unheard(
        parts.desk,
        lambda: _watched(settings.repositories),
        inbox.record_deliveries,
        parts.wake_deliveries.ring,
    )
    missed.append(Loop("missed-comments", unheard.step, Wake(), MISSED_EVERY_S, UNHEARD_AFTER_S))
    nights = Nights(
        parts.desk, lambda: _watched(settings.repositories), parts.clients.clock.now, parts.clients.installed
    )
    missed.append(Loop("nights", nights.step, Wake(), NIGHTS_EVERY_S))
    pages = Loop("pages", history.warm, Wake(), PAGES_EVERY_S)
    return Loops([*deliveries, *publishers, *([*missed, pages] if deliveries else [])])


def _watched(configured: tuple[str, ...]) -> tuple[tuple[str, int | None], ...]:
    """The repositories that comments are read of: those that are configured, and those that the bot has had jobs in."""
    known: dict[str, int | None] = dict.fromkeys(configured)
    return tuple((known | dict(inbox.known_repositories())).items())


def create_app(settings: ServiceSettings, parts: Parts | None = None, workers: Ask | None = None) -> FastAPI:
    """The application; its threads start and end with it. ``workers``: whether those run that were started with it.

    Raises:
        ConfigurationError: the settings do not let it start.
    """
    parts = parts or make_parts(settings)
    deliveries = inbox.DeliveryLog()
    recorder = Recorder(deliveries.record)
    loops = make_loops(parts, recorder)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        recorder.start()
        loops.start()
        log.info("started", api_url=settings.api_url, public_url=settings.public_url)
        try:
            yield
        finally:
            late = await run_in_threadpool(loops.stop, FINISH_S)
            if late:
                parts.clients.limits.close()
                late = await run_in_threadpool(loops.stop, GIVE_BACK_S)
            if await run_in_threadpool(recorder.stop, STOP_S):
                deliveries.close()
            else:
                late += (recorder.name,)
            parts.clients.close()
            log.info("stopped", late=late)

    app = FastAPI(title="Kernelsmith", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    intake = Intake(settings.secrets(), handles, settled, recorder.record, parts.wake_deliveries.ring)
    app.router.routes.append(webhook_route(intake))
    app.include_router(health_router(_health(parts, loops, recorder, workers)))
    add_pages(app, _pages(parts))
    return app


def _health(parts: Parts, loops: Loops, recorder: Recorder, workers: Ask | None) -> Health:
    def artifacts_writable() -> tuple[bool, str]:
        artifacts.rehearse()
        return True, "written to"

    def github() -> tuple[bool, str]:
        checked = parts.clients.check()
        if not checked.answered:
            raise TimeoutError(checked.detail)
        return checked.ok, checked.detail

    def threads() -> tuple[bool, str]:
        dead = (*loops.dead(), *(() if recorder.is_alive else (recorder.name,)))
        return not dead, f"ended: {', '.join(dead)}" if dead else "all run"

    return Health(
        needed={
            "database": lambda: (True, f"{inbox.rehearse_delivery()}, written to"),
            "artifacts": artifacts_writable,
            "redis": inbox.broker_ready,
            "github": github,
            "threads": threads,
        },
        waited_for={"gpu": inbox.gpu_hosts_ready} | ({} if workers is None else {"workers": workers}),
        counts=inbox.counts,
        remaining=parts.clients.limits.remaining,
        model_use=inbox.model_use,
    )


def _pages(parts: Parts) -> Pages:
    password = parts.settings.pages_password
    return Pages(
        inbox.recent_jobs,
        inbox.get_job,
        artifacts.get,
        parts.desk.addresses,
        password.get_secret_value() if password is not None else None,
        anybody=parts.settings.pages_open,
        cancel=None if parts.settings.pages_open else lambda job_id: inbox.cancel(job_id, CANCELLED_BY),
        repositories=lambda: tuple(name for name, _ in _watched(parts.settings.repositories)),
    )
