"""The signature of a webhook: HMAC-SHA256 over the raw bytes. Pure."""

from __future__ import annotations

import hashlib
import hmac
import re

PREFIX = "sha256="
_FORM = re.compile(r"sha256=[0-9a-f]{64}")


def sign(secret: bytes, body: bytes) -> str:
    """Give the value of ``X-Hub-Signature-256`` for a body."""
    return PREFIX + hmac.new(secret, body, hashlib.sha256).hexdigest()


def is_signed(header: str | None, body: bytes, secrets: tuple[bytes, ...]) -> bool:
    """Tell whether a body was signed with one of the secrets; every one is tried, in constant time.

    Source: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    if header is None or _FORM.fullmatch(header) is None:
        return False
    matches = [hmac.compare_digest(sign(secret, body), header) for secret in secrets]
    return any(matches)
