"""What stands in a command: names, words, sources and options, each read or refused. Pure."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.commands.command import (
    Command,
    CommandError,
    ErrorCode,
    GistLink,
    GivenOptions,
    LinkFault,
    Permalink,
    is_relative_path,
    parse_permalink,
)
from service.commands.grammar import REF, Option, ValueKind, architecture, nearest
from service.commands.markdown import UNSEEN
from workers.contracts import (
    AuthorName,
    Choose,
    Goal,
    ProblemKind,
    ProblemText,
    format_scope,
    parse_scope,
    parse_target,
)

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
    """What is wrong with a kernel's name; None where nothing is."""
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
    """The word by which a kernel that is there is looked for: its name, class or function, also behind a path or module.

    Which kernel it is, in whatever spelling, is for the layout to say: ``workers.layouts.existing.match_kernel``.
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
    """The snake_case name nearest to a text, such as ``rms_norm`` for ``RMSNorm``; None where there is none."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words: list[str] = []
    for part in re.split(r"[^A-Za-z0-9]+", ascii_text[: 4 * MAX_LENGTH]):
        words += _words(part)
    name = "_".join(words).lower()[:MAX_LENGTH].strip("_")
    return name if NAME.fullmatch(name) and not keyword.iskeyword(name) else None


def model_name(command: Command) -> str:
    """The name of a model: its class's, else its file's; one that is pasted has none of its own."""
    path = command.permalink.path if command.permalink else command.problem.path or ""
    symbol = command.problem.symbol if command.problem.symbol not in ("Model", "reference") else None
    return suggest_name(symbol or re.split(r"[/\\]", path)[-1].removesuffix(".py")) or "model"


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


DOUBLE_QUOTES = '"\u201c\u201d\u201e\u201f\u00ab\u00bb'
SINGLE_QUOTES = "'\u2018\u2019\u201a\u201b`"
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
INVISIBLE = re.compile(f"[{UNSEEN}\ue000\ue001]")
HTML_COMMENT = re.compile(r"<!--.*?(?:-->|$)")
LEADING_DASHES = re.compile(f"[{DASHES}]+(?=[^\\W\\d_])")
ASSIGNMENT = re.compile(r"([^\W\d][\w-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class CommandWord:
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


def split_words(line: str) -> list[CommandWord]:
    """Split a line at white space, keeping what stands in quotes together; a quote that is never closed is a letter."""
    text = HTML_COMMENT.sub(" ", INVISIBLE.sub("", line))
    words: list[CommandWord] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        word, position = _next_word(text, position)
        words.append(word)
    return words


def _next_word(text: str, start: int) -> tuple[CommandWord, int]:
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
    return CommandWord(plain, text[start:position], quoted), position


def _closing_quote(text: str, start: int) -> int | None:
    for family in (DOUBLE_QUOTES, SINGLE_QUOTES):
        if text[start] in family:
            for end in range(start + 1, len(text)):
                # An apostrophe inside of a word ends nothing.
                if text[end] in family and (end + 1 == len(text) or not text[end + 1].isalnum()):
                    return end
    return None


def read_option(word: CommandWord) -> OptionWord | None:
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


URL = re.compile(r"https?://\S+", re.IGNORECASE)
MARKDOWN_LINK = re.compile(r"\[[^\]]*\]\((\S+?)\)|<(\S+?)>")
SYMBOL = re.compile(r"[A-Za-z_]\w{0,199}(?:\.[A-Za-z_]\w{0,199})*", re.ASCII)
ABOUT = "from"


@dataclass(frozen=True)
class ProblemPlace:
    """Where the problem is."""

    problem: ProblemText
    permalink: Permalink | GistLink | None = None


def read_source(words: list[CommandWord], host: str) -> ProblemPlace | CommandError | None:
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


def _from_url(url: str, host: str) -> ProblemPlace | CommandError:
    link = parse_permalink(url, host)
    if link is LinkFault.wrong_host:
        return CommandError(ErrorCode.wrong_host, url[:200], about=ABOUT, choices=(host,))
    if isinstance(link, LinkFault):
        return CommandError(ErrorCode.bad_link, url[:200], about=ABOUT, choices=(host,))
    return ProblemPlace(ProblemText(ProblemKind.permalink, url=url), link)


def _from_path(text: str) -> ProblemPlace | CommandError:
    path, separator, symbol = text.removeprefix("./").partition(":")
    if not is_relative_path(path):
        reason = "A path is relative to the repository's root and stays inside of it."
        return CommandError(ErrorCode.bad_path, text[:200], about=ABOUT, reason=reason)
    if separator and not SYMBOL.fullmatch(symbol):
        reason = "After the colon stands the name of a function or class, such as `src/model.py:MLP`."
        return CommandError(ErrorCode.bad_path, text[:200], about=ABOUT, reason=reason)
    return ProblemPlace(ProblemText(ProblemKind.path, path=path, symbol=symbol or None))


ANY_GPU = ("auto", "any", "auto-detect")


def read_value(option: Option, text: str) -> str:
    """A value as it is meant.

    Raises:
        ValueError: it is none for this option; the text says what would be, in one sentence.
    """
    return READERS[option.kind](option, text)


def given_options(values: Mapping[str, str]) -> GivenOptions:
    """The options of a command from their values, which were read before."""
    return GivenOptions(
        author=AuthorName(values["author"]) if "author" in values else None,
        layout=values.get("layout"),
        auto=bool(values.get("auto")),
        gpu=values.get("gpu") or None,
        goal=Goal(values["goal"]) if "goal" in values else None,
        scope=values.get("scope"),
        variants=int(values["variants"]) if "variants" in values else None,
        target=values.get("target"),
        against=values.get("against"),
        candidates=int(values["candidates"]) if "candidates" in values else None,
        repairs=int(values["repairs"]) if "repairs" in values else None,
        choose=Choose(values["choose"]) if "choose" in values else None,
        dry_run=bool(values.get("dry-run")),
        profile=bool(values.get("profile")),
        to=values.get("to"),
        ported_from=values.get("from"),
    )


def _choice(option: Option, text: str) -> str:
    if text.lower() not in option.choices:
        raise ValueError("")
    return text.lower()


def _architecture(_option: Option, text: str) -> str:
    if text.lower() in ANY_GPU:
        return ""
    canonical = architecture(text)
    if canonical is None:
        raise ValueError("An architecture is written like `sm_90`, `h100` or `hopper`; only NVIDIA GPUs are supported.")
    return canonical


def _count(option: Option, text: str) -> str:
    # int() would take digits of every script, and underscores.
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= option.most):
        raise ValueError(f"It is a whole number from 1 to {option.most}.")
    return str(int(text))


def _target(_option: Option, text: str) -> str:
    parse_target(text)
    return " ".join(text.split())


def _scope(_option: Option, text: str) -> str:
    return format_scope(*parse_scope(text))


def _ref(_option: Option, text: str) -> str:
    if not REF.fullmatch(text):
        raise ValueError(
            "It is the name of a branch or tag of this repository, or a commit, such as `main` or `v1.2.0`."
        )
    return text


READERS: dict[ValueKind, Callable[[Option, str], str]] = {
    ValueKind.choice: _choice,
    ValueKind.architecture: _architecture,
    ValueKind.number: _count,
    ValueKind.target: _target,
    ValueKind.scope: _scope,
    ValueKind.ref: _ref,
}
