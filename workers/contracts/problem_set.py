"""What became of a set of problems: an entry for each, and what they come to. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any

THRESHOLDS = (0.0, 1.0, 1.5, 2.0)
BASELINES = ("eager", "torch_compile")
# Of a baseline's speed: what is slower is held beside a program of proved parts that leaves products to the libraries of torch.
BEHIND = 0.95


def name_of(contender: str) -> str:
    """A contender as people write it."""
    return contender.replace("_", ".")


class ProblemOutcome(StrEnum):
    """What became of a problem, the best first."""

    right = "right"  # one program of kernels, without torch
    composed = "composed"  # proved as a whole too, but of parts, with torch computing between them
    not_judged = "not judged"
    wrong = "wrong"
    refused = "refused"
    unusable = "unusable"
    timeout = "timeout"
    error = "error"


@dataclass(frozen=True)
class Entry:
    """One problem. ``reason`` is what refusals are counted by: an operator where one is known, else the sentence."""

    problem: str  # path in the folder
    digest: str  # of the problem's source and the author: a result holds for these alone
    outcome: ProblemOutcome
    sentence: str = ""
    reason: str | None = None
    seconds: float = 0.0
    status: str | None = None  # of the verdict
    speedups: Mapping[str, float] = field(default_factory=dict)  # forward, by baseline; empty: not timed
    untimed: str = ""  # why there is no time, or none of a baseline
    close: bool | None = None  # right by KernelBench's own rule; None: it was not asked
    parts: int = 0  # calls of proved parts in one forward of a composed program; 0: it is none
    left_to_torch: int = 0  # operators of it that torch computes
    # Of a right program that is behind: speedups of one of proved parts with torch between them, and how many operators torch
    # computes in it; or why there is none.
    in_parts: Mapping[str, float] = field(default_factory=dict)
    in_parts_torch: int = 0
    not_in_parts: str = ""

    @property
    def is_behind(self) -> bool:
        """Whether a program without torch is slower than a baseline."""
        return self.outcome is ProblemOutcome.right and any(ratio < BEHIND for ratio in self.speedups.values())

    @property
    def level(self) -> str:
        """The folder that the problem lies in."""
        return str(PurePath(self.problem).parent)

    @property
    def compiled(self) -> bool:
        """Whether one program of kernels was written."""
        judged = {ProblemOutcome.right, ProblemOutcome.wrong, ProblemOutcome.not_judged}
        return not self.parts and (self.outcome in judged or self.status is not None)


def counts(entries: Sequence[Entry]) -> dict[str, int]:
    """Count the problems: all of them, compiled, and by what became of them."""
    by_outcome = Counter(entry.outcome.value for entry in entries)
    return {"problems": len(entries), "compiled": sum(e.compiled for e in entries)} | dict(by_outcome)


def close(entries: Sequence[Entry]) -> int | None:
    """How many are right by KernelBench's own rule; None where it was asked of none."""
    asked = [entry.close for entry in entries if entry.close is not None]
    return sum(asked) if asked else None


def fast_p(entries: Sequence[Entry], baseline: str, threshold: float, *, composed: bool = False) -> float | None:
    """The share of problems that are right, or with ``composed`` right, composed or fast in parts, and more than ``threshold``
    times as fast; None where nothing was timed.
    """
    if not any(baseline in entry.speedups for entry in entries):
        return None
    counted = {ProblemOutcome.right, ProblemOutcome.composed} if composed else {ProblemOutcome.right}
    fast = sum(e.outcome in counted and _speedup(e, baseline, composed) > threshold for e in entries)
    return fast / len(entries)


def _speedup(entry: Entry, baseline: str, composed: bool) -> float:
    in_parts = entry.in_parts.get(baseline, 0.0) if composed else 0.0
    return max(entry.speedups.get(baseline, 0.0), in_parts)


def reasons(entries: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    """What problems were not done for, the most frequent reason first."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.reason is not None:
            groups.setdefault(entry.reason, []).append(entry)
    return sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0]))


def levels(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """The problems of each folder."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.level, []).append(entry)
    return groups


def report(entries: Sequence[Entry]) -> dict[str, Any]:
    """The whole result as plain values."""

    def summary(chosen: Sequence[Entry]) -> dict[str, Any]:
        def fast(composed: bool) -> dict[str, dict[str, float | None]]:
            rows = {b: [(t, fast_p(chosen, b, t, composed=composed)) for t in THRESHOLDS] for b in BASELINES}
            return {baseline: {f"fast_{t:g}": share for t, share in row} for baseline, row in rows.items()}

        ways = {"right_by_kernelbench": close(chosen), "fast_p": fast(False), "fast_p_with_composed": fast(True)}
        return counts(chosen) | ways

    return {
        "total": summary(entries),
        "levels": {level: summary(chosen) for level, chosen in levels(entries).items()},
        "reasons": {reason: [e.problem for e in chosen] for reason, chosen in reasons(entries)},
        "problems": [asdict(entry) for entry in entries],
    }
