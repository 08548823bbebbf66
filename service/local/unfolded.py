"""GitHub's markdown as a terminal can show it, which knows no folds, no small print and no line breaks in a cell. Pure."""

from __future__ import annotations

import re

from service.conversation.markdown import fences

_OPENED = re.compile(r"^<details><summary>(.*?)</summary>$")
_HIDDEN = re.compile(r"^</details>$|</?sub>")


def unfolded(markdown: str) -> str:
    """Give a comment with the titles of folded parts in bold and the lines of a cell side by side; code stays as it is."""
    return "\n".join(line if fence else _shown(line) for line, fence in fences(markdown.splitlines()))


def _shown(line: str) -> str:
    return _HIDDEN.sub("", _OPENED.sub(r"**\1**", line).replace("<br>", "; "))
