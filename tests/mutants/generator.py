"""Mutants of honest candidates: one fault in the syntax tree of a file whose verdict is known to pass. Pure.

A mutant is (candidate, class of fault, number of the edit), so that each can be made again by its name.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from gpu_runner.contracts import CandidateSource, SourceFile
from tests.honest.table import HONEST, KERNELS
from tests.mutants import host_faults, kernel_faults
from tests.mutants.places import Edit

FAULTS: dict[str, Callable[[ast.Module], Iterator[Edit]]] = {
    function.__name__: function
    for function in (
        kernel_faults.constants, kernel_faults.epsilon_dropped, kernel_faults.comparisons, kernel_faults.masked_values,
        kernel_faults.masks_dropped, kernel_faults.terms_dropped, kernel_faults.operators, kernel_faults.operands,
        kernel_faults.names, kernel_faults.axes, kernel_faults.loop_bounds, kernel_faults.narrow_casts,
        kernel_faults.casts_dropped, kernel_faults.scales, kernel_faults.ranges, kernel_faults.late_writes,
        kernel_faults.rows_skipped, kernel_faults.size_guards, kernel_faults.dtype_faults, kernel_faults.values_guarded,
        kernel_faults.atomics, host_faults.host_numbers, host_faults.strides, host_faults.layouts, host_faults.buffers,
        host_faults.launch_arguments, host_faults.grids, host_faults.conditions, host_faults.gradients,
        host_faults.computed_by_torch, host_faults.saved_tensors, host_faults.names_on_the_host,
    )
}  # fmt: skip
CANDIDATES = tuple(sorted(name for name in HONEST if (KERNELS / f"{name}.py").is_file()))


@dataclass(frozen=True, order=True)
class Mutant:
    """One fault in one candidate."""

    candidate: str
    fault: str
    number: int

    def __str__(self) -> str:
        return f"{self.candidate}:{self.fault}:{self.number}"

    @classmethod
    def named(cls, text: str) -> Mutant:
        """The mutant of a name."""
        candidate, fault, number = text.split(":")
        return cls(candidate, fault, int(number))


def original(candidate: str) -> str:
    """The text of an honest candidate, written from its tree as a mutant's is."""
    return ast.unparse(ast.parse((KERNELS / f"{candidate}.py").read_text()))


@functools.cache
def room(candidate: str) -> dict[str, int]:
    """How many edits of each class of fault a candidate has room for."""
    tree = ast.parse(original(candidate))
    counts = {name: sum(1 for _ in fault(tree)) for name, fault in FAULTS.items()}
    return {name: count for name, count in counts.items() if count}


def mutated(mutant: Mutant) -> tuple[str, str]:
    """A mutant's text, and what was changed, with its line."""
    tree = ast.parse(original(mutant.candidate))
    edit = list(FAULTS[mutant.fault](tree))[mutant.number]
    edit.apply()
    return ast.unparse(ast.fix_missing_locations(tree)), f"line {edit.line}: {edit.what}"


def is_changed(mutant: Mutant) -> bool:
    """Whether a mutant's tree is another one than the candidate's, and Python at all."""
    try:
        return ast.dump(ast.parse(mutated(mutant)[0])) != ast.dump(ast.parse(original(mutant.candidate)))
    except SyntaxError:
        return False


def source(mutant: Mutant) -> CandidateSource:
    """A mutant as it is sent to the runner."""
    row = HONEST[mutant.candidate]
    return CandidateSource((SourceFile("candidate.py", mutated(mutant)[0]),), module=row.module, symbol=row.symbol)


@st.composite
def mutants(draw: st.DrawFn, candidates: tuple[str, ...] = CANDIDATES) -> Mutant:
    """Mutants: a candidate, a class of fault that it has room for, a place and what is put there."""
    candidate = draw(st.sampled_from(candidates))
    fault = draw(st.sampled_from(sorted(room(candidate))))
    return Mutant(candidate, fault, draw(st.integers(0, room(candidate)[fault] - 1)))


def drawn(count: int, number: int, candidates: tuple[str, ...] = CANDIDATES) -> tuple[Mutant, ...]:
    """As many distinct mutants as wanted, the same ones for the same seed; hypothesis draws them."""
    found: dict[Mutant, None] = {}
    for attempt in range(200):
        if len(found) >= count:
            break

        @seed(number * 1000 + attempt)
        @settings(
            max_examples=500,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(mutants(candidates))
        def collect(mutant: Mutant) -> None:
            found[mutant] = None

        collect()
    return tuple(found)[:count]
