"""What may be the name of a kernel, and what was probably meant. Pure."""

from __future__ import annotations

import keyword
import re
import unicodedata
from dataclasses import dataclass

MAX_LENGTH = 64
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
WORD = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z0-9]*|[a-z]+[0-9]*|[0-9]+")


@dataclass(frozen=True)
class NameFault:
    """Why a name is refused, in one sentence, and a name that would do."""

    reason: str
    suggestion: str | None


def check_name(name: str) -> NameFault | None:
    """Give what is wrong with a kernel's name; None where nothing is."""
    if "/" in name or "\\" in name or name in (".", "..") or name.endswith(".py"):
        last = re.split(r"[/\\]", name.rstrip("/\\"))[-1].removesuffix(".py")
        return NameFault("A name is not a path: the layout decides where the files go.", suggest_name(last))
    if len(name) > MAX_LENGTH:
        return NameFault(f"A name has at most {MAX_LENGTH} characters; this one has {len(name)}.", None)
    if keyword.iskeyword(name):
        return NameFault(
            "This is a word of Python itself, so no module can have it as its name.", f"{name.lower()}_kernel"
        )
    if NAME.fullmatch(name):
        return None
    if name[:1].isdigit():
        return NameFault("A name starts with a letter.", None)
    return NameFault(
        "A name is a Python identifier in snake_case: lower-case letters, digits and single underscores.",
        suggest_name(name),
    )


def existing_name(text: str) -> str | NameFault:
    """Give the word by which a kernel that is there is looked for: its name, class or function, also behind a path or module.

    Which kernel it is, in whatever spelling, is for the layout to say: ``workers.layouts.existing.found_name``.
    """
    last = re.split(r"[/\\]", text.rstrip("/\\"))[-1].removesuffix("()").removesuffix(".py")
    word = last.rsplit(".", 1)[-1].replace("-", "_")
    if len(word) > MAX_LENGTH:
        return NameFault(f"A name has at most {MAX_LENGTH} characters; this one has {len(word)}.", None)
    if IDENTIFIER.fullmatch(word):
        return word
    return NameFault(
        "A kernel is named by its file, its class or its function, such as `rms_norm` or `LigerRMSNorm`.",
        suggest_name(word),
    )


def suggest_name(text: str) -> str | None:
    """Give the snake_case name nearest to a text, such as ``rms_norm`` for ``RMSNorm``; None where there is none."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words: list[str] = []
    for part in re.split(r"[^A-Za-z0-9]+", ascii_text[: 4 * MAX_LENGTH]):
        words += _words(part)
    name = "_".join(words).lower()[:MAX_LENGTH].strip("_")
    return name if NAME.fullmatch(name) and not keyword.iskeyword(name) else None


def _words(part: str) -> list[str]:
    words: list[str] = []
    for word in WORD.findall(part):
        # A short beginning and a run of capitals are one word in this field: ReGLU, SwiGLU, DyT.
        short = words and len(words[-1]) <= 3 and not words[-1].isupper()
        if words and ((short and word.isupper()) or word.isdigit()):
            words[-1] += word
        else:
            words.append(word)
    return words
