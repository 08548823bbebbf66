"""A door: the numbers of a repository's kernels over its commits."""

from __future__ import annotations

from dataclasses import dataclass

from workers.nightly.bisection import Bisected, Culprit, Step, bisect
from workers.nightly.export import Format, NoParquetError, exported
from workers.nightly.library_csv import NoLibraryCsvError, read_library_csv
from workers.nightly.retention import Retention
from workers.nightly.simulation import SCENARIOS, Tally, simulate
from workers.runtime import current
from workers.store import history

__all__ = [
    "SCENARIOS",
    "Bisected",
    "Culprit",
    "Format",
    "Imported",
    "NoLibraryCsvError",
    "NoParquetError",
    "Retention",
    "Step",
    "Tally",
    "bisect",
    "export",
    "forget",
    "import_library_csv",
    "last_commit",
    "repositories",
    "simulate",
]


@dataclass(frozen=True)
class Imported:
    """What became of a CSV's lines: ``known`` points were there before, ``dropped`` lines cannot be used, as ``problems`` say."""

    new: int
    known: int
    dropped: int
    problems: tuple[str, ...]


def import_library_csv(text: str, repository: str) -> Imported:
    """Keep the numbers of a library's own CSV.

    Raises:
        NoLibraryCsvError: the text is no such CSV; nothing was kept.
    """
    rows = read_library_csv(text, repository)
    with current().database.write() as session:
        new = history.add(session, rows.numbers)
    return Imported(new, len(rows.numbers) - new, rows.dropped, rows.problems)


def export(repository: str, form: Format) -> bytes:
    """Give all numbers of a repository as a file.

    Raises:
        NoParquetError: the optional library for Parquet is not installed.
    """
    with current().database.read() as session:
        return exported(history.read(session, repository), form)


def repositories() -> tuple[str, ...]:
    """Give the repositories that have numbers."""
    with current().database.read() as session:
        return history.repositories(session)


def last_commit(repository: str, not_revision: str = "") -> str | None:
    """Give the commit that a night measured last; None where there is none besides ``not_revision``."""
    with current().database.read() as session:
        found = history.last_commit(session, repository, not_revision)
    return None if found is None else found[0]


def forget(retention: Retention) -> int:
    """Remove the points that a policy no longer keeps, and give how many."""
    runtime = current()
    with runtime.database.write() as session:
        return history.forget(session, retention, runtime.clock())
