"""The values of git's objects, and commits to and from their raw form. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

_PERSON = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^>]*)> (?P<seconds>\d+) (?P<zone>[+-]\d{4})$")


@dataclass(frozen=True)
class Signature:
    """Who made a commit, and when."""

    name: str
    email: str
    at: datetime

    def raw(self) -> str:
        """As a line of a commit object holds it; what would break the line is taken out, as git does."""
        name = re.sub(r"[<>\n\0]", "", self.name).strip() or "unknown"
        email = re.sub(r"[<>\n\0]", "", self.email).strip()
        return f"{name} <{email}> {int(self.at.timestamp())} {self.at.strftime('%z') or '+0000'}"


@dataclass(frozen=True)
class CommitData:
    """A commit; ``sha`` is empty for one that is yet to be written."""

    tree: str
    parents: tuple[str, ...]
    message: str
    author: Signature
    committer: Signature
    sha: str = ""

    def raw(self) -> bytes:
        """The content of the commit object."""
        lines = [f"tree {self.tree}", *(f"parent {parent}" for parent in self.parents)]
        lines += [f"author {self.author.raw()}", f"committer {self.committer.raw()}", "", self.message]
        return "\n".join(lines).encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class TreeEntry:
    """An entry of a tree; ``sha`` None removes it. ``size`` None for what is no blob."""

    path: str
    mode: str
    type: str
    sha: str | None
    size: int | None = None


def parse_commit(sha: str, raw: bytes) -> CommitData:
    """A commit from the content of its object; headers that are not used here, such as signatures, are skipped."""
    head, _, message = raw.decode("utf-8", "surrogateescape").partition("\n\n")
    fields: dict[str, list[str]] = {}
    for line in head.split("\n"):
        key, _, value = line.partition(" ")
        fields.setdefault(key, []).append(value)
    return CommitData(
        tree=fields["tree"][0],
        parents=tuple(fields.get("parent", [])),
        message=message,
        author=_parse_signature(fields["author"][0]),
        committer=_parse_signature(fields["committer"][0]),
        sha=sha,
    )


def _parse_signature(text: str) -> Signature:
    match = _PERSON.match(text)
    if match is None:
        return Signature("unknown", "", datetime.fromtimestamp(0, UTC))
    zone = match["zone"]
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5])) * (-1 if zone[0] == "-" else 1)
    at = datetime.fromtimestamp(int(match["seconds"]), timezone(offset))
    return Signature(match["name"], match["email"], at)
