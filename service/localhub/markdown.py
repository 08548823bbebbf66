"""Comments as HTML: GitHub's markdown as far as the conversation uses it, made harmless by the allow-list. Pure."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from service.localhub.sanitize import sanitize

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
