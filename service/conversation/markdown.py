"""The forms that messages are made of: tables, folded parts, and the length that GitHub takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

GITHUB_LIMIT = 65_536
NOTE = "*The rest is left out: GitHub takes no longer comment. The job's page has all of it.*"
FENCE = re.compile(r"(`{3,})([^`]*)$")


def paragraphs(*parts: str) -> str:
    """Give parts with an empty line between them; empty parts are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def bullets(items: Sequence[str]) -> str:
    """Give a list."""
    return "\n".join(f"- {item}" for item in items)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """Give a table; ``numeric`` columns stand to the right. Cells are markdown already, without pipes or line breaks."""
    if not rows:
        return ""
    rule = ["---:" if column in numeric else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def folded(summary: str, body: str) -> str:
    """Give a part that opens on a click; nothing where there is no body. ``summary`` is plain text of ours."""
    return f"<details><summary>{summary}</summary>\n\n{body.strip()}\n\n</details>" if body.strip() else ""


def length(text: str) -> int:
    """Give the length as GitHub may count it: in UTF-16 units, of which a sign beyond the basic plane takes two."""
    return len(text) + sum(character > "\uffff" for character in text)


def fit(body: str, tail: str = "", limit: int = GITHUB_LIMIT) -> str:
    """Give a message that ends with ``tail`` and is at most as long as GitHub takes; what was open is closed."""
    end = f"\n\n{tail}" if tail else ""
    if length(body) + length(end) <= limit:
        return body.rstrip() + end
    # The closing lines of what is open take a little more than the note.
    room = limit - length(end) - length(NOTE) - 400
    kept = _kept(body, room)
    return paragraphs(kept + _closing(kept), NOTE) + end


def _kept(body: str, room: int) -> str:
    kept: list[str] = []
    for line in body.split("\n"):
        room -= length(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def fences(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give each line with the fence of the code block that it belongs to: empty outside of code, and on the line that ends it."""
    fence = ""
    for line in lines:
        found = FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and len(found[1]) >= len(fence) and not found[2].strip():
            fence = ""
        yield line, fence


def _closing(text: str) -> str:
    folds, fence = 0, ""
    for line, fence in fences(text.split("\n")):
        folds += 0 if fence else line.count("<details>") - line.count("</details>")
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * folds
