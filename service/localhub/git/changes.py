"""What changed between two commits: files with their counts and hunks, and the whole as a patch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.localhub.git.bare import BareRepository

_STATUS = {"A": "added", "D": "removed", "M": "modified", "T": "changed", "R": "renamed", "C": "copied"}


@dataclass(frozen=True)
class ChangedFile:
    """A file that differs; ``patch`` holds its hunks, None for a binary file; counts are lines."""

    path: str
    previous_path: str | None
    status: str
    sha: str
    additions: int = 0
    deletions: int = 0
    patch: str | None = None


def changed_files(repository: BareRepository, base: str, head: str) -> list[ChangedFile]:
    """The files that differ between two commits or trees, in git's order."""
    listing = repository.run("diff", "-M", "--no-ext-diff", "-z", "--raw", "--no-abbrev", base, head)
    files = _parse_raw(listing.decode("utf-8", "surrogateescape").split("\0"))
    if not files:
        return []
    text = repository.run("diff", "-M", "--no-ext-diff", "--no-color", base, head).decode("utf-8", "replace")
    sections = ("\n" + text).split("\ndiff --git ")[1:]
    return [_with_hunks(file, section) for file, section in zip(files, sections, strict=True)]


def patch(repository: BareRepository, base: str, head: str) -> str:
    """Statistics and a binary-safe diff that `git apply` takes; bytes that are no UTF-8 are kept as surrogates."""
    flags = ("-M", "--no-ext-diff", "--no-color", "--binary", "--full-index", "--patch-with-stat")
    return repository.run("diff", *flags, base, head).decode("utf-8", "surrogateescape")


def _parse_raw(fields: list[str]) -> list[ChangedFile]:
    files, at = [], 0
    while at < len(fields) and fields[at].startswith(":"):
        _, _, old_sha, new_sha, letter = fields[at].split(" ")
        letter = letter[0]
        moved = letter in "RC"
        previous = fields[at + 1] if moved else None
        path = fields[at + 2] if moved else fields[at + 1]
        sha = old_sha if letter == "D" else new_sha
        files.append(ChangedFile(path, previous, _STATUS.get(letter, "changed"), sha))
        at += 3 if moved else 2
    return files


def _with_hunks(file: ChangedFile, section: str) -> ChangedFile:
    start = section.find("\n@@ ")
    if start < 0:
        return file if "\nBinary files " in section else replace(file, patch="")
    hunks = section[start + 1 :].removesuffix("\n")
    lines = hunks.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return replace(file, additions=added, deletions=removed, patch=hunks)
