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
    """A workload and pass as text."""
    return f"{workload.label()}, {timed_pass.value}"


def early(workload: Workload, timed_pass: Pass, race: Race) -> str | None:
    """How sure a race is whose time ended before all its verdicts; None where every one is decided."""
    left_open = [comparison for comparison in race.comparisons() if comparison.word is Word.undecided]
    if race.finished or not left_open:
        return None
    sure = "; ".join(f"against {comparison.baseline} {between(comparison)}" for comparison in left_open)
    done = f"{2 * len(race.units)} of at most {2 * race.looks[-1]} rounds"
    return f"{place_of(workload, timed_pass)}: the time budget ended after {done}: {sure} (95% interval)."


def between(comparison: Comparison) -> str:
    """An interval as text, such as ``between 1.2% slower and 0.4% faster``."""
    ends = [_percent(comparison.speedup_low), _percent(comparison.speedup_high)]
    return f"between {ends[0]} and {ends[1]}"


def not_repeated(workload: Workload, timed_pass: Pass, first: Comparison, second: Comparison | None) -> str | None:
    """A small difference that did not hold in fresh processes; None where it did."""
    if second is not None and second.word is first.word:
        return None
    again = "could not be measured again" if second is None else f"was {between(second)} in fresh ones"
    place = f"{place_of(workload, timed_pass)}, against {first.baseline}"
    return f"{place}: {between(first)} in one set of processes, and {again}, so this is undecided."


def dropped(workload: Workload, timed_pass: Pass, race: Race) -> str | None:
    """Rounds left out because the GPU was disturbed; None where none were."""
    count = len(race.units) - len(race.kept())
    if not count:
        return None
    if count == len(race.units):
        return (
            f"{place_of(workload, timed_pass)}: the GPU was throttled or its clock low in every round, "
            "so its times are reported and not compared."
        )
    note = f"{2 * count} of {2 * len(race.units)} rounds were left out"
    return f"{place_of(workload, timed_pass)}: {note}: the GPU was throttled or its clock low."


def wrong(workload: Workload, timed_pass: Pass, contender: str, error: str) -> str:
    """A contender gave wrong results and keeps its time."""
    return f"{place_of(workload, timed_pass)}: {contender} keeps its time although {error}."


def aside(workload: Workload, contenders: Sequence[str]) -> str | None:
    """Contenders left out for lack of memory; None where none was."""
    if not contenders:
        return None
    verb = "were" if len(contenders) > 1 else "was"
    names = " and ".join(contenders)
    return f"{workload.label()}: {names} {verb} left out: not enough GPU memory next to the other contenders."


def waits(timed_pass: Pass, contenders: Sequence[str]) -> str | None:
    """Contenders that synchronize with the device within a pass; None where none does."""
    if not contenders:
        return None
    verb = "wait" if len(contenders) > 1 else "waits"
    return f"{', '.join(contenders)} {verb} for the device within {timed_pass.value}, so these times include host time."


def rough(workload: Workload, kind: str) -> str | None:
    """The results were checked against less than float64; None where they were not."""
    if kind == "float64":
        return None
    dtype = "its own dtype" if kind == "own" else kind
    return (
        f"{workload.label()}: too little memory for the float64 reference, so the check used the reference in {dtype}."
    )


def _percent(speedup: float) -> str:
    share = abs(speedup - 1)
    return f"{share:.1%} {'faster' if speedup >= 1 else 'slower'}"


MOST_CHARS = 400


@dataclass
class Remarks:
    """The notes of a run in order, each once."""

    notes: list[str] = field(default_factory=list)
    complete: bool = True

    def add(self, note: str | None) -> None:
        """Add a note; None is ignored."""
        if note is not None and note not in self.notes:
            self.notes.append(note)

    def lack(self, note: str) -> None:
        """Note something that was asked for and is not there."""
        self.add(" ".join(note.split())[:MOST_CHARS])
        self.complete = False
