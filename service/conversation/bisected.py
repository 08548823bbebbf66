"""The result of a bisection. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from service.conversation.markdown import bullets, paragraphs
from service.conversation.quantities import counted
from service.escape import code, inline


class Suspect(Protocol):
    """A commit, or several in a row, of which one made a kernel worse."""

    @property
    def commits(self) -> tuple[str, ...]: ...
    @property
    def unjudged(self) -> tuple[str, ...]: ...
    @property
    def merge(self) -> str | None: ...


def bisected_report(
    kernel: str,
    whole: str,
    suspects: Sequence[Suspect],
    subjects: Mapping[str, str],
    steps: int,
    ends: tuple[str, str],
) -> str:
    """Give who made a kernel worse; ``subjects`` are the first lines of the commits' messages, which are untrusted."""
    good, bad = (code(sha[:12]) for sha in ends)
    if not suspects:
        told = {"same": "is not worse than", "undecided": "cannot be told from", "broken": "cannot be compared with"}
        return f"**{code(kernel)}: {bad} {told.get(whole, 'is not worse than')} {good}.** Nothing was searched."
    head = f"**{code(kernel)} became worse in {counted(len(suspects), 'place')}** between {good} and {bad}:"
    spent = f"<sub>{counted(steps, 'comparison')}, each an interleaved run of two commits.</sub>"
    return paragraphs(head, bullets([_line(one, subjects) for one in suspects]), spent)


def _line(suspect: Suspect, subjects: Mapping[str, str]) -> str:
    first, last = suspect.commits[0], suspect.commits[-1]
    brought = f", brought by the merge {code(suspect.merge[:12])}" if suspect.merge else ""
    if len(suspect.commits) == 1:
        return f"{code(last[:12])} {inline(subjects.get(last, ''), 120)}{brought}"
    why = f"{counted(len(suspect.unjudged), 'commit')} between them could not be judged"
    return f"one of {len(suspect.commits)} commits, {code(first[:12])} to {code(last[:12])}{brought}: {why}"
