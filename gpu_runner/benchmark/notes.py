"""What a result says besides its numbers, and whether all that was asked for was measured:
where it ended early and how sure it is then, what was wrong, what was dropped. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_runner.benchmark.race import Race
from gpu_runner.contracts.benchmark import Comparison, Pass, Word
from gpu_runner.contracts.problem import Workload


def place_of(workload: Workload, timed_pass: Pass) -> str:
    """Give a workload and pass in words."""
    return f"{workload.label()}, {timed_pass.value}"


def early(workload: Workload, timed_pass: Pass, race: Race) -> str | None:
    """Say how sure a race is that the time ended before all its words were settled; None where nothing was left open."""
    left_open = [found for found in race.comparisons() if found.word is Word.undecided]
    if race.finished or not left_open:
        return None
    sure = "; ".join(f"against {found.baseline} {between(found)}" for found in left_open)
    done = f"{2 * len(race.units)} of at most {2 * race.looks[-1]} rounds"
    return f"{place_of(workload, timed_pass)}: the time ended after {done}. With 95% certainty the kernel is {sure}."


def between(found: Comparison) -> str:
    """Give an interval in words, such as ``between 1.2% slower and 0.4% faster``."""
    ends = [_percent(found.speedup_low), _percent(found.speedup_high)]
    return f"between {ends[0]} and {ends[1]}"


def dropped(workload: Workload, timed_pass: Pass, race: Race) -> str | None:
    """Say that rounds were left out because the GPU was disturbed; None where none were."""
    count = len(race.units) - len(race.kept())
    if not count:
        return None
    if count == len(race.units):
        return (
            f"{place_of(workload, timed_pass)}: the GPU was throttled or its clock low in every round, "
            "so the times stand as they are and nothing is compared."
        )
    said = f"{2 * count} of {2 * len(race.units)} rounds were left out"
    return f"{place_of(workload, timed_pass)}: {said}: the GPU was throttled or its clock low."


def wrong(workload: Workload, timed_pass: Pass, contender: str, objection: str) -> str:
    """Say that a contender which keeps its time gave wrong results."""
    return f"{place_of(workload, timed_pass)}: {contender} keeps its time although {objection}."


def aside(workload: Workload, contenders: Sequence[str]) -> str | None:
    """Say that contenders were left out for want of memory; None where none was."""
    if not contenders:
        return None
    verb = "were" if len(contenders) > 1 else "was"
    names = " and ".join(contenders)
    return f"{workload.label()}: {names} {verb} left out: the GPU has no memory for that beside the others."


def waits(timed_pass: Pass, contenders: Sequence[str]) -> str | None:
    """Say that contenders wait for the device in the middle of a pass; None where none does."""
    if not contenders:
        return None
    verb = "wait" if len(contenders) > 1 else "waits"
    return f"{', '.join(contenders)} {verb} for the device within {timed_pass.value}, so the host's share is in those times."


def rough(workload: Workload, kind: str) -> str | None:
    """Say that the check was held against less than float64; None where it was not."""
    if kind == "float64":
        return None
    dtype = "its own dtype" if kind == "own" else kind
    return (
        f"{workload.label()}: there was no memory for the truth in float64, so the check used the reference in {dtype}."
    )


def _percent(speedup: float) -> str:
    share = abs(speedup - 1)
    return f"{share:.1%} {'faster' if speedup >= 1 else 'slower'}"


MOST_CHARS = 400


@dataclass
class Remarks:
    """``said`` in the order in which it was said, each once."""

    said: list[str] = field(default_factory=list)
    complete: bool = True

    def say(self, note: str | None) -> None:
        """Note something; None is nothing."""
        if note is not None and note not in self.said:
            self.said.append(note)

    def lack(self, note: str) -> None:
        """Note something that was asked for and is not there."""
        self.say(" ".join(note.split())[:MOST_CHARS])
        self.complete = False
