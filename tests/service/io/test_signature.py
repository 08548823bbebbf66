"""Signatures: only who knows a secret can make one."""

from __future__ import annotations

import pytest

from service.webhook import is_signed, sign


def test_the_published_example_of_github_is_accepted() -> None:
    # Source: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    secret, body = b"It's a Secret to Everybody", b"Hello, World!"
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert sign(secret, body) == header
    assert is_signed(header, body, (secret,))


def test_every_secret_of_a_rotation_is_accepted() -> None:
    header = sign(b"the new secret", b"{}")
    assert is_signed(header, b"{}", (b"the old secret", b"the new secret"))
    assert is_signed(header, b"{}", (b"the new secret", b"the old secret"))


@pytest.mark.parametrize(
    "header",
    [None, "", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "sha256=" + "ä" * 64, "SHA256=" + "0" * 64],
)
def test_a_missing_or_malformed_signature_is_refused(header: str | None) -> None:
    assert not is_signed(header, b"{}", (b"secret",))


def test_a_signature_of_other_bytes_is_refused() -> None:
    assert not is_signed(sign(b"secret", b'{"a": 1}'), b'{"a":1}', (b"secret",))


def test_without_secrets_nothing_is_accepted() -> None:
    assert not is_signed(sign(b"", b"{}"), b"{}", ())
