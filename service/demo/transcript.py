"""A conversation on localhub as one markdown file. Pure."""

from __future__ import annotations

from service.localhub.conversation import CommentEntry, CommitEntry, Entry, OpeningEntry, ReviewEntry

STATES = {"APPROVED": "approved", "CHANGES_REQUESTED": "requested changes", "COMMENTED": "commented"}


def transcript(parts: list[tuple[str, list[Entry]]]) -> str:
    """Give conversations, each with its title, entry after entry."""
    return "\n".join(f"# {title}\n\n" + "\n".join(_entry(entry) for entry in entries) for title, entries in parts)


def headline(entry: Entry) -> str:
    """Give an entry in one line."""
    return f"{entry.by} {_did(entry)}{_first_line(entry)}"


def _entry(entry: Entry) -> str:
    body = getattr(entry, "body", "") or ""
    return f"**{entry.by}** {_did(entry)}  \n\n{_quoted(body)}" if body else f"**{entry.by}** {_did(entry)}\n"


def _did(entry: Entry) -> str:
    if isinstance(entry, OpeningEntry):
        return f"opened «{entry.title}»"
    if isinstance(entry, CommentEntry):
        return "commented" + (" (edited)" if entry.edited else "") + (" (minimised)" if entry.minimized else "")
    if isinstance(entry, ReviewEntry):
        return f"{STATES.get(entry.state, entry.state.lower())} at {entry.commit_id[:7]}"
    if isinstance(entry, CommitEntry):
        return f"committed {entry.sha[:7]} {entry.message.splitlines()[0]}"
    return f"{entry.kind.replace('_', ' ')} {entry.detail}".rstrip()


def _first_line(entry: Entry) -> str:
    lines = [line for line in (getattr(entry, "body", "") or "").splitlines() if line and not line.startswith("<!--")]
    return f": {lines[0][:140]}" if lines and not isinstance(entry, OpeningEntry) else ""


def _quoted(body: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in body.strip().splitlines()) + "\n"
