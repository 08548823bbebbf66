"""What a change of a standing kernel comes to: which lines, and which tests."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_runner.contracts import CaseOutcome


@dataclass(frozen=True)
class ChangedFile:
    """A file that a change touches, with how many lines come and go."""

    path: str
    added: int
    removed: int


@dataclass(frozen=True)
class AddedTest:
    """A test that a change adds. ``before`` is what becomes of it without the change, None where it cannot be run there."""

    node: str
    before: CaseOutcome | None
    after: CaseOutcome
