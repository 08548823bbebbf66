"""What a comment asks for: commands, links to code, and the errors that people are told of. Pure values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, unquote, urlsplit

from workers.contracts import AuthorName, Choose, Goal, ProblemKind, ProblemText, Verb

SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,100}")
REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
RAW_HOSTS = {"github.com": "raw.githubusercontent.com"}
GIST_HOSTS = {"github.com": ("gist.github.com", "gist.githubusercontent.com")}  # elsewhere below HOST/gist/
GIST = re.compile(r"[0-9a-f]{20}|[0-9a-f]{32}|[1-9]\d{0,9}")
REVISION = re.compile(r"[0-9a-f]{40}")
ANCHOR = re.compile(r"file-(?P<file>[a-z0-9_-]{1,200}?)(?:-(?P<lines>L.+))?")
LINES = re.compile(r"L([1-9]\d{0,6})(?:C\d+)?(?:-L?([1-9]\d{0,6})(?:C\d+)?)?")


@dataclass(frozen=True)
class Permalink:
    """A file at a ref; ``first_line`` and ``last_line`` count from 1 and are both None for the whole file."""

    host: str
    repository: str  # owner/name
    ref: str  # a commit, tag or branch without a slash
    path: str
    first_line: int | None = None
    last_line: int | None = None


@dataclass(frozen=True)
class GistLink:
    """A file of a gist; without a ``revision`` the newest one, and without a name the only file.

    ``path`` is its name, and ``anchor`` the name as the fragment of an address spells it; lines are those of ``Permalink``.
    """

    host: str
    gist: str
    revision: str | None = None
    path: str = ""
    anchor: str = ""
    first_line: int | None = None
    last_line: int | None = None


class LinkFault(StrEnum):
    """Why a link cannot be used."""

    wrong_host = "wrong_host"
    not_a_file = "not_a_file"


def parse_permalink(url: str, host: str) -> Permalink | GistLink | LinkFault:
    """Read a link such as ``https://HOST/OWNER/NAME/blob/REF/PATH#L1-L20``, to the raw file or a gist; ``host`` may have a port.

    Nothing is fetched from the link itself: the file is read through the API of ``host``, with the rights of whoever asks.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return LinkFault.not_a_file
    # Comparing the whole authority refuses user:password@host and another port along with other hosts.
    host, authority = host.lower(), parts.netloc.lower()
    if authority in GIST_HOSTS.get(host, ()):
        return _gist_of(parts, host, parts.path.split("/")[1:]) or LinkFault.not_a_file
    if authority not in (host, RAW_HOSTS.get(host)):
        return LinkFault.wrong_host
    if host not in GIST_HOSTS and parts.path.startswith("/gist/"):
        return _gist_of(parts, host, parts.path.split("/")[2:]) or LinkFault.not_a_file
    return _file_of(parts, host) or LinkFault.not_a_file


def _file_of(parts: SplitResult, host: str) -> Permalink | None:
    if parts.scheme not in ("http", "https"):
        return None
    segments = [unquote(segment, errors="replace") for segment in parts.path.split("/")[1:]]
    if parts.netloc.lower() != host:
        segments.insert(2, "raw")
    if segments[3:5] in (["refs", "heads"], ["refs", "tags"]):
        del segments[3:5]
    if len(segments) < 5 or segments[2] not in ("blob", "blame", "raw"):
        return None
    owner, name, _, ref, *path = segments
    if not all(SEGMENT.fullmatch(part) and part.strip(".") for part in (owner, name)) or not REF.fullmatch(ref):
        return None
    if ".." in ref or not is_relative_path("/".join(path)):
        return None
    first = last = None
    if parts.fragment:
        lines = _lines(parts.fragment)
        if lines is None:
            return None
        first, last = lines
    return Permalink(host, f"{owner}/{name}", ref, "/".join(path), first, last)


def _lines(fragment: str) -> tuple[int, int] | None:
    lines = LINES.fullmatch(fragment)
    numbers = [int(number) for number in lines.groups() if number] if lines is not None else []
    return (min(numbers), max(numbers)) if numbers else None


def _gist_of(parts: SplitResult, host: str, segments: list[str]) -> GistLink | None:
    """A gist's link is ``[USER/]ID``, with ``/REVISION``, or with ``/raw``, ``/raw/FILE`` or ``/raw/REVISION/FILE``."""
    if parts.scheme not in ("http", "https"):
        return None
    if len(segments) > 1 and GIST.fullmatch(segments[1]) and SEGMENT.fullmatch(segments[0]):
        del segments[0]
    gist, rest = "".join(segments[:1]), [segment for segment in segments[1:] if segment]
    raw, rest = rest[:1] == ["raw"], rest[rest[:1] == ["raw"] :]
    revision = rest.pop(0) if rest and REVISION.fullmatch(rest[0]) else None
    name = unquote(rest[0], errors="replace") if raw and len(rest) == 1 else ""
    if not GIST.fullmatch(gist) or (rest and not name) or (name and not is_relative_path(name)):
        return None
    anchor = ANCHOR.fullmatch(parts.fragment) if parts.fragment and not raw else None
    lines = _lines(anchor["lines"]) if anchor is not None and anchor["lines"] else None
    if parts.fragment and (anchor is None or (anchor["lines"] and lines is None)):
        return None
    first, last = lines or (None, None)
    return GistLink(host, gist, revision, name, anchor["file"] if anchor is not None else "", first, last)


def is_relative_path(path: str) -> bool:
    """Whether a path stays inside of the repository and holds nothing that a tool could misread."""
    segments = path.split("/")
    return (
        0 < len(path) <= 400
        and path.isprintable()
        and not any(character in path for character in '\\:*?"<>|')
        and all(segment not in ("", ".", "..", ".git") for segment in segments)
        and not path.startswith("-")
    )


NO_PROBLEM = ProblemText(ProblemKind.missing)


@dataclass(frozen=True)
class GivenOptions:
    """Options as a person gave them; None is what was not said, so that the repository's configuration can say it."""

    author: AuthorName | None = None
    layout: str | None = None
    auto: bool = False
    gpu: str | None = None
    goal: Goal | None = None
    scope: str | None = None  # of a form that ``workers.contracts.parse_scope`` reads
    variants: int | None = None
    target: str | None = None  # of a form that ``workers.contracts.parse_target`` reads
    against: str | None = None
    candidates: int | None = None
    repairs: int | None = None
    choose: Choose | None = None
    dry_run: bool = False
    profile: bool = False
    to: str | None = None
    ported_from: str | None = None


@dataclass(frozen=True)
class Command:
    """One command. Only the fields of its verb are set.

    A ``permalink`` is parsed but not fetched: ``problem.text`` is empty until the service has read the file.
    """

    verb: Verb
    name: str | None = (
        None  # create, optimize, modify, tune, profile; one that is there as it was typed, None where the change says it
    )
    problem: ProblemText = NO_PROBLEM  # create, optimize, modify
    permalink: Permalink | GistLink | None = None  # with ``problem.kind`` permalink
    options: GivenOptions = GivenOptions()
    job: str | None = None  # status, cancel, retry
    sha: str | None = None  # approve: 7 to 40 hexadecimal digits, lower case
    text: str = ""  # revise, modify
    topic: Verb | None = None  # help
    names: tuple[str, ...] = ()  # bench, verify, nightly
    commits: tuple[str, str] | None = None  # bisect: one that is fast, and one that is not
    line: int = field(default=0, compare=False)  # of the comment, from 1
    raw: str = field(default="", compare=False)  # the line as it was typed; untrusted text


class ErrorCode(StrEnum):
    """Why a line that starts with ``/kernel`` is no command that can be carried out."""

    too_many = "too_many"
    in_quote = "in_quote"
    unknown_verb = "unknown_verb"
    unknown_option = "unknown_option"
    repeated_option = "repeated_option"
    missing_value = "missing_value"
    unknown_value = "unknown_value"
    missing_argument = "missing_argument"
    unexpected_word = "unexpected_word"
    bad_name = "bad_name"
    bad_path = "bad_path"
    bad_link = "bad_link"
    wrong_host = "wrong_host"
    two_problems = "two_problems"


@dataclass(frozen=True)
class CommandError:
    """What is wrong with one line, as facts; the sentence is the conversation's. Texts in it are untrusted."""

    code: ErrorCode
    word: str = ""  # what was typed
    verb: Verb | None = None
    about: str = ""  # the option or argument that it concerns, such as "--author" or "NAME"
    nearest: str | None = None  # what may have been meant
    choices: tuple[str, ...] = ()  # what is possible there
    reason: str = ""  # one sentence from the check that refused it
    line: int = field(default=0, compare=False)
    raw: str = field(default="", compare=False)


@dataclass(frozen=True)
class ParsedComment:
    """All that a comment asks for, in order."""

    commands: tuple[Command, ...] = ()
    errors: tuple[CommandError, ...] = ()
