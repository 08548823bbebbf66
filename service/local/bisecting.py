"""Bisection on a checkout: which commits lie in a range, merges looked into, and what a comparison of two of them came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpu_runner.contracts import BenchmarkResult, Word
from service.local.checkout import Checkout
from workers.contracts import Failure, FailureCode, MeasuredKernel, UserFacingError
from workers.history import Culprit, Step, bisect

LARGER = 1.01  # peak memory, new over old
MEMORY = "peak memory"
Row = tuple[str, str, str]  # time or peak memory, pass, size
Compared = Callable[[str, str], MeasuredKernel]  # the older and the newer commit


@dataclass(frozen=True)
class Suspect:
    """A commit, or several in a row, oldest first, of which one made the kernel worse. ``merge`` brought them, where one did."""

    commits: tuple[str, ...]
    unjudged: tuple[str, ...] = ()
    merge: str | None = None


@dataclass
class RangeSearch:
    """Searches ranges of one kernel. ``rows`` are what became worse over the whole range: nothing else decides a step."""

    checkout: Checkout
    compare: Compared
    rows: frozenset[Row] = frozenset()
    steps: int = 0
    known: dict[tuple[str, str], Step] = field(default_factory=dict)

    def run(self, good: str, bad: str) -> tuple[Step, tuple[Suspect, ...]]:
        """What the last commit is against the first, and who made it so.

        Raises:
            UserFacingError: the range is none, a comparison could not be made, or no GPU was there.
        """
        commits = self._line(good, bad)
        whole = self._compared(good, bad)
        self.rows = worse_rows(whole)
        if not self.rows:
            return step_of(whole, frozenset(_words(whole.benchmark))), ()
        self.known[good, bad] = Step.slower
        found = bisect(len(commits), self._steps(commits))
        return found.whole, tuple(one for culprit in found.culprits for one in self._suspects(commits, culprit))

    def _line(self, good: str, bad: str) -> tuple[str, ...]:
        """The commits of a branch from one to another: of a merge the merge itself, not what it brought."""
        if self.checkout.merge_base(good, bad) != good:
            fix = "Name a commit and one that follows on it: GOOD..BAD."
            raise UserFacingError(Failure(FailureCode.problem, f"{bad[:12]} does not follow on {good[:12]}", fix))
        line = self.checkout.text("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        return (good, *line)

    def _steps(self, commits: Sequence[str]) -> Callable[[int, int], Step]:
        return lambda old, new: self._step(commits[old], commits[new])

    def _step(self, old: str, new: str) -> Step:
        if (old, new) not in self.known:
            self.known[old, new] = step_of(self._compared(old, new), self.rows)
        return self.known[old, new]

    def _compared(self, old: str, new: str) -> MeasuredKernel:
        self.steps += 1
        return self.compare(old, new)

    def _suspects(self, commits: Sequence[str], culprit: Culprit) -> tuple[Suspect, ...]:
        between = tuple(commits[culprit.good + 1 : culprit.bad + 1])
        if len(between) == 1:
            inner = self._inside(between[0])
            if inner:
                return inner
        return (Suspect(between, tuple(commits[place] for place in culprit.unjudged)),)

    def _inside(self, commit: str) -> tuple[Suspect, ...]:
        """Look into a merge: the branch that it brought, from where that began. Nothing where the branch alone is not slower."""
        parents = self.checkout.text("rev-list", "--parents", "-n", "1", commit).split()[1:]
        if len(parents) < 2:
            return ()
        start = self.checkout.merge_base(parents[0], parents[1])
        if start == parents[1]:
            return ()
        commits = self._line(start, parents[1])
        found = bisect(len(commits), self._steps(commits))
        return tuple(
            Suspect(tuple(commits[one.good + 1 : one.bad + 1]), tuple(commits[place] for place in one.unjudged), commit)
            for one in found.culprits
        )


def worse_rows(kernel: MeasuredKernel) -> frozenset[Row]:
    """What is slower or larger; of a kernel that could not be measured, nothing."""
    words = _words(kernel.benchmark)
    return frozenset(row for row, word in words.items() if word is Word.slower)


def step_of(kernel: MeasuredKernel, rows: frozenset[Row]) -> Step:
    """What a comparison says about the rows that count.

    Raises:
        UserFacingError: the GPU host is at fault, or there was no GPU: nothing is known of the commits.
    """
    if kernel.skipped is not None and kernel.skipped.code is FailureCode.environment:
        raise UserFacingError(kernel.skipped)
    if kernel.benchmark is not None and kernel.benchmark.predicted:
        fix = "Run it on a machine with a GPU; finished steps are kept in the checkout's git folder."
        raise UserFacingError(Failure(FailureCode.environment, "no GPU is here, so that nothing was timed", fix))
    words = _words(kernel.benchmark)
    counted = [words[row] for row in sorted(rows) if row in words]
    if any(word is Word.slower for word in counted):
        return Step.slower
    if kernel.benchmark is None or len(counted) < len(rows):
        return Step.broken
    return Step.undecided if any(word is Word.undecided for word in counted) else Step.same


def _words(result: BenchmarkResult | None) -> dict[Row, Word]:
    words: dict[Row, Word] = {}
    for row in result.rows if result is not None else ():
        place = (row.timed_pass.value, row.workload.label())
        for one in row.comparisons:
            if (one.contender, one.baseline) == ("candidate", "original"):
                words["time", *place] = one.word
        if row.memory_ratio is not None:
            words[MEMORY, *place] = Word.slower if row.memory_ratio > LARGER else Word.same
    return words
