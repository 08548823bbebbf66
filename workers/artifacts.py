"""A door: bytes by digest, such as snapshots, plots and logs."""

from __future__ import annotations

from workers.runtime import current
from workers.store.blobs import BlobError

__all__ = ["BlobError", "get", "put", "rehearse"]


def put(content: bytes, media_type: str = "application/octet-stream") -> str:
    """Keep bytes and give their digest. The media type is kept with whatever names the digest, not here."""
    del media_type
    return current().blobs.put(content)


def get(digest: str) -> bytes:
    """The bytes of a digest.

    Raises:
        BlobError: it is no digest, or its bytes are missing or damaged.
    """
    return current().blobs.get(digest)


def rehearse() -> None:
    """Have the store write what it writes of an artifact, and remove it again."""
    current().blobs.rehearse()
