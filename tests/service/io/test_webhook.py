"""The webhook: what is refused leaves nothing behind, what is accepted is kept before it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.signature import sign
from service.webhook import BODY_LIMIT_BYTES, Intake, webhook_router

SECRET = b"a secret of the webhook"
DELIVERY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"


class Store:
    """Deliveries in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, bytes]] = {}
        self.woken = 0

    def record(self, delivery_id: str, event: str, payload: bytes) -> bool:
        new = delivery_id not in self.kept
        self.kept.setdefault(delivery_id, (event, payload))
        return new

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def app(store: Store) -> FastAPI:
    app = FastAPI()
    events = {"issue_comment"}
    app.include_router(
        webhook_router(Intake((SECRET, b"an older secret"), events.__contains__, store.record, store.wake))
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


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_another_content_type_gets_415(client: TestClient, store: Store, content_type: str) -> None:
    answer = client.post("/webhook", content=b"{}", headers=headers(b"{}", content_type=content_type))
    assert answer.status_code == 415
    assert "application/json" in answer.json()["outcome"]
    assert store.kept == {}


def test_a_charset_beside_the_content_type_is_fine(client: TestClient) -> None:
    given = headers(b"{}", content_type="application/json; charset=utf-8")
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
    statuses: list[int] = []
    sent = 0

    async def receive() -> dict[str, object]:
        nonlocal sent
        sent += 1_000_000
        return {"type": "http.request", "body": b" " * 1_000_000, "more_body": True}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(int(str(message["status"])))

    given = headers(b"{}") | {"content-length": content_length}
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
    return statuses[0], sent


def test_a_delivery_that_cannot_be_kept_is_not_answered_with_success(store: Store) -> None:
    def broken(delivery_id: str, event: str, payload: bytes) -> bool:
        raise OSError("disk full")

    app = FastAPI()
    app.include_router(webhook_router(Intake((SECRET,), lambda event: True, broken, store.wake)))
    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.post("/webhook", content=b"{}", headers=headers(b"{}")).status_code == 500
    assert store.woken == 0
