"""The forms that messages are made of: tables, folded parts, numbers, links and the hidden marker. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeGuard
from urllib.parse import quote, urlsplit

from service.escape import inline
from workers.contracts import Image

GITHUB_LIMIT = 65_536
NOTE = "*Truncated at GitHub's limit for a comment. The job's page has the full text.*"
FENCE = re.compile(r"(`{3,})([^`]*)$")


def paragraphs(*parts: str) -> str:
    """Parts with an empty line between them; empty parts are left out."""
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """A table; ``numeric`` columns stand to the right. Cells are markdown already, without pipes or line breaks."""
    if not rows:
        return ""
    rule = ["---:" if column in numeric else "---" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *rows))


def folded(summary: str, body: str) -> str:
    """A part that opens on a click; nothing where there is no body. ``summary`` is plain text of ours."""
    return f"<details><summary>{summary}</summary>\n\n{body.strip()}\n\n</details>" if body.strip() else ""


def length(text: str) -> int:
    """The length as GitHub may count it: in UTF-16 units, of which a sign beyond the basic plane takes two."""
    return len(text) + sum(character > "\uffff" for character in text)


def fit(body: str, tail: str = "", limit: int = GITHUB_LIMIT) -> str:
    """A message that ends with ``tail`` and is at most as long as GitHub takes; what was open is closed."""
    end = f"\n\n{tail}" if tail else ""
    if length(body) + length(end) <= limit:
        return body.rstrip() + end
    # The closing lines of what is open take a little more than the note.
    room = limit - length(end) - length(NOTE) - 400
    kept = _kept(body, room)
    return paragraphs(kept + _closing(kept), NOTE) + end


def _kept(body: str, room: int) -> str:
    kept: list[str] = []
    for line in body.split("\n"):
        room -= length(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def fences(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line with the fence of the code block that it belongs to: empty outside of code, and on the line that ends it."""
    fence = ""
    for line in lines:
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and len(match[1]) >= len(fence) and not match[2].strip():
            fence = ""
        yield line, fence


def _closing(text: str) -> str:
    folds, fence = 0, ""
    for line, fence in fences(text.split("\n")):
        folds += 0 if fence else line.count("<details>") - line.count("</details>")
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * folds


DASH = "–"


def duration_us(value: float | None) -> str:
    """A time, in the unit that fits it."""
    if not usable(value):
        return DASH
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return f"{_three(value)} µs"


def wait(seconds: float) -> str:
    """An expected wait, as roughly as it is known."""
    if not usable(seconds) or seconds < 45:
        return "less than a minute"
    if seconds < 90 * 60:
        minutes = max(1, round(seconds / 60))
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"about {round(seconds / 3600)} hours"


def size_bytes(value: float | None) -> str:
    """A size in binary units."""
    if not usable(value):
        return DASH
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{_three(value / size)} {unit}"
    return f"{value:.0f} B"


def ratio(value: float | None) -> str:
    """A speedup."""
    return f"{value:.2f}×" if usable(value) else DASH


def percent(value: float | None) -> str:
    """A share."""
    return f"{value:.0%}" if usable(value) else DASH


def small(value: float | None) -> str:
    """An error or tolerance."""
    return f"{value:.2g}" if value is not None else DASH


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers; None of none."""
    logs = [math.log(value) for value in values if value > 0 and math.isfinite(value)]
    return math.exp(sum(logs) / len(logs)) if logs else None


def counted(number: int, noun: str) -> str:
    """A number with its noun in the right form."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def usable(value: float | None) -> TypeGuard[float]:
    """Whether something was measured and is a number that can be shown."""
    return value is not None and math.isfinite(value) and value >= 0


def _three(value: float) -> str:
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


URL_SAFE = "/:?#@!$&'*+,;=%~-._"  # without the brackets, which would end a markdown link


@dataclass(frozen=True)
class Links:
    """Where the parts of one job can be seen. No address ends with a slash."""

    job_page: str  # of the service
    repository_url: str  # https://HOST/OWNER/NAME
    bot_login: str

    def pull(self, number: int) -> str:
        """The address of a pull request."""
        return f"{self.repository_url}/pull/{number}"

    def commit(self, sha: str) -> str:
        """The address of a commit."""
        return f"{self.repository_url}/commit/{quote(sha)}"

    def own(self, label: str, url: str) -> str:
        """A link where the address is in this repository, else only the label."""
        return link(label, url) if url.startswith(f"{self.repository_url}/") else label

    def file(self, sha: str, path: str) -> str:
        """The address of a file at a commit."""
        return f"{self.repository_url}/blob/{quote(sha)}/{quote(path)}"


def link(label: str, url: str) -> str:
    """A markdown link; only the label where the address is none of the web. ``label`` is markdown already."""
    return f"[{label}]({safe_url(url)})" if safe_url(url) else label


def image(alt: str, url: str) -> str:
    """A markdown image with its text form; only the text where the address is none of the web."""
    return f"![{inline(alt)}]({safe_url(url)})" if safe_url(url) else inline(alt)


def pictures(images: tuple[Image, ...], image_urls: Mapping[str, str]) -> str:
    """The images that can be seen."""
    return "\n".join(image(item.alt, image_urls[item.name]) for item in images if item.name in image_urls)


def safe_url(url: str) -> str:
    """An address that stays one inside of a markdown link; empty where it is not http or https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc or len(url) > 2_000:
        return ""
    return quote(url, safe=URL_SAFE)


WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
NO_JOB = "none"
PATTERN = re.compile(
    rf"<!-- kernelsmith:job=(?P<job>{WORD.pattern}) kind=(?P<kind>[a-z]+)(?: key=(?P<key>{WORD.pattern}))? -->"
)


class MessageKind(StrEnum):
    """What a message of the bot is."""

    status = "status"
    checkpoint = "checkpoint"
    report = "report"
    reminder = "reminder"
    pull = "pull"
    reply = "reply"
    regression = "regression"  # an issue that the nightly run opened, by its kernel and GPU
    digest = "digest"  # the issue that tells every week what became faster, by its GPU; its comments


@dataclass(frozen=True)
class Marker:
    """Whose message it is: the job (``none`` for a reply to no job), the kind, and what tells two of a kind apart."""

    job_id: str
    kind: MessageKind
    key: str | None = None


def marker(job_id: str, kind: MessageKind, key: str | None = None) -> str:
    """The hidden line.

    Raises:
        ValueError: the job's id or the key holds something that could end the line.
    """
    for word in (job_id, key):
        if word is not None and (not WORD.fullmatch(word) or "--" in word):
            raise ValueError(f"{word[:80]!r} cannot stand in a marker")
    tail = f" key={key}" if key else ""
    return f"<!-- kernelsmith:job={job_id} kind={kind.value}{tail} -->"


def find_marker(body: str) -> Marker | None:
    """The marker of a message; only its last line counts, so that no text echoed in it can pose as one."""
    lines = body.rstrip().rsplit("\n", 1)
    match = PATTERN.fullmatch(lines[-1].strip())
    if match is None or match["kind"] not in set(MessageKind):
        return None
    return Marker(match["job"], MessageKind(match["kind"]), match["key"])


def signed(body: str, job_id: str, kind: MessageKind, key: str | None = None) -> str:
    """A message with its marker, shortened where GitHub would refuse it."""
    return fit(body, marker(job_id, kind, key))
