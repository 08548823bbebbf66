"""Finds, for a case of large or odd values, how far they may go before the reference itself can no longer be judged by. Thin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gpu_runner.contracts.problem import Problem
from gpu_runner.verify.cases import Case, Content, holds
from gpu_runner.verify.extremes import MOST_LOGIT, REACHES
from gpu_runner.verify.held import is_judgeable, with_held
from gpu_runner.verify.proof import Proof

MOST_ALONE = 2  # inputs that are tried by themselves

Prove = Callable[[Case], Proof | None]


def farthest(case: Case, problem: Problem, prove: Prove) -> Proof | None:
    """Give a case with the farthest values that can be judged, its truth and which elements count; None where there are none.

    ``prove`` gives the truth of a case, None where the reference does not run.
    """
    first = None
    for attempt in _attempts(case, problem):
        sizes = attempt.sizes if first is None else first.case.sizes  # those at which the reference runs
        proof = prove(replace(attempt, sizes=sizes))
        if proof is None:
            return first if case.content is Content.odd else None
        proof = with_held(proof)
        if is_judgeable(proof):
            return proof
        first = first or proof
    # Where all that is left is NaN, a candidate must not hide it.
    return first if case.content is Content.odd else None


def _attempts(case: Case, problem: Problem) -> Iterator[Case]:
    if case.content is Content.large:
        values = any(holds(spec, Content.odd) for spec in problem.inputs)  # or there are distributions alone
        for reach in REACHES[case.dtype] if values else (MOST_LOGIT,):
            yield replace(case, reach=reach)
        return
    yield case
    able = [spec.name for spec in problem.inputs if holds(spec, case.content)]
    for name in able[:MOST_ALONE] if len(able) > 1 else []:
        yield replace(case, among=(name,))
