"""Makes text from people, models, candidates and repositories safe to echo in a GitHub comment.

GitHub links mentions, issue numbers, addresses and commits after it has rendered markdown, so a backslash or an entity does
not stop it; a zero-width space between the sign and the word does, and so does a code span.
Source: https://docs.github.com/en/get-started/writing-on-github/working-with-advanced-formatting/autolinked-references-and-urls
"""

from __future__ import annotations

import re
import unicodedata

from workers.redaction import redact

BREAK = "&#8203;"  # a zero-width space that can be seen in the comment's source
INLINE_LIMIT = 300
SENTENCE_LIMIT = 1_200  # the longest of ours, on a host without isolation, has 700 with the kernel's words
CODE_LIMIT = 120
BLOCK_LIMIT = 12_000
EMPTY = "(empty)"

MARKDOWN = re.compile(r"([\\`*_{}\[\]()!~])")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", '"': "&quot;", "$": "&#36;"}
LINE_START = re.compile(r"[-+=#]|\d{1,9}\.")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)([^`]+)(?<!`)\1(?!`)")
# Letters and marks that nothing is drawn for: a text could be carried in them unseen (Unicode: Default_Ignorable_Code_Point).
BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0000-\U000e0fff]")
SELECTORS = "\ufe0e\ufe0f"  # of a sign's picture; people write them with every second emoji
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
MARKS = re.compile(f"({_MARK}{{3}}){_MARK}+")  # more on one letter than any language has are drawn over other lines
# What GitHub turns into links, each with the place where a break stops it.
AUTOLINKS = (
    (re.compile(r"@(?=[A-Za-z0-9])"), f"@{BREAK}"),
    (re.compile(r"#(?=[0-9])"), f"#{BREAK}"),
    (re.compile(r"(?i)(?<![a-z0-9])(GH)-(?=\d)"), rf"\1{BREAK}-"),
    (re.compile(r":(?=//)"), f":{BREAK}"),
    (re.compile(r"(?i)(?<![a-z0-9])(mailto|xmpp|javascript|data):"), rf"\1{BREAK}:"),
    (re.compile(r"(?i)(?<![a-z0-9])(www)\.(?=\S)"), rf"\1{BREAK}."),
    (re.compile(r"(?i)(?<![a-z0-9])(CVE|GHSA)-(?=\w)"), rf"\1{BREAK}-"),
    (re.compile(r":(?=[a-z0-9_+-]+:)"), f":{BREAK}"),
)
# Words in a commit's message or a title that keep a pull request's checks from running, such as [skip ci] or skip-checks: true.
# Source: https://docs.github.com/en/actions/how-tos/manage-workflow-runs/skip-workflow-runs
SKIPPING = re.compile(r"(?i)(?<![a-z0-9])(skip|no|ci|actions)(?=[ _-](?:ci|skip|actions|checks)(?![a-z0-9]))")
# Seven hexadecimal digits are a commit to GitHub.
COMMIT = re.compile(
    r"(?<![0-9A-Za-z_])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,}(?![0-9A-Za-z_])", re.IGNORECASE | re.ASCII
)


def inline(text: str, limit: int = INLINE_LIMIT) -> str:
    """Text as one line of prose with the same letters and no markup; good inside of a table too."""
    shown = clip(one_line(text), limit)
    return _dead(shown) or EMPTY


def code(text: str, limit: int = CODE_LIMIT) -> str:
    """Text as one inline code span; good inside of a table too."""
    shown = clip(one_line(text), limit)
    if not shown:
        return EMPTY
    if "|" in shown or "\\" in shown:
        # A table splits at a pipe even in a code span, and cannot tell an escaped backslash from an escaped pipe.
        return f"<code>{_entities(shown)}</code>"
    fence = "`" * (longest_run(shown) + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def sentence(text: str, limit: int = SENTENCE_LIMIT) -> str:
    """A sentence of ours that holds code spans and may hold foreign text: the spans stay, the rest is prose."""
    shown = clip(one_line(text), limit)
    parts, end = [], 0
    for span in CODE_SPAN.finditer(shown):
        parts += [_dead(shown[end : span.start()], first=end == 0), code(span[2], limit)]
        end = span.end()
    parts.append(_dead(shown[end:], first=end == 0))
    return "".join(parts) or EMPTY


def label(text: str, limit: int = INLINE_LIMIT) -> str:
    """Text as one line for inside of an HTML element such as ``summary``, where markdown is not read."""
    shown = _unlinked(clip(one_line(text), limit))
    return "".join(BREAK if c == "\u200b" else _entities(c) for c in shown) or EMPTY


def code_block(text: str, language: str = "", limit: int = BLOCK_LIMIT) -> str:
    """Text as a fenced block whose fence is longer than any in it, shortened in the middle where it is too long."""
    shown = clean(text).strip("\n")
    if len(shown) > limit:
        half = limit // 2
        left_out = len(shown) - 2 * half
        shown = f"{shown[:half]}\n… {left_out} characters left out …\n{shown[-half:]}"
    fence = "`" * max(3, longest_run(shown) + 1)
    return f"{fence}{re.sub(r'[^a-z0-9+-]', '', language)}\n{shown}\n{fence}"


def plain(text: str, limit: int = INLINE_LIMIT) -> str:
    """Text as one line for where nothing is rendered: titles, commit messages, check runs' titles.

    GitHub reads references in these too, and a commit message closes issues and skips checks. Ids and digests stay whole.
    """
    return SKIPPING.sub("\\1\u200b", _without_references(clip(one_line(text), limit))) or EMPTY


def clip(text: str, limit: int) -> str:
    """Text of at most ``limit`` characters, with an ellipsis where some are missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Text without invisible characters, with every run of white space as one space."""
    return " ".join(clean(text).split())


def clean(text: str) -> str:
    """Text without secrets, with one kind of line ending; what is invisible or reorders what is read is shown by its code."""
    lines = redact(text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(map(_visible, MARKS.sub(r"\1", lines)))


def longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _visible(character: str) -> str:
    if character in SELECTORS:
        return ""
    if BLANK.match(character):
        return f"\\u{ord(character):04x}"
    if character in "\n\t" or character.isprintable():
        return character
    kind = unicodedata.category(character)
    if kind in ("Zs", "Zl", "Zp"):
        return " "
    if kind == "Cs":
        return "\ufffd"
    return f"\\u{ord(character):04x}" if kind in ("Cc", "Cf", "Co", "Cn") else character


def _dead(text: str, *, first: bool = True) -> str:
    """One line without markup and without anything that links; ``first``: it may stand at the start of a line."""
    text = _unlinked(text)
    start = LINE_START.match(text) if first else None
    if start:
        text = f"{text[: start.end() - 1]}\ue000{text[start.end() - 1 :]}"
    text = MARKDOWN.sub(r"\\\1", text)
    text = "".join(ENTITIES.get(character, character) for character in text)
    return text.replace("\ue000", "\\").replace("\u200b", BREAK)


def _unlinked(text: str) -> str:
    return COMMIT.sub(lambda match: "\u200b".join(re.findall(r".{1,6}", match[0])), _without_references(text))


def _without_references(text: str) -> str:
    # Breaks are put in as a character first: entities hold signs that would be escaped.
    for pattern, broken in AUTOLINKS:
        text = pattern.sub(broken.replace(BREAK, "\u200b"), text)
    return text


def _entities(text: str) -> str:
    """Text with every sign as an entity, for inside of an HTML element in markdown."""
    return "".join(c if c.isalnum() or c in " .,-/" else f"&#{ord(c)};" for c in text)
