"""Links to a file, or lines of it, on the host that the service is configured for. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import SplitResult, unquote, urlsplit

SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,100}")
REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,199}")
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


class LinkFault(StrEnum):
    """Why a link cannot be used."""

    wrong_host = "wrong_host"
    not_a_file = "not_a_file"


def parse_permalink(url: str, host: str) -> Permalink | LinkFault:
    """Read a link such as ``https://HOST/OWNER/NAME/blob/REF/PATH#L1-L20``; ``host`` may carry a port."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return LinkFault.not_a_file
    # Comparing the whole authority refuses user:password@host and another port along with other hosts.
    if parts.netloc.lower() != host.lower():
        return LinkFault.wrong_host
    return _file_of(parts, host.lower()) or LinkFault.not_a_file


def _file_of(parts: SplitResult, host: str) -> Permalink | None:
    if parts.scheme not in ("http", "https"):
        return None
    segments = [unquote(segment, errors="replace") for segment in parts.path.split("/")[1:]]
    if len(segments) < 5 or segments[2] not in ("blob", "blame", "raw"):
        return None
    owner, name, _, ref, *path = segments
    if not all(SEGMENT.fullmatch(part) and part.strip(".") for part in (owner, name)) or not REF.fullmatch(ref):
        return None
    if ".." in ref or not is_relative_path("/".join(path)):
        return None
    first = last = None
    if parts.fragment:
        lines = LINES.fullmatch(parts.fragment)
        if lines is None:
            return None
        numbers = [int(number) for number in lines.groups() if number]
        first, last = min(numbers), max(numbers)
    return Permalink(host, f"{owner}/{name}", ref, "/".join(path), first, last)


def is_relative_path(path: str) -> bool:
    """Tell whether a path stays inside of the repository and holds nothing that a tool could misread."""
    segments = path.split("/")
    return (
        0 < len(path) <= 400
        and path.isprintable()
        and not any(character in path for character in '\\:*?"<>|')
        and all(segment not in ("", ".", "..", ".git") for segment in segments)
        and not path.startswith("-")
    )
