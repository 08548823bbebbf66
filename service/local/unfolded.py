"""GitHub's markdown as a terminal can show it, which knows no folds, no small print and no line breaks in a cell. Pure."""

from __future__ import annotations

from html.parser import HTMLParser

from service.report.layout import fences

_SHOWN = {"summary": "**", "br": "; "}


def unfolded(markdown: str) -> str:
    """Give a comment with the titles of folded parts in bold and the lines of a cell side by side; code stays as it is."""
    return "\n".join(line if fence else _shown(line) for line, fence in fences(markdown.splitlines()))


def _shown(line: str) -> str:
    reader = _Line()
    reader.feed(line)
    reader.close()
    return "".join(reader.parts)


class _Line(HTMLParser):
    """One line of a comment of ours; what no terminal knows is left out, and entities stay for markdown to read."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, _attributes: list[tuple[str, str | None]]) -> None:
        self.parts.append(_SHOWN.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(_SHOWN.get(tag, ""))

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")
