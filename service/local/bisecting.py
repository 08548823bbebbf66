"""Bisection on a checkout: which commits lie in a range, merges looked into, and what a comparison of two of them came to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpu_runner.contracts import Status
from service.local.asking import as_commands
from service.local.checkout import Checkout
from workers.contracts import Failure, FailureCode, MeasuredKernel, Suspect, UserFacingError
from workers.history import WRONG, Culprit, Row, StepOutcome, bisect, step_of, value_step, worse_rows

Sizes = tuple[str, ...]  # by their labels; none: all
Compared = Callable[[str, str, Sizes], MeasuredKernel]  # the older and the newer commit, and what is timed of them
Proved = Callable[[str, str], Status | None]  # the verdict on the second next to the first; None: it cannot be judged


@dataclass
class RangeSearch:
    """Searches ranges of one kernel. ``rows`` are what became worse over the whole range: nothing else decides a step."""

    checkout: Checkout
    compare: Compared
    prove: Proved
    rows: frozenset[Row] = frozenset()
    steps: int = 0
    gpu: str = ""  # on which the last comparison ran
    known: dict[tuple[str, str], StepOutcome] = field(default_factory=dict)
    verdicts: dict[str, Status | None] = field(default_factory=dict)  # on commits, each next to the good end
    wrong: Status | None = None  # at the bad end, where values are what is searched
    good: str = ""  # the good end

    def run(self, good: str, bad: str) -> tuple[StepOutcome, tuple[Suspect, ...]]:
        """What the last commit is against the first, and who made it so.

        Raises:
            UserFacingError: the range is none, a comparison could not be made, no GPU was there, or an end lacks the kernel.
        """
        commits = self._line(good, bad)
        self.good = good
        if self._verdict(bad) in WRONG:
            self.wrong = self._verdict(bad)
            result = bisect(len(commits), self._steps(commits))
            return result.whole, tuple(one for culprit in result.culprits for one in self._suspects(commits, culprit))
        self.steps = 0
        whole = self._compared(good, bad)
        if whole.skipped is not None and whole.skipped.code is FailureCode.missing:
            raise UserFacingError(replace(whole.skipped, fix=as_commands(whole.skipped.fix or "")))
        self.rows = worse_rows(whole.benchmark)
        if not self.rows:
            return judged(whole, None), ()
        self.known[good, bad] = StepOutcome.slower
        result = bisect(len(commits), self._steps(commits))
        return result.whole, tuple(one for culprit in result.culprits for one in self._suspects(commits, culprit))

    def _line(self, good: str, bad: str) -> tuple[str, ...]:
        """The commits of a branch from one to another: of a merge the merge itself, not what it brought."""
        if good == bad or self.checkout.merge_base(good, bad) != good:
            fix = "Name a commit and one that follows on it: GOOD..BAD."
            raise UserFacingError(Failure(FailureCode.problem, f"{bad[:12]} does not follow on {good[:12]}", fix))
        line = self.checkout.text("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        return (good, *line)

    def _steps(self, commits: Sequence[str]) -> Callable[[int, int], StepOutcome]:
        return lambda old, new: self._step(commits[old], commits[new])

    def _verdict(self, commit: str) -> Status | None:
        """The verdict on a commit; what cannot be proved passes where the good end cannot be proved either."""
        if commit == self.good:
            # Where it is wrong itself, no commit is called wrong next to it.
            return Status.passed
        status = self._judged(commit)
        is_as_good = status is Status.unproved and self._judged(self.good) is Status.unproved
        return Status.passed if is_as_good else status

    def _judged(self, commit: str) -> Status | None:
        if commit not in self.verdicts:
            self.steps += 1
            self.verdicts[commit] = self.prove(self.good, commit)
        return self.verdicts[commit]

    def _step(self, old: str, new: str) -> StepOutcome:
        if self.wrong is not None:
            return value_step(self._verdict(old), self._verdict(new), self.wrong)
        if (old, new) not in self.known:
            self.known[old, new] = judged(self._compared(old, new), self.rows)
        return self.known[old, new]

    def _compared(self, old: str, new: str) -> MeasuredKernel:
        self.steps += 1
        # All of the time goes to the sizes that count: a step without one of them decides nothing.
        comparison = self.compare(old, new, tuple(sorted({size for _, _, size in self.rows})))
        self.gpu = (comparison.benchmark.gpu if comparison.benchmark is not None else None) or self.gpu
        return comparison

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
        result = bisect(len(commits), self._steps(commits))
        return tuple(
            Suspect(tuple(commits[one.good + 1 : one.bad + 1]), tuple(commits[place] for place in one.unjudged), commit)
            for one in result.culprits
        )


def judged(kernel: MeasuredKernel, rows: frozenset[Row] | None) -> StepOutcome:
    """What a comparison says about the rows that count.

    Raises:
        UserFacingError: the GPU host is at fault, or there was no GPU: nothing is known of the commits.
    """
    if kernel.skipped is not None and kernel.skipped.code is FailureCode.environment:
        raise UserFacingError(kernel.skipped)
    if kernel.benchmark is not None and kernel.benchmark.predicted:
        fix = "Run it on a machine with a GPU; finished steps are kept in the checkout's git folder."
        raise UserFacingError(Failure(FailureCode.environment, "no GPU is available, so nothing was timed", fix))
    return step_of(kernel.benchmark, rows)
