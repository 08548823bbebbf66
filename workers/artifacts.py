"""A door: bytes by digest, such as snapshots, plots and logs."""

from __future__ import annotations

import json
from typing import Any

from workers.contracts import JobState, JobView
from workers.runtime import current
from workers.store.blobs import BlobError

__all__ = ["BlobError", "get", "put", "rehearse", "report_of"]


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


def report_of(job: JobView) -> Any:
    """The summary of a job that is done, as JSON; None where it has none, or it was removed.

    Raises:
        BlobError: its bytes are missing or damaged.
    """
    report = next((one for one in job.artifacts if one.name == "report.json"), None)
    return None if report is None or job.state is not JobState.done else json.loads(get(report.digest))


def rehearse() -> None:
    """Have the store write what it writes of an artifact, and remove it again."""
    current().blobs.rehearse()
