"""A command line's words, as people type them: quotes of every form, dashes of every length. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

DOUBLE_QUOTES = '"\u201c\u201d\u201e\u201f\u00ab\u00bb'
SINGLE_QUOTES = "'\u2018\u2019\u201a\u201b`"
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ue000\ue001]")
HTML_COMMENT = re.compile(r"<!--.*?(?:-->|$)")
LEADING_DASHES = re.compile(f"[{DASHES}]+(?=[^\\W\\d_])")
ASSIGNMENT = re.compile(r"([^\W\d][\w-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Word:
    """One word: ``text`` without quotes, ``raw`` as it was typed."""

    text: str
    raw: str
    quoted: bool = False


@dataclass(frozen=True)
class OptionWord:
    """``--name``, ``--name=value`` or ``name=value``; ``dashed`` tells the last from the others."""

    name: str
    value: str | None
    dashed: bool


def split_words(line: str) -> list[Word]:
    """Split a line at white space, keeping what stands in quotes together; a quote that is never closed is a letter."""
    text = HTML_COMMENT.sub(" ", INVISIBLE.sub("", line))
    words: list[Word] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        word, position = _next_word(text, position)
        words.append(word)
    return words


def _next_word(text: str, start: int) -> tuple[Word, int]:
    position, plain, quoted = start, "", False
    while position < len(text) and not text[position].isspace():
        end = _closing_quote(text, position) if position == start or text[position - 1] == "=" else None
        if end is None:
            plain += text[position]
            position += 1
        else:
            plain += text[position + 1 : end]
            quoted = quoted or position == start
            position = end + 1
    return Word(plain, text[start:position], quoted), position


def _closing_quote(text: str, start: int) -> int | None:
    for family in (DOUBLE_QUOTES, SINGLE_QUOTES):
        if text[start] in family:
            for end in range(start + 1, len(text)):
                # An apostrophe inside of a word ends nothing.
                if text[end] in family and (end + 1 == len(text) or not text[end + 1].isalnum()):
                    return end
    return None


def read_option(word: Word) -> OptionWord | None:
    """Read a word as an option, whatever its dashes are; None where it is none."""
    if word.quoted:
        return None
    dashes = LEADING_DASHES.match(word.text)
    text = word.text[dashes.end() :] if dashes else word.text
    assigned = ASSIGNMENT.fullmatch(text)
    if assigned:
        return OptionWord(_option_name(assigned[1]), assigned[2], dashes is not None)
    return OptionWord(_option_name(text), None, True) if dashes else None


def _option_name(text: str) -> str:
    return text.lower().replace("_", "-")
