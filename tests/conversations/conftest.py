"""The whole product but its processes: the application, the engine and the stages, stepped by hand against localhub."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from fastapi.testclient import TestClient
from pydantic import SecretStr
from sqlalchemy import select

from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from deploy.localhub.world import utc_now
from service.app import create_app, make_parts
from service.github.clients import GitHubClients
from service.github.session import RateLimits
from service.settings import ServiceSettings
from tests.conversations.normal import Normal
from tests.conversations.talk import REPOSITORY, Talk
from tests.direct_hub import direct
from tests.done_once import keys
from tests.recorded import runner
from tests.recorded.libraries import PLAIN
from workers import runtime
from workers.embedded import close
from workers.settings import Settings as WorkerSettings
from workers.store.models import Job

SECRET = "a secret of the webhook, long enough"
PEOPLE = (("maintainer", "write"), ("second", "admin"), ("visitor", "read"))


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """What was logged as an error, from our code and from libraries."""
    found: list[str] = []

    def collect(_logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method in ("error", "exception", "critical"):
            found.append(f"logged: {event}")
        return event

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(f"logged: {record.name}: {record.getMessage()}")

    before, handler = structlog.get_config(), Collector(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            collect,
            structlog.processors.KeyValueRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)
    structlog.configure(**before)


Open = Callable[..., Talk]


@pytest.fixture
def open_talk(
    tmp_path: Path,
    errors: list[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Open]:
    """Start a conversation on a library; afterwards nothing of it may be left over."""
    opened: list[Talk] = []
    with ExitStack() as stack:

        def start(files: dict[str, bytes] | None = None, real_runner: bool = False) -> Talk:
            clock = _production(tmp_path, None if real_runner else request.config.getoption("--record"), monkeypatch)
            hub = _hub(tmp_path / "hub", clock, keys()[1], files or PLAIN)
            server = stack.enter_context(HubServer(hub))
            stack.enter_context(direct(server))
            talk = _served(stack, hub, server, clock, keys()[0], tmp_path / "desk", errors)
            opened.append(talk)
            return talk

        yield start
        left = [line for talk in opened for line in talk.leftovers()]
    close()
    assert not left, "\n".join(left)


@pytest.fixture
def talk(open_talk: Open) -> Talk:
    """A conversation on the plain library."""
    return open_talk()


def _production(folder: Path, record: bool | None, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Install the production in a folder of its own; one clock for it, for GitHub and for credentials, to be put forward."""
    offset = [0.0]
    shifted = SimpleNamespace(time=lambda: time.time() + offset[0], monotonic=time.monotonic)
    monkeypatch.setattr("service.github.session.time", shifted)
    passed = SimpleNamespace(time=shifted.time, monotonic=lambda: time.monotonic() + offset[0])
    for module in ("service.github.credentials", "service.github.clock"):
        monkeypatch.setattr(f"{module}.time", passed)
    for name in ("answers", "pause", "paused"):
        (folder / "desk" / name).mkdir(parents=True)
    made = runtime.build(WorkerSettings(data_dir=folder / "work", architecture="interpreter"))
    made = replace(made, clock=shifted.time)
    if record is not None:
        made.runner_command = runner.command(folder / "desk", record)
    runtime.install(made)
    return offset


def _hub(folder: Path, clock: list[float], public_key: str, files: dict[str, bytes]) -> Hub:
    hub = Hub(folder, lambda: utc_now() + timedelta(seconds=clock[0]))
    owner, name = REPOSITORY.split("/")
    hub.create_repository(owner, name, files=files)
    for login, role in PEOPLE:
        hub.add_user(login)
        hub.add_collaborator(REPOSITORY, login, role)
    app = hub.add_app("smith", owner, public_key, hook_url="http://127.0.0.1:9/webhook", hook_secret=SECRET)
    hub.install(app, owner)
    return hub


def _served(
    stack: ExitStack, hub: Hub, server: HubServer, clock: list[float], key: str, desk: Path, errors: list[str]
) -> Talk:
    settings = ServiceSettings(
        webhook_secrets=(SecretStr(SECRET),),
        app_id=next(iter(hub.world.state.apps.values())).id,
        private_key=SecretStr(key),
        api_url=server.api_url,
        html_url=server.url,
        public_url="https://bot.example",
        pages_open=True,
        publisher_threads=0,
        delivery_threads=0,
    )
    parts = make_parts(settings, GitHubClients(settings, RateLimits(runtime.current().clock)))
    client = stack.enter_context(TestClient(create_app(settings, parts)))
    talk = Talk(hub, parts, client, desk, clock, Normal(server.url, _job_ids), errors)
    hub.deliveries.transport = talk.transport
    hub.deliver_all()
    return talk


def _job_ids() -> list[str]:
    # Each comment that is read asks for them, and `inbox.find_jobs` would read whole jobs.
    with runtime.current().database.read() as session:
        return list(session.scalars(select(Job.job_id).order_by(Job.id)))
