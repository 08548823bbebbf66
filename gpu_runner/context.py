"""What an action is carried out with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpu_runner.contracts.envelope import Isolation, Limits


def _silent(_: str) -> None:
    return


@dataclass
class RunContext:
    """``folder`` is the request's, with its tarballs in it. Actions add their children's levels to ``isolation``."""

    folder: Path
    limits: Limits = field(default_factory=Limits)
    require: tuple[Isolation, ...] = ()
    progress: Callable[[str], None] = _silent  # one line of what is going on
    seed: str | None = None  # of a verdict that a person repeats on the command line; no request can carry one
    isolation: list[tuple[Isolation, ...]] = field(default_factory=list)

    def tree(self, name: str | None) -> Path | None:
        """The tarball of that name in the request's folder.

        Raises:
            ValueError: the name leads elsewhere, or there is no such file.
        """
        if name is None:
            return None
        path = self.folder / name
        if Path(name).name != name or not path.is_file():
            raise ValueError(f"there is no tarball {name!r} next to the request")
        return path

    def levels(self) -> tuple[Isolation, ...]:
        """The levels in force in every child of the action."""
        if not self.isolation:
            return ()
        return tuple(level for level in Isolation if all(level in levels for levels in self.isolation))
