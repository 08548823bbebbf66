"""Where the commands of a comment stand, and what follows them, read as GitHub reads markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

# What stands inside of these elements is not plain text to the people who read the comment.
HIDING_TAGS = {"a", "blockquote", "code", "del", "details", "kbd", "noscript", "pre", "q", "s", "samp", "script"}
HIDING_TAGS |= {"strike", "style", "summary", "template", "textarea", "title", "tt"}
OPENING = ("link_open", "s_open")
CLOSING = ("link_close", "s_close")
PYTHON = ("python", "python3", "py", "py3")
PROBLEM_MARKS = re.compile(r"^(?:def reference\b|class Model\b)", re.MULTILINE)
MAX_BODY = 65_536
# What nothing is drawn for, or only a space. Keyboards and copied text leave it before the slash or the fence.
UNSEEN = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
UNSEEN += "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
SPACES = "\u00a0\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
BEFORE = re.compile(rf"^( {{0,3}})[{UNSEEN}{SPACES}]+(?=[/\uff0f]kernel|`{{3}}|~{{3}})", re.IGNORECASE | re.MULTILINE)
COMMAND_LINE = re.compile(rf"(?i) {{0,3}}/kernel(?=[\s{UNSEEN}]|$)")
WIDE_SLASH = re.compile(r"^( {0,3})\uff0f(?=kernel)", re.IGNORECASE | re.MULTILINE)  # as keyboards for Chinese write it
# Marks the n-th line that may be a command; both characters are taken out of what people write.
MARK = re.compile("/kernel\ue000(\\d+)\ue001", re.IGNORECASE)
MAX_INLINE = 8_000  # characters of one paragraph; a command further on in it is none
UNMARK = re.compile("\ue000\\d+\ue001")


@dataclass(frozen=True)
class Fence:
    """A fenced block; ``line`` is that of its opening fence, from 0."""

    line: int
    language: str
    content: str

    @property
    def is_python(self) -> bool:
        """Whether it is labelled as Python."""
        return self.language in PYTHON

    @property
    def holds_problem(self) -> bool:
        """Whether it looks like a problem."""
        return PROBLEM_MARKS.search(self.content) is not None


@dataclass(frozen=True)
class CommandLines:
    """A comment's lines, the lines that are commands, those that would be if they did not stand in a quote, and the rest."""

    lines: tuple[str, ...]
    commands: tuple[int, ...]
    quoted: tuple[int, ...]
    fences: tuple[Fence, ...]
    hidden: frozenset[int]  # lines of HTML, which nobody sees as text


def outline(body: str) -> CommandLines:
    """Read a comment. Lines count from 0."""
    text = normalise(body)
    lines = text.split("\n")
    possible = [number for number, line in enumerate(lines) if COMMAND_LINE.match(line)]
    marked = list(lines)
    for number in possible:
        marked[number] = re.sub(r"(?i)/kernel", f"/kernel\ue000{number}\ue001", marked[number], count=1)
    tokens = _reader().parse("\n".join(marked))
    plain, quoted = _marked_lines(tokens)
    fences = tuple(_fences(tokens))
    hidden = {n for token in tokens if token.type == "html_block" and token.map for n in range(*token.map)}
    return CommandLines(tuple(lines), tuple(sorted(plain)), tuple(sorted(quoted)), fences, frozenset(hidden))


def normalise(body: str) -> str:
    """A comment with one kind of line ending, at most as long as GitHub lets it be."""
    text = body[:MAX_BODY].replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd")
    text = text.replace("\ue000", "\ufffd").replace("\ue001", "\ufffd")
    return WIDE_SLASH.sub(r"\1/", BEFORE.sub(r"\1", text))


def find_problem_block(body: str) -> str | None:
    """The last fenced Python block of a text that looks like a problem, else the last one, else an unlabelled problem."""
    fences = tuple(_fences(_reader().parse(normalise(body))))
    return choose_problem(fences, last=True)


def choose_problem(fences: Iterable[Fence], *, last: bool) -> str | None:
    """The block that most likely is the problem, the last or the first of its kind."""
    ordered = list(fences)[:: -1 if last else 1]
    python = [fence for fence in ordered if fence.is_python]
    unlabelled = [fence for fence in ordered if not fence.language and fence.holds_problem]
    for kind in ([fence for fence in python if fence.holds_problem], python, unlabelled):
        if kind:
            return kind[0].content
    return None


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    reader.core.ruler.at("inline", _read_inline)
    return reader


def _read_inline(state: StateCore) -> None:
    """Read the text of paragraphs and the like, as far as it can hold a command or hide one.

    That takes the square of its length, for whoever may comment: 2 s of 65,000 opening brackets.
    """
    for token in state.tokens:
        if token.type == "inline" and ("<" in token.content or "/kernel\ue000" in token.content.lower()):
            token.children = []
            state.md.inline.parse(token.content[:MAX_INLINE], state.md, state.env, token.children)


def _fences(tokens: list[Token]) -> Iterator[Fence]:
    quotes = 0
    for token in tokens:
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "fence" and token.map and not quotes:
            label = UNMARK.sub("", token.info).split()
            language = re.split(r"[{,:;]", label[0].lower())[0] if label else ""
            yield Fence(token.map[0], language, UNMARK.sub("", token.content))


def _marked_lines(tokens: list[Token]) -> tuple[set[int], set[int]]:
    plain: set[int] = set()
    quoted: set[int] = set()
    quotes = 0
    tags = _Tags()
    parent = ""
    for token in tokens:
        quotes += {"blockquote_open": 1, "blockquote_close": -1}.get(token.type, 0)
        if token.type == "html_block":
            tags.follow(token.content)
        elif token.type == "inline" and parent in ("paragraph_open", "heading_open"):
            starts = set(_line_starts(token.children or [], tags))
            (quoted if quotes else plain).update(starts)
        parent = token.type
    return plain, quoted


def _line_starts(children: list[Token], tags: _Tags) -> Iterator[int]:
    """The marks that stand at the start of a line as plain text."""
    depth, at_start = 0, True
    for child in children:
        if child.type == "text":
            mark = MARK.match(child.content.lstrip(" ")) if at_start and not depth and not tags.hides else None
            if mark:
                yield int(mark[1])
            at_start = at_start and not child.content.strip()
        elif child.type in ("softbreak", "hardbreak"):
            at_start = True
        elif child.type == "html_inline":
            tags.follow(child.content)
            at_start = False
        else:
            depth += (child.type in OPENING) - (child.type in CLOSING)
            at_start = at_start and child.type.endswith("_open")


class _Tags(HTMLParser):
    """What is open and hides text, by the HTML so far: elements, a comment, a tag that never ends."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self._open: list[str] = []
        self._unended = False

    @property
    def hides(self) -> bool:
        """Whether text that follows is seen by nobody, or not as plain text."""
        return bool(self._open) or self._unended or self.rawdata.startswith("<")

    def follow(self, html: str) -> None:
        """Read the next piece of HTML; between two pieces there is text."""
        # Whole comments to HTML 5, and beginnings of one to html.parser before 3.13.6.
        self.feed(html.replace("<!-->", "<!-- -->").replace("<!--->", "<!-- -->"))
        # Only a comment goes on over text.
        self._unended = self._unended or (self.rawdata.startswith("<") and not self.rawdata.startswith("<!--"))

    def handle_starttag(self, tag: str, _attributes: list[tuple[str, str | None]]) -> None:
        if tag in HIDING_TAGS:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Browsers do not see the slash in `<details/>`.
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]
