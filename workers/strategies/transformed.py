"""A strategy that gives each kernel of a file another form, with settings of the host to be tuned. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workers.contracts import Notes, PlannedStrategy
from workers.strategies.evidence import Worth, bound_of, nothing_foreseen, share_sentence
from workers.strategies.fitting import KeptError, fitted
from workers.strategies.host_settings import can_look_up, has_lookup, knobs_in, settled_settings, with_lookup
from workers.strategies.protocol import DoesNotApply, Proposed, Situation, Stands
from workers.strategies.syntax import KernelFile, parsed
from workers.tree import Tree

MOST_TOLD = 3


@dataclass(frozen=True)
class Place:
    """A kernel of a file, and the files around it. ``tuned``: settings are looked up where that can be."""

    original: KernelFile  # before any kernel of it was changed
    file: KernelFile
    kernel: str
    tree: Tree
    path: str
    tuned: bool


@dataclass(frozen=True)
class Transformed:
    """A file as it shall be, the kernels that were changed, and why the others were not."""

    source: str
    kernels: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]

    @property
    def sentence(self) -> str:
        """Tell why the first kernels were left alone."""
        told = "; ".join(f"`{name}`: {reason}" for name, reason in self.kept[:MOST_TOLD])
        return f"{told}." if told else "The file launches no kernel of its own."


@dataclass(frozen=True)
class Transformation:
    """One other form of kernels. ``change`` gives the whole file with one kernel changed, or raises a ``KeptError``."""

    id: str
    title: str
    document: str
    change: Callable[[Place], str]
    settings: tuple[str, ...]  # what the host looks up
    worth: Callable[[Situation, Transformed], Worth | None]
    unworthy: str  # the sentence where ``worth`` finds no evidence
    hypothesis: str
    changes: str
    expected: str
    foreseen: Callable[[Situation], Worth | None] = nothing_foreseen  # by the problem alone
    needs_kernel: bool = False

    def plan(self, situation: Situation) -> PlannedStrategy | None:
        """It is worth a try where a kernel can be changed and what was measured speaks for it, or where the problem alone does."""
        try:
            worth = self.foreseen(situation) if situation.stands is Stands.nothing else self._worth(situation)
        except ValueError:
            return None
        if worth is None:
            return None
        told = share_sentence(situation)
        trigger = f"{worth.trigger}{'; ' + told if told else ''}."
        gains = (worth.gain_low, worth.gain_high)
        return PlannedStrategy(self.id, self.title, trigger, *gains, bound_of(situation))

    def _worth(self, situation: Situation) -> Worth | None:
        found = transformed(situation, self.change)
        return self.worth(situation, found) if found.kernels else None

    def propose(self, situation: Situation) -> Proposed | DoesNotApply:
        """Give the file with every kernel changed that can be; with no setting found it is not looked up."""
        try:
            plain = transformed(situation, self.change)
            looking_up = transformed(situation, self.change, tuned=True)
        except ValueError as error:
            return DoesNotApply(f"The source was not understood: {error}.")
        if not plain.kernels:
            return DoesNotApply(plain.sentence)
        if self.worth(situation, plain) is None:
            return DoesNotApply(self.unworthy)
        named = ", ".join(f"`{name}`" for name in plain.kernels)
        notes = Notes(self.hypothesis, f"{self.changes}: {named}.", self.expected)
        knobs = knobs_in(looking_up.source, self.settings) if looking_up.kernels == plain.kernels else ()
        if not knobs:
            return Proposed(plain.source, notes)
        text = looking_up.source
        return Proposed(text, notes, knobs, lambda _, table: settled_settings(text, plain.source, table, self.settings))


def transformed(situation: Situation, change: Callable[[Place], str], *, tuned: bool = False) -> Transformed:
    """Change one kernel after the other.

    Raises:
        ValueError: the file cannot be parsed.
    """
    source, path = situation.source, situation.standing.path
    original = file = parsed(source)
    tuned = tuned and can_look_up(file)
    changed: list[str] = []
    kept: list[tuple[str, str]] = []
    for name in dict.fromkeys(launch.kernel for launch in file.launches):
        try:
            file = parsed(fitted(change(Place(original, file, name, situation.tree, path, tuned)), file.source))
            changed.append(name)
        except KeptError as error:
            kept.append((name, str(error)))
    text = with_lookup(file.source) if tuned and not has_lookup(file) else file.source
    return Transformed(text, tuple(changed), tuple(kept))
