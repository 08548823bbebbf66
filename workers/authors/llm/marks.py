"""Texts of others in a prompt: each between marks that it cannot close, labelled, cut at its kind's limit. Pure.

The boundary of a pair of marks is a digest of what stands between them, and is drawn again for as long as the text holds it, so
that no text can end its own quotation, whoever wrote it; the same text always has the same marks, so that prefixes can be cached.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

MOST_ORIGIN = 200  # characters of a label
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
PLAIN = frozenset("\n\t")
CONTROL = re.compile(r"[^\n\t -~]")  # of ASCII


class Kind(StrEnum):
    """What a text is; it stands in the mark."""

    request = "request"
    code = "code"
    review = "review"
    file = "file"
    problem = "problem"
    graph = "graph"
    proposal = "proposal"
    compiled = "compiled kernel"
    evidence = "evidence"
    log = "log"
    measured = "measurement"
    idea = "idea"
    note = "note"


# Characters. A file that is to be edited must be whole, or edits of what was cut would be guesses; so that limit is the largest.
LIMITS = {
    Kind.request: 20_000,
    Kind.code: 60_000,
    Kind.review: 6_000,
    Kind.file: 120_000,
    Kind.problem: 60_000,
    Kind.graph: 12_000,
    Kind.proposal: 80_000,
    Kind.compiled: 60_000,
    Kind.evidence: 6_000,
    Kind.log: 12_000,
    Kind.measured: 12_000,
    Kind.idea: 4_000,
    Kind.note: 4_000,
}
EXAMPLE_CHARACTERS = 40_000  # a file to learn from may be cut, since nothing of it is edited


@dataclass(frozen=True)
class Cut:
    """A text as it is told: whole, or its beginning and end with a word between them that says how much is missing."""

    text: str
    missing: int  # characters


def quoted(kind: Kind, origin: str, text: str, most: int | None = None) -> str:
    """The text between its marks; ``origin`` says where it is from, such as a path, and is data as well."""
    shown = cut(visible(text), LIMITS[kind] if most is None else most).text
    label = f"kind={json.dumps(kind.value)} origin={json.dumps(_line(origin))}"
    boundary = _boundary(f"{label}\n{shown}")
    return f"<<<DATA {boundary} {label}\n{shown}\nDATA {boundary}>>>"


def visible(text: str) -> str:
    """The text with line ends as ``\\n`` and every character that cannot be seen spelt out, such as ``<U+202E>``."""
    lines = text.replace("\r\n", "\n")
    if hidden_in(lines) is None:
        return lines
    return "".join(f"<U+{ord(c):04X}>" if is_hidden(c) else c for c in lines)


def is_hidden(character: str) -> bool:
    """Whether a character cannot be seen, or changes how others are: controls, formats, halves of pairs."""
    return character not in PLAIN and unicodedata.category(character) in HIDDEN


def hidden_in(text: str) -> str | None:
    """The first character of a text that cannot be seen; None where all can."""
    if text.isascii():
        match = CONTROL.search(text)
        return None if match is None else match[0]
    return next((character for character in text if is_hidden(character)), None)


def cut(text: str, most: int) -> Cut:
    """Shorten a text to about ``most`` characters: two thirds from its beginning, one third from its end."""
    missing = len(text) - most
    if missing <= 0:
        return Cut(text, 0)
    head = most * 2 // 3
    tail = text[len(text) - (most - head) :]
    return Cut(f"{text[:head]}\n[... {missing} characters are left out here ...]\n{tail}", missing)


def _line(text: str) -> str:
    return visible(text).replace("\n", " ").replace("\t", " ")[:MOST_ORIGIN]


def _boundary(held: str) -> str:
    boundary = hashlib.sha256(held.encode("utf-8", "replace")).hexdigest()[:16]
    while boundary in held:
        boundary = hashlib.sha256(boundary.encode()).hexdigest()[:16]
    return boundary
