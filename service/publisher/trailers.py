"""The trailer by which the bot finds its own commits again. Pure."""

from __future__ import annotations

import re

UPDATE = "Kernelsmith-Update"
_TRAILER = re.compile(r"[A-Za-z][A-Za-z-]*: \S.*")


def with_trailer(message: str, update_id: str) -> str:
    """Give a commit message that names the update it was made for, on its last line."""
    text = message.rstrip()
    body, _, last = text.rpartition("\n")
    gap = "\n" if body and _TRAILER.fullmatch(last) else "\n\n"
    return f"{text}{gap}{UPDATE}: {update_id}\n"


def is_commit_of(message: str, update_id: str) -> bool:
    """Tell whether a commit was made for an update; only its last line counts."""
    return message.rstrip().rpartition("\n")[2] == f"{UPDATE}: {update_id}"
