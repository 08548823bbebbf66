"""GitHub's markdown as a terminal can show it, which knows no folds, no small print and no line breaks in a cell. Pure."""

from __future__ import annotations

import re

from service.conversation.markdown import FENCE

_OPENED = re.compile(r"^<details><summary>(.*?)</summary>$")
_SMALL = re.compile(r"</?sub>")


def unfolded(markdown: str) -> str:
    """Give a comment with the titles of folded parts in bold and the lines of a cell side by side; code stays as it is."""
    kept, fence = [], ""
    for line in markdown.splitlines():
        found = FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and len(found[1]) >= len(fence) and not found[2].strip():
            fence = ""
        elif not fence:
            line = _OPENED.sub(r"**\1**", line).replace("<br>", "; ")
            line = _SMALL.sub("", line) if line != "</details>" else ""
        kept.append(line)
    return "\n".join(kept)
