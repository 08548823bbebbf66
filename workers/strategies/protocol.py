"""What a strategy gets and gives. Pure: source in, source out; nothing of the repository is executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from gpu_runner.contracts import BenchmarkResult, Bound, Graph, Knob, Pass, Problem
from gpu_runner.contracts.reading import language_of
from workers.authors.protocol import Author, SourceStyle
from workers.contracts import Goal, Notes, PlannedStrategy, Scope, SourceReading, Variant
from workers.layouts.protocol import ExistingKernel
from workers.tree import Tree


class ModelTurn(StrEnum):
    """When a model's changes come."""

    never = "never"  # none is configured, or the command rules it out
    last = "last"  # after what needs none, where that has left something to gain
    first = "first"  # right after the sweep


class Stands(StrEnum):
    """What exists of a kernel before it is changed or written."""

    kernel = "kernel"  # one of the library: it is called by others, and was measured
    start = "start"  # a text to start from, which nobody calls yet
    nothing = "nothing"  # its problem alone


@dataclass(frozen=True)
class Situation:
    """A strategy's input. ``source`` is the file of the variant to start from, ``original`` that of v0.

    For a kernel that is yet to be written ``kernel`` is its future place, both texts are that of the start or empty, and
    ``benchmark`` has no rows where the start was not measured.
    """

    kernel: ExistingKernel
    problem: Problem
    graph: Graph | None  # None: the problem could not be traced; compiled kernels are then out of reach
    source: str
    original: str
    reading: SourceReading
    benchmark: BenchmarkResult  # of v0
    bounds: tuple[tuple[Pass, Bound], ...]  # what limits each pass, as far as it is known
    goal: Goal
    scope: Scope
    overwrites: tuple[str, ...]  # inputs, and "upstream N", that v0 overwrites and a variant may
    tree: Tree
    style: SourceStyle
    author: Author
    earlier: tuple[Variant, ...] = ()
    model: ModelTurn = ModelTurn.never
    stands: Stands = Stands.kernel

    @property
    def language(self) -> str:
        """The language of the file's kernels; in others than Triton the sweep alone reads and writes."""
        return language_of([self.source])


@dataclass(frozen=True)
class Proposed:
    """A change: the whole new file, with notes written before it runs.

    ``knobs`` are settings for the runner to tune before the variant is judged, looked up by the source in its ``TUNED``;
    ``settle`` returns the file with the measured table (by architecture) in it.
    """

    source: str
    notes: Notes
    knobs: tuple[Knob, ...] = ()
    settle: Callable[[str, Table], str] | None = None
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class DoesNotApply:
    """Why a strategy changes nothing here, one sentence."""

    sentence: str


class Strategy(Protocol):
    """One way to make a kernel faster; the same situation always gives the same answer."""

    @property
    def id(self) -> str:
        """Its name in the table."""
        ...

    @property
    def title(self) -> str:
        """Its name for people."""
        ...

    @property
    def document(self) -> str:
        """The name of its file in docs/knowledge/optimizations/."""
        ...

    @property
    def needs_kernel(self) -> bool:
        """Whether it is for a kernel of the library alone: it measures settings, or keeps the calls that there are."""
        ...

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """Whether its trigger applies, with the evidence and the expected gain."""
        ...

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """The changed file."""
        ...


# Architecture such as "sm_90", then pass, then (size up to, settings), sizes rising; the form of ``TuneResult.table``.
Table = tuple[tuple[str, tuple[tuple[str, tuple[tuple[int, tuple[tuple[str, int], ...]], ...]], ...]], ...]
