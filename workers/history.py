"""A door: the numbers of a repository's kernels over its commits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gpu_runner.contracts import from_json
from workers.contracts import JobRequest
from workers.nightly.bisection import Bisected, Culprit, Row, StepOutcome, bisect, step_of, value_step, worse_rows
from workers.nightly.detection import LEAST_WINDOW, WRONG, level_changes
from workers.nightly.export import Format, NoParquetError, exported
from workers.nightly.job_numbers import STAGES, base_numbers
from workers.nightly.library_csv import NoLibraryCsvError, read_library_csv
from workers.nightly.planning import Retention, week_start
from workers.nightly.series import KERNEL, Metric, Point, SeriesKey, Testbed
from workers.nightly.simulation import SCENARIOS, Tally, simulate
from workers.nightly.views import (
    ChangeMark,
    ChartLine,
    CommitComparison,
    ComparedSeries,
    Difference,
    HistoryChoice,
    KernelHistory,
    KernelState,
)
from workers.runtime import current
from workers.store import history, history_views, retention
from workers.store.database import Database

__all__ = [
    "KERNEL",
    "SCENARIOS",
    "WRONG",
    "Bisected",
    "ChangeMark",
    "ChartLine",
    "CommitComparison",
    "ComparedSeries",
    "Culprit",
    "Difference",
    "Format",
    "HistoryChoice",
    "Imported",
    "KernelHistory",
    "KernelState",
    "Metric",
    "NoLibraryCsvError",
    "NoParquetError",
    "Point",
    "Retention",
    "Row",
    "StepOutcome",
    "Tally",
    "Testbed",
    "bisect",
    "compare_commits",
    "export",
    "forget",
    "gpus",
    "import_jobs",
    "import_library_csv",
    "kernel_history",
    "kernel_states",
    "last_commit",
    "newest_commits",
    "rename",
    "repositories",
    "simulate",
    "step_of",
    "value_step",
    "warm",
    "worse_rows",
]


@dataclass(frozen=True)
class Imported:
    """What was brought in: ``known`` points were there before, ``dropped`` lines or results cannot be used, as ``problems`` say."""

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


def import_jobs(repository: str) -> Imported:
    """Keep what the repository's earlier jobs measured at the commits that they started from."""
    numbers, problems = list[tuple[SeriesKey, Point]](), list[str]()
    with current().database.write() as session:
        for request, stage, summary, ended_at in history.job_results(session, repository):
            try:
                read = from_json(JobRequest, request), from_json(STAGES[stage], summary)
            except ValueError as error:
                problems.append(f"a result of {request.get('key')} has the form of another version: {error}")
                continue
            numbers += base_numbers(*read, ended_at)
        new = history.add(session, numbers)
    return Imported(new, len(numbers) - new, len(problems), tuple(problems))


def export(repository: str, form: Format) -> bytes:
    """All numbers of a repository as a file.

    Raises:
        NoParquetError: the optional library for Parquet is not installed.
    """
    with current().database.read() as session:
        return exported(history.read(session, repository), form)


def repositories() -> tuple[str, ...]:
    """The repositories that have numbers."""
    with current().database.read() as session:
        return history.repositories(session)


def rename(repository: str, name: str) -> int:
    """Have a repository's numbers go on under its new name, and give how many series that concerns."""
    with current().database.write() as session:
        return history.rename(session, repository, name)


def last_commit(repository: str, not_revision: str = "") -> str | None:
    """The commit that a night measured last; None where there is none besides ``not_revision``."""
    with current().database.read() as session:
        commit = history.last_commit(session, repository, not_revision)
    return None if commit is None else commit[0]


def forget(kept: Retention) -> tuple[int, float]:
    """Remove the points that a policy no longer keeps, and give how many, and by how many seconds ages are behind the clock.

    Points age as artifacts do, so that a clock that jumps ahead removes none.
    """
    runtime = current()
    now = runtime.clock()
    with runtime.database.write() as session:
        retention.move_on(session, now)
        counted_to = retention.counted_to(session, now)
        return history.forget(session, kept, counted_to), now - counted_to


def kernel_states(repository: str, kernel: str | None = None) -> tuple[KernelState, ...]:
    """The state of each kernel of a repository, or of one, on each GPU model."""
    runtime = current()
    with runtime.database.read() as session:
        if kernel is not None:
            return history_views.states(session, repository, runtime.clock(), kernel)
        version = history_views.version(session)
    return _all_states(runtime.database, repository, version, int(runtime.clock() // 3600))


def warm() -> bool:
    """Prepare what the overviews show, so that nobody waits for it after a start or a night; False, as nothing is left to do."""
    names = repositories()
    for name in names:
        kernel_states(name)
    if names:
        level_changes([1.0] * LEAST_WINDOW)  # its first use imports numpy and ruptures, which takes a second
    return False


@lru_cache(maxsize=8)
def _all_states(database: Database, repository: str, _version: object, hour: int) -> tuple[KernelState, ...]:
    # The numbers change once a night and are looked at all day; the hour moves the weeks of the trend on.
    now = (hour + 1) * 3600.0
    with database.read() as session:
        return history_views.states(session, repository, now, past=_past_weeks(database, repository, week_start(now)))


@lru_cache(maxsize=8)
def _past_weeks(_database: Database, _repository: str, _week: float) -> history_views.Trends:
    """What ``states`` keeps of the weeks that are over."""
    return {}


def kernel_history(repository: str, kernel: str, wanted: dict[str, str], last: int | None) -> KernelHistory | None:
    """A kernel's numbers at its ``last`` newest commits, None: all; None where the repository has no such kernel.

    ``wanted`` names gpu, metric, timed_pass, workload, library (the library's own workload) and commit, as far as they are
    chosen; where the commit is older, as many are shown about it.
    """
    with current().database.read() as session:
        return history_views.history_of(session, repository, kernel, wanted, last)


def compare_commits(
    repository: str, before: str, after: str, gpu: str | None = None, metric: Metric | None = None
) -> CommitComparison:
    """Compare two commits, each named by at least four characters, in every series that has a number at one of them."""
    with current().database.read() as session:
        return history_views.comparison(session, repository, before, after, gpu, metric)


def newest_commits(repository: str, most: int) -> tuple[str, ...]:
    """The commits that nights measured last, newest first."""
    with current().database.read() as session:
        return history_views.newest_commits(session, repository, most)


def gpus(repository: str) -> tuple[str, ...]:
    """The GPU models that a repository has numbers of."""
    with current().database.read() as session:
        return history_views.gpus(session, repository)
