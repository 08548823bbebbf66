"""The service as it runs, against a GitHub on this machine, stepped by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

from deploy.localhub.conversation import CommentEntry
from deploy.localhub.hub import Hub
from deploy.localhub.server import HubServer
from deploy.localhub.webhooks import HookAnswer, Order, Transport
from deploy.localhub.world import utc_now
from service.app import Parts, create_app, make_parts
from service.github.clients import GitHubClients
from service.github.session import RateLimits
from service.settings import ServiceSettings
from tests.direct_hub import direct
from tests.done_once import keys
from tests.service.io.samples import PROBLEM, REPOSITORY
from tests.service.io.stages import Analyze, stages
from tests.service.io.standing_stages import Measure
from workers import inbox, runtime
from workers.contracts import JobView
from workers.embedded import close, drive
from workers.settings import Settings as WorkerSettings

SECRET = "a secret of the webhook, long enough"
FILES: dict[str, bytes] = {
    "README.md": b"# kernels\n",
    "kernels/__init__.py": b"",
    "kernels/geglu.py": b"def geglu(a, b):\n    return a * b\n",
    "src/problem.py": PROBLEM.encode(),
    "src/folder/file.txt": b"text\n",
}
CREATE = f"/kernel create reglu\n\n```python\n{PROBLEM}```\n"


def post_to(client: TestClient) -> Transport:
    """Deliver webhooks to the application without a socket."""

    def post(_url: str, headers: Mapping[str, str], body: bytes) -> HookAnswer:
        answer = client.post("/webhook", content=body, headers=dict(headers))
        return HookAnswer(answer.status_code, dict(answer.headers), answer.text)

    return post


@dataclass
class Bench:
    """Everything that a conversation needs."""

    hub: Hub
    parts: Parts
    app: FastAPI
    client: TestClient
    clock: list[float]
    analyze: Analyze
    repository: str = REPOSITORY
    order: Order = "as_sent"
    twice: bool = False

    def handle(self) -> int:
        """Deliver webhooks and handle them, until nothing is left."""
        self.hub.deliver_all(self.order, self.twice)
        count = 0
        while self.parts.processor.step():
            count += 1
            self.hub.deliver_all(self.order, self.twice)
        return count

    def publish(self) -> int:
        count = 0
        while self.parts.publisher.step():
            count += 1
        return count

    def settle(self) -> None:
        """Let everything happen that can happen now."""
        while self.handle() + drive() + self.publish():
            pass

    def persist(self) -> None:
        """Let everything happen, also what is tried again later."""
        for _ in range(40):
            self.settle()
            counts = inbox.counts()
            if not counts["updates"].get("pending") and not counts["deliveries"].get("pending"):
                return
            self.later(35)
        raise AssertionError(f"it does not end: {inbox.counts()}")

    def later(self, seconds: float) -> None:
        self.clock[0] += seconds

    def issue(self, body: str = "please", by: str = "maintainer") -> int:
        return self.hub.open_issue(self.repository, by, "Wanted: reglu", body).number

    def say(self, number: int, body: str, by: str = "maintainer") -> int:
        return self.hub.comment(self.repository, number, by, body).id

    def comments(self, number: int, by: str = "smith[bot]") -> list[CommentEntry]:
        found = self.hub.conversation(self.repository, number)
        return [entry for entry in found if isinstance(entry, CommentEntry) and entry.by == by]

    def reactions(self, number: int, comment_id: int) -> tuple[str, ...]:
        found = self.hub.conversation(self.repository, number)
        return next(e.reactions for e in found if isinstance(e, CommentEntry) and e.id == comment_id)

    def jobs(self) -> tuple[JobView, ...]:
        return inbox.find_jobs(self.repository)

    def job(self) -> JobView:
        (found,) = self.jobs()
        return found


@pytest.fixture(scope="session")
def app_keys() -> tuple[str, str]:
    return keys()


@pytest.fixture
def analyze() -> Analyze:
    return Analyze()


@pytest.fixture
def measure() -> Measure:
    return Measure()


@pytest.fixture
def clock(tmp_path: Path, analyze: Analyze, measure: Measure, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The production in a folder of its own, and one clock for it, for GitHub and for credentials, to be put forward."""
    offset, table = [0.0], stages(analyze, measure)
    shifted = SimpleNamespace(time=lambda: time.time() + offset[0], monotonic=time.monotonic)
    monkeypatch.setattr("service.github.session.time", shifted)
    passed = SimpleNamespace(time=shifted.time, monotonic=lambda: time.monotonic() + offset[0])
    for module in ("service.github.credentials", "service.github.clock"):
        monkeypatch.setattr(f"{module}.time", passed)
    made = runtime.build(WorkerSettings(data_dir=tmp_path / "work", database_url=None, redis_url=None))
    runtime.install(replace(made, clock=shifted.time, stages=lambda: table))
    yield offset
    close()


@pytest.fixture
def hub(tmp_path: Path, app_keys: tuple[str, str], clock: list[float]) -> Hub:
    hub = Hub(tmp_path / "hub", lambda: utc_now() + timedelta(seconds=clock[0]))
    owner, name = REPOSITORY.split("/")
    hub.create_repository(owner, name, files=FILES)
    for login, role in (("maintainer", "write"), ("second", "admin"), ("visitor", "read")):
        hub.add_user(login)
        hub.add_collaborator(REPOSITORY, login, role)
    app = hub.add_app("smith", owner, app_keys[1], hook_url="http://127.0.0.1:9/webhook", hook_secret=SECRET)
    hub.install(app, owner)
    return hub


@contextmanager
def running(hub: Hub, clock: list[float], analyze: Analyze, **credentials: Any) -> Iterator[Bench]:
    """The service on a hub, with credentials as its settings take them."""
    with HubServer(hub) as server, direct(server):
        settings = ServiceSettings(
            webhook_secrets=(SecretStr(SECRET),),
            api_url=server.api_url,
            html_url=server.url,
            public_url="https://bot.example",
            pages_open=True,
            publisher_threads=0,
            delivery_threads=0,
            **credentials,
        )
        parts = make_parts(settings, GitHubClients(settings, RateLimits(runtime.current().clock)))
        app = create_app(settings, parts)
        with TestClient(app) as client:
            made = Bench(hub, parts, app, client, clock, analyze)
            hub.deliveries.transport = post_to(client)
            hub.deliver_all()
            yield made


@pytest.fixture
def bench(hub: Hub, app_keys: tuple[str, str], clock: list[float], analyze: Analyze) -> Iterator[Bench]:
    app_id = next(iter(hub.world.state.apps.values())).id
    with running(hub, clock, analyze, app_id=app_id, private_key=SecretStr(app_keys[0])) as made:
        yield made


@pytest.fixture(autouse=True)
def short_tracebacks() -> None:
    # structlog's own default shows local variables, in which secrets may be.
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(),
        ]
    )
