"""The webhook: a signature, a bound on the body, and one row for what GitHub delivered."""

from __future__ import annotations

import asyncio
import hmac
import re
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from service.media_types import content_type
from service.metrics import DELIVERIES, WEBHOOKS
from workers.inbox import NewDelivery, trouble_of

PREFIX = "sha256="
_FORM = re.compile(r"sha256=[0-9a-f]{64}")


def sign(secret: bytes, body: bytes) -> str:
    """The value of ``X-Hub-Signature-256`` for a body."""
    return PREFIX + hmac.digest(secret, body, "sha256").hex()


def is_signed(header: str | None, body: bytes, secrets: tuple[bytes, ...]) -> bool:
    """Whether a body was signed with one of the secrets; every one is tried, in constant time.

    Source: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    if header is None or _FORM.fullmatch(header) is None:
        return False
    matches = [hmac.compare_digest(sign(secret, body), header) for secret in secrets]
    return any(matches)


BATCH_BYTES = 32_000_000  # of one transaction, where more than one delivery waits
QUIET_S = 0.02  # after which no more deliveries are expected to come at once
GIVE_WAY_S = 0.5  # the longest that anything else waits for that

Waiting = tuple[NewDelivery, asyncio.Future[bool]]


class Recorder:
    """Many tasks of an event loop ask it to keep deliveries; its one thread is the only one that waits for the disk.

    ``write`` reads the deliveries once its transaction has begun, so that what comes while it waits for its turn is in it too.
    """

    def __init__(self, write: Callable[[Iterable[NewDelivery]], Sequence[bool]]) -> None:
        self.name = "recorder"
        self._write = write
        self._waiting: deque[Waiting] = deque()
        self._some = threading.Condition()
        self._closed = False
        self._asked_s = -QUIET_S
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Write what waits, and end; tell whether that came in time."""
        with self._some:
            self._closed = True
            self._some.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def record(self, delivery: NewDelivery) -> asyncio.Future[bool]:
        """Have a delivery kept; whether it is new is the result once it is durable. What is cancelled in time is left out."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with self._some:
            self._asked_s = time.monotonic()
            self._waiting.append((delivery, future))
            self._some.notify()
        return future

    def give_way(self) -> None:
        """Wait for a pause in what comes, though not for long: who handles deliveries competes with those that still arrive."""
        end_s = time.monotonic() + GIVE_WAY_S
        while (now_s := time.monotonic()) < min(end_s, self._asked_s + QUIET_S):
            time.sleep(min(end_s, self._asked_s + QUIET_S) - now_s)

    def _run(self) -> None:
        while self._is_asked():
            batch: list[Waiting] = []
            try:
                new = self._write(self._taken(batch))
            # The boundary of the thread: each of those who wait hears of it, and says so with its answer.
            except Exception as error:  # noqa: BLE001
                if not batch:
                    list(self._taken(batch))  # it failed before it read what waits
                _answer(batch, [error] * len(batch))
            else:
                _answer(batch, new)

    def _is_asked(self) -> bool:
        """Wait until something does; False at the end."""
        with self._some:
            self._some.wait_for(lambda: self._waiting or self._closed)
            return bool(self._waiting)

    def _taken(self, batch: list[Waiting]) -> Iterator[NewDelivery]:
        """What waits, as far as its senders still do; put into ``batch`` too."""
        size = 0
        with self._some:
            while self._waiting and (not batch or size + len(self._waiting[0][0].payload) <= BATCH_BYTES):
                delivery, future = self._waiting.popleft()
                if not future.cancelled():
                    batch.append((delivery, future))
                    size += len(delivery.payload)
        yield from [delivery for delivery, _ in batch]


def _answer(batch: list[Waiting], results: Sequence[bool | Exception]) -> None:
    """Resolve the futures of a batch in their event loop, which is woken once."""

    def resolve() -> None:
        for (_, future), result in zip(batch, results, strict=True):
            if future.cancelled():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

    if batch:
        batch[0][1].get_loop().call_soon_threadsafe(resolve)


BODY_LIMIT_BYTES = 25 * 1000 * 1000  # GitHub sends no payload larger than 25 MB
BODY_TIME_S = 10.0  # GitHub itself gives up after ten seconds
KEEP_S = 8.0  # for the same reason
RETRY_AFTER_S = 60
SMALL_BYTES = 1_000_000
HELD_BYTES = 200_000_000  # of bodies larger than the small ones
_DELIVERY_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_EVENT = re.compile(r"[a-z_]{1,64}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Intake:
    """What the webhook needs: the secrets, which events are kept, which of them ask for nothing, and where they are kept."""

    secrets: tuple[bytes, ...]
    handles: Callable[[str], bool]
    settled: Callable[[str, bytes], str | None]  # what came of it, where that can be told at once
    record: Callable[[NewDelivery], Awaitable[bool]]
    wake: Callable[[], None]


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class _NotKeptError(Exception):
    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fix = fix


def webhook_route(intake: Intake) -> Route:
    """The route of the webhook: one of Starlette, since FastAPI reads no parameters here and takes its time for that."""
    bodies = _Bodies()

    async def webhook(request: Request) -> Response:
        headers: dict[str, str] = {}
        try:
            status, outcome = await _accept(request, intake, bodies)
        except _RefusedError as refused:
            log.warning("webhook_refused", status=refused.status, reason=refused.reason)
            status, outcome = refused.status, refused.reason
        except _NotKeptError as error:
            log.error("delivery_not_kept", error=error.detail, fix=error.fix, delivery_id=_delivery_id(request))
            status, outcome = 503, f"the delivery could not be kept: {error.detail}"
        # The boundary of the webhook: a fault of ours is counted and answered like any other reason why nothing was kept.
        except Exception:
            log.exception("webhook_fault", delivery_id=_delivery_id(request))
            status, outcome = 500, "a fault of the bot's own"
        if status >= 500:
            headers["retry-after"] = str(RETRY_AFTER_S)
        WEBHOOKS.labels(status=str(status)).inc()
        return JSONResponse({"outcome": outcome}, status, headers)

    return Route("/webhook", webhook, methods=["POST"])


async def _accept(request: Request, intake: Intake, bodies: _Bodies) -> tuple[int, str]:
    body = await bodies.read(request)
    if not is_signed(request.headers.get("x-hub-signature-256"), body, intake.secrets):
        raise _RefusedError(401, "the signature is missing or wrong; check the webhook's secret")
    if content_type(request.headers.get("content-type", "")) != "application/json":
        raise _RefusedError(415, "set the webhook's content type to application/json")
    delivery_id, event = _delivery_id(request), request.headers.get("x-github-event", "")
    if _DELIVERY_ID.fullmatch(delivery_id) is None or _EVENT.fullmatch(event) is None:
        raise _RefusedError(400, "X-GitHub-Delivery or X-GitHub-Event is missing or malformed")
    if event == "ping":
        return 200, "pong"
    if not intake.handles(event):
        return 202, "ignored"
    outcome = intake.settled(event, body)
    created = await _kept(intake, NewDelivery(delivery_id, event, body, outcome))
    if outcome is None:
        log.info("delivery_recorded", delivery_id=delivery_id, github_event=event, new=created)
        intake.wake()
    elif created:
        DELIVERIES.labels(event=event, outcome="handled").inc()
    return 202, "accepted" if created else "already known"


async def _kept(intake: Intake, delivery: NewDelivery) -> bool:
    try:
        async with asyncio.timeout(KEEP_S):
            return await intake.record(delivery)
    except TimeoutError as error:
        fix = "see what holds the database: a process that locks it, its disk, or the way to it"
        raise _NotKeptError(f"the database took longer than {KEEP_S:.0f} s", fix) from error
    except Exception as error:
        trouble = trouble_of(error)
        if trouble is None:
            raise
        raise _NotKeptError(trouble.detail, trouble.fix) from error


def _delivery_id(request: Request) -> str:
    return request.headers.get("x-github-delivery", "")


class _Bodies:
    """The bodies that are being read. Only so many bytes of large ones are taken at once; small ones always have room."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """Read a body while its size and its time allow."""
        declared = request.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and (len(declared) > 9 or int(declared) > BODY_LIMIT_BYTES):
            raise _RefusedError(413, "the body is larger than 25 MB")
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_TIME_S):
                async for chunk in request.stream():
                    body += chunk
                    self._held += len(chunk)
                    if len(body) > BODY_LIMIT_BYTES:
                        raise _RefusedError(413, "the body is larger than 25 MB")
                    if len(body) > SMALL_BYTES and self._held > HELD_BYTES:
                        raise _RefusedError(503, "too many large bodies at once")
        except TimeoutError as error:
            raise _RefusedError(408, "the body took too long") from error
        except ClientDisconnect as error:
            raise _RefusedError(400, "the sender went away") from error
        finally:
            self._held -= len(body)
        return bytes(body)
