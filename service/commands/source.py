"""``from PATH[:SYMBOL]`` and ``from URL``: where a problem is to be read. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from service.commands.command import CommandError, ErrorCode
from service.commands.grammar import nearest
from service.commands.permalink import LinkFault, Permalink, is_relative_path, parse_permalink
from service.commands.words import Word
from workers.contracts import ProblemKind, ProblemText

URL = re.compile(r"https?://\S+", re.IGNORECASE)
MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\((\S+?)\)|<(\S+?)>")
SYMBOL = re.compile(r"[A-Za-z_]\w{0,199}(?:\.[A-Za-z_]\w{0,199})*", re.ASCII)
ABOUT = "from"


@dataclass(frozen=True)
class Source:
    """Where the problem is."""

    problem: ProblemText
    permalink: Permalink | None = None


def read_source(words: list[Word], host: str) -> Source | CommandError | None:
    """Read the words after a name; None where they are words about the kernel, or none."""
    texts = [word.text for word in words]
    if not texts:
        return None
    if texts[0].lower() != "from":
        return _meant_from(texts)
    if len(texts) == 1:
        return CommandError(ErrorCode.missing_value, about=ABOUT)
    if len(texts) > 2:
        return CommandError(ErrorCode.unexpected_word, texts[2], about=ABOUT)
    link = MARKDOWN_LINK.fullmatch(texts[1])
    target = (link[1] or link[2]) if link else texts[1].strip("`").replace("\\_", "_")
    # A sentence may end with the link.
    return _from_url(target.rstrip(".,;!?"), host) if URL.fullmatch(target) else _from_path(target)


def _meant_from(texts: list[str]) -> CommandError | None:
    looks = [_looks_like_source(text) for text in texts]
    if len(texts) == 1 and looks[0]:
        return CommandError(ErrorCode.unexpected_word, texts[0], about=ABOUT, nearest=f"from {texts[0]}")
    if len(texts) == 2 and looks[1] and nearest(texts[0], ("from",)):
        return CommandError(ErrorCode.unexpected_word, texts[0], about=ABOUT, nearest=f"from {texts[1]}")
    return None


def _looks_like_source(text: str) -> bool:
    return bool(URL.fullmatch(text) or re.fullmatch(r"[^\s:]+\.py(:[\w.]+)?", text))


def _from_url(url: str, host: str) -> Source | CommandError:
    link = parse_permalink(url, host)
    if link is LinkFault.wrong_host:
        return CommandError(ErrorCode.wrong_host, url[:200], about=ABOUT, choices=(host,))
    if isinstance(link, LinkFault):
        return CommandError(ErrorCode.bad_link, url[:200], about=ABOUT, choices=(host,))
    return Source(ProblemText(ProblemKind.permalink, url=url), link)


def _from_path(text: str) -> Source | CommandError:
    path, separator, symbol = text.removeprefix("./").partition(":")
    if not is_relative_path(path):
        reason = "A path is relative to the repository's root and stays inside of it."
        return CommandError(ErrorCode.bad_path, text[:200], about=ABOUT, reason=reason)
    if separator and not SYMBOL.fullmatch(symbol):
        reason = "After the colon stands the name of a function or class, such as `src/model.py:MLP`."
        return CommandError(ErrorCode.bad_path, text[:200], about=ABOUT, reason=reason)
    return Source(ProblemText(ProblemKind.path, path=path, symbol=symbol or None))
