"""The webhook: checks a delivery, keeps it durably, and only then answers. Nothing in it is parsed here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from service.metrics import WEBHOOKS
from service.signature import is_signed

BODY_LIMIT_BYTES = 25 * 1000 * 1000  # GitHub sends no payload larger than 25 MB
BODY_TIME_S = 30.0  # GitHub itself gives up after ten seconds
_DELIVERY_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_EVENT = re.compile(r"[a-z_]{1,64}")

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Intake:
    """What the webhook needs: the secrets, which events are kept, and where."""

    secrets: tuple[bytes, ...]
    handles: Callable[[str], bool]
    record: Callable[[str, str, bytes], bool]
    wake: Callable[[], None]


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def webhook_router(intake: Intake) -> APIRouter:
    """Give the route of the webhook."""
    router = APIRouter()

    @router.post("/webhook")
    async def webhook(request: Request) -> Response:
        try:
            status, outcome = await _accept(request, intake)
        except _RefusedError as refused:
            log.warning("webhook_refused", status=refused.status, reason=refused.reason)
            status, outcome = refused.status, refused.reason
        WEBHOOKS.labels(status=str(status)).inc()
        return JSONResponse({"outcome": outcome}, status_code=status)

    return router


async def _accept(request: Request, intake: Intake) -> tuple[int, str]:
    body = await _read(request)
    if not is_signed(request.headers.get("x-hub-signature-256"), body, intake.secrets):
        raise _RefusedError(401, "the signature is missing or wrong; check the webhook's secret")
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise _RefusedError(415, "set the webhook's content type to application/json")
    delivery_id = request.headers.get("x-github-delivery", "")
    event = request.headers.get("x-github-event", "")
    if _DELIVERY_ID.fullmatch(delivery_id) is None or _EVENT.fullmatch(event) is None:
        raise _RefusedError(400, "X-GitHub-Delivery or X-GitHub-Event is missing or malformed")
    if event == "ping":
        return 200, "pong"
    if not intake.handles(event):
        return 202, "ignored"
    created = await run_in_threadpool(intake.record, delivery_id, event, body)
    log.info("delivery_recorded", delivery_id=delivery_id, github_event=event, new=created)
    intake.wake()
    return 202, "accepted" if created else "already known"


async def _read(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > BODY_LIMIT_BYTES:
        raise _RefusedError(413, "the body is larger than 25 MB")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIME_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_LIMIT_BYTES:
                    raise _RefusedError(413, "the body is larger than 25 MB")
    except TimeoutError as error:
        raise _RefusedError(408, "the body took too long") from error
    except ClientDisconnect as error:
        raise _RefusedError(400, "the sender went away") from error
    return bytes(body)
