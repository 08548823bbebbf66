"""Webhooks: what an act has to tell, to whom, and how it is delivered."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from deploy.localhub import payloads
from deploy.localhub.auth import covers
from deploy.localhub.state import App, Delivery, Installation, Repository
from deploy.localhub.world import Actor, World

TIMEOUT_S = 10.0
_NO_ANSWER = "timed out or refused"
_KEPT_DELIVERIES = 5_000


@dataclass(frozen=True)
class HookAnswer:
    """What the receiver said; ``status_code`` 0 where nothing came back."""

    status_code: int
    headers: dict[str, str]
    body: str


Transport = Callable[[str, Mapping[str, str], bytes], HookAnswer]


@dataclass(frozen=True)
class _Target:
    url: str
    secret: str
    app: App | None = None
    installation: Installation | None = None


def emit(
    world: World, repository: Repository, event: str, action: str | None, parts: dict[str, Any], actor: Actor
) -> None:
    """Queue a delivery for everyone who listens; the payload says how things are at this moment."""
    for target in _targets(world, repository, event):
        payload: dict[str, Any] = {"action": action} if action else {}
        payload |= parts
        payload["repository"] = payloads.repository(world, repository)
        payload["sender"] = payloads.user(world, actor.user)
        if target.installation is not None:
            payload["installation"] = payloads.short_installation(target.installation)
        _enqueue(world, target, event, action, payload, repository)


def emit_installation(world: World, installation: Installation, action: str, actor: Actor) -> None:
    """Tell an app that it was installed; it hears that whatever it subscribed to."""
    app = world.state.apps[installation.app_id]
    if app.hook_url is None:
        return
    covered = [item for item in world.state.repositories.values() if covers(installation, item)]
    payload = {
        "action": action,
        "installation": payloads.installation(world, installation),
        "repositories": [payloads.short_repository(item) for item in covered],
        "sender": payloads.user(world, actor.user),
    }
    _enqueue(world, _Target(app.hook_url, app.hook_secret, app, installation), "installation", action, payload, None)


def ping(world: World, app: App) -> None:
    """What GitHub sends when a webhook is set up."""
    if app.hook_url is None:
        return
    payload = {
        "zen": "Keep it logically awesome.",
        "hook_id": app.id,
        "hook": {"type": "App", "id": app.id, "name": "web", "active": True, "events": app.events, "app_id": app.id},
    }
    _enqueue(world, _Target(app.hook_url, app.hook_secret, app), "ping", None, payload, None)


def redeliver(world: World, delivery: Delivery) -> Delivery:
    """Queue the same event again: a new entry in the log under the same delivery id."""
    fresh = Delivery(
        id=world.state.new_id(),
        guid=delivery.guid,
        event=delivery.event,
        action=delivery.action,
        url=delivery.url,
        secret=delivery.secret,
        payload=delivery.payload,
        app_id=delivery.app_id,
        installation_id=delivery.installation_id,
        repository_id=delivery.repository_id,
        created_at=world.clock(),
        redelivery=True,
    )
    return _queue(world, fresh)


def signature(secret: str, body: bytes) -> str:
    """The value of X-Hub-Signature-256. Source: GitHub docs, "Validating webhook deliveries"."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def send(delivery: Delivery, transport: Transport) -> None:
    """Make the request and write the outcome into the log; never raises for what the receiver does."""
    body = delivery.payload.encode()
    delivery.request_headers = _headers(delivery, body)
    started = time.monotonic()
    answer = transport(delivery.url, delivery.request_headers, body)
    delivery.duration_s = round(time.monotonic() - started, 3)
    delivery.status_code = answer.status_code
    delivery.status = "OK" if 200 <= answer.status_code < 300 else (answer.body[:80] or _NO_ANSWER)
    delivery.response_headers = answer.headers
    delivery.response_body = answer.body


def lose(delivery: Delivery) -> None:
    """Log the delivery as one that never reached its receiver."""
    delivery.request_headers = _headers(delivery, delivery.payload.encode())
    delivery.status_code, delivery.status = 0, _NO_ANSWER


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object) -> None:
        return None


def post(url: str, headers: Mapping[str, str], body: bytes) -> HookAnswer:
    """Deliver over HTTP; a redirect is an answer and is not followed, as with GitHub."""
    opener = build_opener(_NoRedirects)
    request = Request(url, data=body, headers=dict(headers), method="POST")  # noqa: S310 - add_app admits http and https only
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return HookAnswer(answer.status, dict(answer.headers), answer.read(65_536).decode("utf-8", "replace"))
    except HTTPError as error:
        with error:
            return HookAnswer(error.code, dict(error.headers), error.read(65_536).decode("utf-8", "replace"))
    except (URLError, OSError, ValueError):
        return HookAnswer(0, {}, "")


def _targets(world: World, repository: Repository, event: str) -> Iterator[_Target]:
    for installation in world.state.installations.values():
        app = world.state.apps[installation.app_id]
        if app.hook_url and covers(installation, repository) and (event in app.events or "*" in app.events):
            yield _Target(app.hook_url, app.hook_secret, app, installation)
    for hook in repository.hooks:
        if event in hook.events or "*" in hook.events:
            yield _Target(hook.url, hook.secret)


def _enqueue(
    world: World,
    target: _Target,
    event: str,
    action: str | None,
    payload: dict[str, Any],
    repository: Repository | None,
) -> None:
    delivery = Delivery(
        id=world.state.new_id(),
        guid=str(uuid.uuid4()),
        event=event,
        action=action,
        url=target.url,
        secret=target.secret,
        payload=json.dumps(payload),
        app_id=target.app.id if target.app else None,
        installation_id=target.installation.id if target.installation else None,
        repository_id=repository.id if repository else None,
        created_at=world.clock(),
    )
    _queue(world, delivery)


def _queue(world: World, delivery: Delivery) -> Delivery:
    world.state.deliveries.append(delivery)
    del world.state.deliveries[:-_KEPT_DELIVERIES]
    world.undelivered.append(delivery)
    return delivery


def again(delivery: Delivery) -> Delivery:
    """A second arrival of the very same request, which the log does not know of."""
    return replace(delivery)


def _headers(delivery: Delivery, body: bytes) -> dict[str, str]:
    kind, target = ("integration", delivery.app_id) if delivery.app_id else ("repository", delivery.repository_id)
    return {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/localhub",
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Hook-ID": str(target),
        "X-GitHub-Hook-Installation-Target-ID": str(target),
        "X-GitHub-Hook-Installation-Target-Type": kind,
        "X-Hub-Signature-256": signature(delivery.secret, body),
    }


_ROUNDS = 500
_IDLE_S = 0.02

Order = Literal["as_sent", "reversed", "shuffled"]


class Deliveries:
    """What waits to be delivered, what was, and the ways in which it goes wrong."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.transport: Transport = post
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_the_way: list[Delivery] = []

    def waiting(self) -> list[Delivery]:
        """What has not arrived yet, in the order in which it happened; what is just being sent as well."""
        with self._world.lock:
            return [*self._on_the_way, *self._world.undelivered]

    def log(self) -> list[Delivery]:
        """All deliveries, those that wait as well."""
        with self._world.lock:
            return list(self._world.state.deliveries)

    def deliver_next(self, twice: bool = False) -> Delivery | None:
        """Deliver what happened first, perhaps two times in a row; None where nothing waits."""
        with self._world.lock:
            if not self._world.undelivered:
                return None
            delivery = self._world.undelivered.popleft()
            self._on_the_way.append(delivery)
        return self._send(delivery, twice)

    def deliver_all(self, order: Order = "as_sent", twice: bool = False, seed: int = 0) -> list[Delivery]:
        """Deliver until nothing waits, also what the receiver causes meanwhile; ``order`` mixes what waits at one moment."""
        done: list[Delivery] = []
        mixer = random.Random(seed)  # noqa: S311 - an order that a seed repeats, not a secret
        for _ in range(_ROUNDS):
            with self._world.lock:
                batch = list(self._world.undelivered)
                self._world.undelivered.clear()
                self._on_the_way += batch
            if not batch:
                return done
            if order == "reversed":
                batch.reverse()
            elif order == "shuffled":
                mixer.shuffle(batch)
            done += [self._send(delivery, twice) for delivery in batch]
        message = f"the receiver still causes webhooks after {_ROUNDS} rounds: is it answering itself?"
        raise RuntimeError(message)

    def lose_next(self) -> Delivery | None:
        """Let what happened first never arrive; it stays in the log as failed, where a bot can find it."""
        with self._world.lock:
            if not self._world.undelivered:
                return None
            delivery = self._world.undelivered.popleft()
            lose(delivery)
            return delivery

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Queue a delivery again under the same delivery id, as the button in an app's settings does."""
        with self._world.lock:
            return redeliver(self._world, delivery)

    def start(self) -> None:
        """Deliver from now on by a thread, in order."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="localhub-webhooks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the delivery that is on its way."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join(timeout=TIMEOUT_S + 5)
            self._thread = None

    def _run(self) -> None:
        while not self._stop.is_set():
            if self.deliver_next() is None:
                self._stop.wait(_IDLE_S)

    def _send(self, delivery: Delivery, twice: bool) -> Delivery:
        try:
            for one in [delivery, again(delivery)] if twice else [delivery]:
                send(one, self.transport)
        finally:
            with self._world.lock:
                self._on_the_way.remove(delivery)
        return delivery
