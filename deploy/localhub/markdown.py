"""Markdown as GitHub shows it, and HTML without what could run."""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_ALLOWED: dict[str, frozenset[str]] = {
    tag: frozenset(attributes.split())
    for tag, attributes in {
        "a": "href title",
        "b": "",
        "blockquote": "",
        "br": "",
        "code": "class",
        "del": "",
        "details": "open",
        "div": "align",
        "em": "",
        "h1": "",
        "h2": "",
        "h3": "",
        "h4": "",
        "h5": "",
        "h6": "",
        "hr": "",
        "i": "",
        "img": "src alt title width height",
        "input": "type checked disabled",
        "kbd": "",
        "li": "class",
        "ol": "start",
        "p": "align",
        "picture": "",
        "pre": "",
        "s": "",
        "strong": "",
        "sub": "",
        "summary": "",
        "sup": "",
        "table": "",
        "tbody": "",
        "td": "style align",
        "th": "style align",
        "thead": "",
        "tr": "",
        "ul": "class",
    }.items()
}
_VOID = frozenset({"br", "hr", "img", "input"})
_DROPPED_WITH_CONTENT = frozenset(
    {"script", "style", "template", "iframe", "object", "noscript", "svg", "math", "title"}
)
_ALIGNMENTS = frozenset({"text-align:left", "text-align:right", "text-align:center"})
_CLASSES = frozenset({"task-item", "task-list"})


def sanitize(html: str, image_root: str) -> str:
    """The same text with nothing but allowed tags; images only from ``image_root`` or a path of this host."""
    cleaner = _Cleaner(image_root)
    cleaner.feed(html)
    cleaner.close()
    return cleaner.finish()


class _Cleaner(HTMLParser):
    def __init__(self, image_root: str) -> None:
        super().__init__(convert_charrefs=True)
        self._image_root = image_root
        self._parts: list[str] = []
        self._open: list[str] = []
        self._dropping: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _DROPPED_WITH_CONTENT:
            self._dropping.append(tag)
        if self._dropping or tag not in _ALLOWED:
            return
        kept = self._attributes(tag, attrs)
        if kept is None:
            return
        written = "".join(f' {name}="{escape(value)}"' for name, value in kept)
        self._parts.append(f"<{tag}{written}>")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _DROPPED_WITH_CONTENT:
            if tag in self._dropping:
                del self._dropping[self._dropping.index(tag) :]
            return
        if self._dropping or tag not in self._open:
            return
        while self._open:
            closed = self._open.pop()
            self._parts.append(f"</{closed}>")
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if not self._dropping:
            self._parts.append(escape(data))

    def finish(self) -> str:
        return "".join(self._parts) + "".join(f"</{tag}>" for tag in reversed(self._open))

    def _attributes(self, tag: str, given: list[tuple[str, str | None]]) -> list[tuple[str, str]] | None:
        """The attributes that stay; None where the tag must not stay either."""
        values = {name: value or "" for name, value in given if name in _ALLOWED[tag]}
        if tag == "a" and not _is_safe_link(values.get("href", "")):
            values.pop("href", None)
        if tag == "img" and not self._is_own(values.get("src", "")):
            # An image from elsewhere would tell a stranger who reads this page.
            self._parts.append(escape(values.get("alt", "")))
            return None
        if tag == "input" and (values.get("type") != "checkbox" or "disabled" not in values):
            return None
        if values.get("style", "").replace(" ", "").rstrip(";") not in _ALIGNMENTS:
            values.pop("style", None)
        if "class" in values and values["class"] not in _CLASSES and not values["class"].startswith("language-"):
            values.pop("class")
        kept = list(values.items())
        return [*kept, ("rel", "nofollow noopener noreferrer")] if tag == "a" else kept

    def _is_own(self, source: str) -> bool:
        return source.startswith(f"{self._image_root}/") or (source.startswith("/") and not source.startswith("//"))


def _is_safe_link(target: str) -> bool:
    clean = "".join(target.split()).lower()
    if clean.startswith(("http://", "https://", "mailto:", "#")):
        return True
    return clean.startswith("/") and not clean.startswith(("//", "/\\"))


_TASK = re.compile(r"^\[([ xX])\] ")


def _task_lists(state: StateCore) -> None:
    """Turn ``- [x] done`` into a ticked box that nobody can click."""
    tokens = state.tokens
    for at in range(2, len(tokens)):
        inside = tokens[at - 1].type == "paragraph_open" and tokens[at - 2].type == "list_item_open"
        match = _TASK.match(tokens[at].content) if tokens[at].type == "inline" and inside else None
        children = tokens[at].children
        if match is None or not children:
            continue
        tokens[at - 2].attrSet("class", "task-item")
        children[0].content = _TASK.sub("", children[0].content)
        box = Token("html_inline", "", 0)
        ticked = " checked" if match[1] != " " else ""
        box.content = f'<input type="checkbox" disabled{ticked}> '
        children.insert(0, box)


def _parser(breaks: bool) -> MarkdownIt:
    # HTML passes the parser, because <details> is HTML; what of it reaches the page is for the allow-list to say.
    parser = MarkdownIt("commonmark", {"html": True, "breaks": breaks}).enable(["table", "strikethrough"])
    parser.core.ruler.push("task_lists", _task_lists)
    return parser


_COMMENT = _parser(breaks=True)
_DOCUMENT = _parser(breaks=False)


def render(text: str, image_root: str) -> str:
    """A comment; a line break is a line break, as on GitHub."""
    return sanitize(_COMMENT.render(text), image_root)


def render_document(text: str, image_root: str) -> str:
    """A file such as README.md, whose lines flow."""
    return sanitize(_DOCUMENT.render(text), image_root)
