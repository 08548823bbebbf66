"""The webhook: what is refused leaves nothing behind, what is accepted is kept before it is answered."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Awaitable, Callable, Iterator

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from httpx import Response
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from service import webhook
from service.metrics import WEBHOOKS
from service.webhook import BODY_LIMIT_BYTES, Intake, sign, webhook_route
from workers.inbox import NewDelivery

Receive = Callable[[], Awaitable[dict[str, object]]]

SECRET = b"a secret of the webhook"
DELIVERY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


class Store:
    """Deliveries in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, bytes]] = {}
        self.woken = 0

    def record(self, delivery: NewDelivery) -> Awaitable[bool]:
        is_new = delivery.delivery_id not in self.kept
        self.kept.setdefault(delivery.delivery_id, (delivery.event, delivery.payload))
        return asyncio.sleep(0, is_new)

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def app(store: Store) -> FastAPI:
    app = FastAPI()
    events = {"issue_comment"}
    app.router.routes.append(
        webhook_route(
            Intake((SECRET, b"an older secret"), events.__contains__, lambda *_: None, store.record, store.wake)
        )
    )
    return app


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def headers(body: bytes, **changed: str | None) -> dict[str, str]:
    given: dict[str, str | None] = {
        "content-type": "application/json",
        "x-github-delivery": DELIVERY,
        "x-github-event": "issue_comment",
        "x-hub-signature-256": sign(SECRET, body),
    }
    given |= {name.replace("_", "-"): value for name, value in changed.items()}
    return {name: value for name, value in given.items() if value is not None}


def test_a_signed_delivery_is_kept_byte_for_byte_and_answered_with_202(client: TestClient, store: Store) -> None:
    body = b'{"action":  "created"}'
    answer = client.post("/webhook", content=body, headers=headers(body))
    assert (answer.status_code, answer.json()) == (202, {"outcome": "accepted"})
    assert store.kept == {DELIVERY: ("issue_comment", body)}
    assert store.woken == 1


def test_a_delivery_that_comes_twice_is_answered_with_202_and_kept_once(client: TestClient, store: Store) -> None:
    for outcome in ("accepted", "already known"):
        answer = client.post("/webhook", content=b"{}", headers=headers(b"{}"))
        assert (answer.status_code, answer.json()) == (202, {"outcome": outcome})
    assert len(store.kept) == 1


def test_a_delivery_that_asks_for_nothing_is_kept_as_handled_and_wakes_nobody(store: Store) -> None:
    app, seen = FastAPI(), list[NewDelivery]()
    settled = {b'{"body": "thanks"}': "no command"}

    def record(delivery: NewDelivery) -> Awaitable[bool]:
        seen.append(delivery)
        return store.record(delivery)

    intake = Intake((SECRET,), lambda _: True, lambda _, body: settled.get(body), record, store.wake)
    app.router.routes.append(webhook_route(intake))
    with TestClient(app) as client:
        for body in settled:
            answer = client.post("/webhook", content=body, headers=headers(body))
            assert (answer.status_code, answer.json()) == (202, {"outcome": "accepted"})
    assert [delivery.outcome for delivery in seen] == ["no command"]
    assert store.woken == 0


def test_an_older_secret_is_valid_during_a_rotation(client: TestClient) -> None:
    answer = client.post(
        "/webhook", content=b"{}", headers=headers(b"{}", x_hub_signature_256=sign(b"an older secret", b"{}"))
    )
    assert answer.status_code == 202


@pytest.mark.parametrize("signature", [None, "sha256=" + "0" * 64, sign(b"guessed", b"{}")])
def test_a_missing_or_forged_signature_gets_401_and_leaves_nothing(
    client: TestClient, store: Store, signature: str | None
) -> None:
    answer = client.post("/webhook", content=b"{}", headers=headers(b"{}", x_hub_signature_256=signature))
    assert answer.status_code == 401
    assert store.kept == {}


def test_a_forged_delivery_is_not_told_that_its_other_headers_are_wrong(client: TestClient) -> None:
    given = headers(b"{}", x_hub_signature_256=None, content_type="text/plain", x_github_event=None)
    assert client.post("/webhook", content=b"{}", headers=given).status_code == 401


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-www-form-urlencoded",
        "text/plain",
        "",
        "application",
        "application/json/x",
        "text/x; a=application/json",
    ],
)
def test_another_content_type_gets_415(client: TestClient, store: Store, content_type: str) -> None:
    answer = client.post("/webhook", content=b"{}", headers=headers(b"{}", content_type=content_type))
    assert answer.status_code == 415
    assert "application/json" in answer.json()["outcome"]
    assert store.kept == {}


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", 'Application/JSON ; charset="utf-8"', "application/json;"]
)
def test_a_charset_beside_the_content_type_is_fine(client: TestClient, content_type: str) -> None:
    given = headers(b"{}", content_type=content_type)
    assert client.post("/webhook", content=b"{}", headers=given).status_code == 202


@pytest.mark.parametrize("delivery", [None, "short", "x" * 65, "72d3162e/../../passwd", "72d3162e cc78"])
def test_a_missing_or_malformed_delivery_id_gets_400(client: TestClient, store: Store, delivery: str | None) -> None:
    answer = client.post("/webhook", content=b"{}", headers=headers(b"{}", x_github_delivery=delivery))
    assert answer.status_code == 400
    assert store.kept == {}


def test_a_ping_is_answered_and_not_kept(client: TestClient, store: Store) -> None:
    answer = client.post("/webhook", content=b"{}", headers=headers(b"{}", x_github_event="ping"))
    assert (answer.status_code, answer.json()) == (200, {"outcome": "pong"})
    assert store.kept == {}


def test_an_event_that_no_handler_wants_is_answered_and_not_kept(client: TestClient, store: Store) -> None:
    answer = client.post("/webhook", content=b"{}", headers=headers(b"{}", x_github_event="star"))
    assert (answer.status_code, answer.json()) == (202, {"outcome": "ignored"})
    assert store.kept == {}


def test_a_body_that_declares_to_be_too_large_gets_413(client: TestClient, store: Store) -> None:
    given = headers(b"{}") | {"content-length": str(BODY_LIMIT_BYTES + 1)}
    assert client.post("/webhook", content=b"{}", headers=given).status_code == 413
    assert store.kept == {}


def test_a_body_that_lies_about_its_length_is_cut_off_while_it_streams(app: FastAPI, store: Store) -> None:
    status, sent = asyncio.run(_raw_post(app, content_length="2"))
    assert status == 413
    assert BODY_LIMIT_BYTES < sent <= BODY_LIMIT_BYTES + 2_000_000
    assert store.kept == {}


async def _raw_post(app: FastAPI, content_length: str) -> tuple[int, int]:
    # A server such as uvicorn holds a body to its declared length; the application must not rely on that.
    sent = 0

    async def receive() -> dict[str, object]:
        nonlocal sent
        sent += 1_000_000
        return {"type": "http.request", "body": b" " * 1_000_000, "more_body": True}

    (status,) = await _post(app, receive, headers(b"{}") | {"content-length": content_length})
    return status, sent


def body_of(body: bytes) -> Receive:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _post(app: FastAPI, receive: Receive, given: dict[str, str]) -> list[int]:
    statuses: list[int] = []

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(int(str(message["status"])))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/webhook",
        "raw_path": b"/webhook",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("test", 80),
        "client": ("test", 1),
    }
    await app(scope, receive, send)  # type: ignore[arg-type]
    return statuses


def disk_full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def sqlite_says(code: int) -> OperationalError:
    cause = sqlite3.OperationalError("it does not work")
    cause.sqlite_errorcode = code
    return OperationalError("INSERT", {}, cause)


def post_with(kept: Callable[[], Awaitable[bool]], store: Store) -> tuple[Response, list[dict[str, object]], float]:
    """Send a delivery of which this becomes; give the answer, the log, and how many such answers were counted."""
    app = FastAPI()
    app.router.routes.append(
        webhook_route(Intake((SECRET,), lambda event: True, lambda *_: None, lambda _: kept(), store.wake))
    )
    with TestClient(app) as client, capture_logs() as logs:
        answer = client.post("/webhook", content=b"{}", headers=headers(b"{}"))
    return answer, list(logs), WEBHOOKS.labels(status=str(answer.status_code))._value.get()


async def failing(error: Exception) -> bool:
    raise error


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (disk_full(), "the disk is full"),
        (sqlite_says(sqlite3.SQLITE_FULL), "the disk is full"),
        (sqlite_says(sqlite3.SQLITE_IOERR_WRITE), "the disk gives errors"),
        (sqlite_says(sqlite3.SQLITE_BUSY_SNAPSHOT), "locked by another process"),
        (sqlite_says(sqlite3.SQLITE_READONLY_DBMOVED), "it cannot be written to"),
        (OperationalError("INSERT", {}, psycopg.OperationalError("refused")), "it gives no answer"),
        (OperationalError("INSERT", {}, psycopg.errors.DiskFull("full")), "the disk is full"),
        (OperationalError("INSERT", {}, psycopg.errors.AdminShutdown("bye")), "it gives no answer"),
    ],
    ids=str,
)
def test_a_delivery_that_cannot_be_kept_gets_503_with_the_fix_in_the_log(
    store: Store, error: Exception, detail: str
) -> None:
    before = WEBHOOKS.labels(status="503")._value.get()
    answer, (line,), counted = post_with(lambda: failing(error), store)
    assert (answer.status_code, counted) == (503, before + 1)
    assert int(answer.headers["retry-after"]) > 0
    assert detail in answer.json()["outcome"]
    assert (line["event"], line["error"], line["log_level"]) == ("delivery_not_kept", detail, "error")
    assert line["fix"]
    assert "exc_info" not in line
    assert store.woken == 0


def test_a_delivery_that_takes_too_long_to_keep_is_answered_before_its_sender_gives_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "KEEP_S", 0.05)
    asked: list[asyncio.Future[bool]] = []

    def ask() -> asyncio.Future[bool]:
        asked.append(asyncio.get_running_loop().create_future())
        return asked[0]

    answer, (line,), _ = post_with(ask, store)
    assert (answer.status_code, line["event"]) == (503, "delivery_not_kept")
    assert asked[0].cancelled(), "what was answered with 503 is not to be kept later, for nothing"


def test_a_fault_of_ours_is_counted_answered_and_logged_once_with_its_traceback(store: Store) -> None:
    before = WEBHOOKS.labels(status="500")._value.get()
    answer, (line,), counted = post_with(lambda: failing(KeyError("a fault")), store)
    assert (answer.status_code, counted) == (500, before + 1)
    assert (line["event"], line["exc_info"], line["delivery_id"]) == ("webhook_fault", True, DELIVERY)


def test_large_bodies_that_come_at_once_are_bounded_and_small_ones_have_room(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "HELD_BYTES", 3_000_000)

    async def both() -> tuple[int, int]:
        started = asyncio.Event()

        async def hang() -> dict[str, object]:
            if started.is_set():
                await asyncio.sleep(60)
            started.set()
            return {"type": "http.request", "body": b" " * 3_500_000, "more_body": True}

        monkeypatch.setattr(webhook, "SMALL_BYTES", 4_000_000)
        first = asyncio.create_task(_post(app, hang, {}))
        await started.wait()
        monkeypatch.setattr(webhook, "SMALL_BYTES", 1_000)
        found = [(await _post(app, body_of(b"{" + b" " * size + b"}"), {}))[0] for size in (2_000, 500)]
        first.cancel()
        return found[0], found[1]

    assert asyncio.run(both()) == (503, 401)
