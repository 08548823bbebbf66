"""The numbers of past nights: brought in, handed out, and cut."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import app, reporting, say, tell
from workers.contracts import Failure, FailureCode, UserFacingError

if TYPE_CHECKING:
    from workers.history import Tally

DAY_S = 86_400.0

Checkout = Annotated[
    Path | None, typer.Option("--repo", help="A checkout, whose own database is used.", exists=True, file_okay=False)
]
Repository = Annotated[
    str | None, typer.Option(help="owner/name in this installation's database, instead of a checkout.")
]


@app.command("import-history")
def import_history(
    file: Annotated[
        Path, typer.Argument(help="A CSV like liger-kernel's all_benchmark_data.csv.", exists=True, dir_okay=False)
    ],
    repo: Checkout = None,
    repository: Repository = None,
) -> None:
    """Import the numbers of a library's own benchmark CSV; lines that are already known change nothing.

    Exit 0 done, 2 the file is no such CSV.
    """
    from workers import history

    with reporting():
        name = _named(repo, repository)
        try:
            # The bytes of a file that is not UTF-8 are shown as what they are not, and no line is lost for them.
            done = history.import_library_csv(file.read_text(encoding="utf-8", errors="replace"), name)
        except history.NoLibraryCsvError as error:
            fix = "Give the CSV that the library's benchmark scripts write."
            raise UserFacingError(Failure(FailureCode.problem, f"{file}: {error}", fix)) from error
    for problem in done.problems:
        say(f"{file}: {problem}")
    say(f"{name}: {done.new} points are new, {done.known} were known, {done.dropped} lines cannot be used.")


@app.command("import-jobs")
def import_jobs(repo: Checkout = None, repository: Repository = None) -> None:
    """Import what earlier jobs measured of the repository's own kernels, at the commits that they started from.

    Exit 0 done, 2 what is named cannot be used.
    """
    from workers import history

    with reporting():
        name = _named(repo, repository)
        done = history.import_jobs(name)
    for problem in done.problems:
        say(problem)
    say(f"{name}: {done.new} points are new, {done.known} were known, {done.dropped} results cannot be used.")


@app.command("export-history")
def export_history(
    out: Annotated[Path, typer.Argument(help="The file to write: .csv, .json or .parquet.")],
    repo: Checkout = None,
    repository: Repository = None,
) -> None:
    """Export all numbers of a repository to a file, one row per point; times are in UTC.

    Exit 0 done, 2 there is nothing to write or no such format, 3 pyarrow is not installed or the file cannot be written.
    """
    from workers import history

    with reporting():
        form = next((form for form in history.Format if out.suffix.lower() == f".{form.value}"), None)
        if form is None:
            known = ", ".join(f".{form.value}" for form in history.Format)
            raise UserFacingError(Failure(FailureCode.problem, f"{out} has no known suffix", f"Use one of {known}."))
        name = _known(repo, repository)
        try:
            content = history.export(name, form)
        except history.NoParquetError as error:
            raise UserFacingError(Failure(FailureCode.environment, str(error))) from error
        out.write_bytes(content)
    say(f"Wrote {out}.")


@app.command("export-pages")
def export_pages(
    folder: Annotated[
        Path, typer.Argument(help="Where to write; files of an earlier export are replaced.", file_okay=False)
    ],
    repo: Checkout = None,
    repository: Repository = None,
    github: Annotated[
        str | None, typer.Option(help="Where commits are linked; by default https://github.com/ and --repository.")
    ] = None,
    commits: Annotated[int, typer.Option(min=2, help="How many of the newest commits a chart has.")] = 200,
    comparisons: Annotated[int, typer.Option(min=0, help="How many of the newest commits are compared.")] = 20,
) -> None:
    """Export the pages of a repository's kernels with JSON and badges, for GitHub Pages: every link is relative.

    Exit 0 done, 2 there is nothing to write, 3 the folder cannot be written to.
    """
    from service.pages.export import export_pages as export

    with reporting():
        name = _known(repo, repository)
        if github is not None and not re.fullmatch(r"https?://[^\s\"'<>]+", github):
            fix = "Give an address such as https://github.com/owner/name."
            raise UserFacingError(Failure(FailureCode.problem, f"{github!r} is not an address", fix))
        url = github or (f"https://github.com/{name}" if repository else None)
        count = export(folder, name, None if url is None else url.rstrip("/"), commits, comparisons)
    say(f"Wrote {count} files; open {folder / 'index.html'}.")


@app.command("prune-history")
def prune_history(
    repo: Checkout = None,
    days: Annotated[float, typer.Option(min=1, help="Keep every point for so many days, then one a week.")] = 400,
    weekly_days: Annotated[float, typer.Option(min=1, help="Keep the weekly points for so many days.")] = 3650,
) -> None:
    """Remove old points of all repositories; the newest of a series, those of a change and imports stay."""
    from workers import history

    with reporting():
        _opened(repo)
        removed, behind_s = history.forget(history.Retention(days, weekly_days))
    behind = f" Ages are counted up to {behind_s / DAY_S:.0f} days ago (`ages_behind`)." if behind_s > 2 * DAY_S else ""
    say(f"{removed} points were removed.{behind}")


@app.command("simulate-nights")
def simulate_nights(
    series_nights: Annotated[int, typer.Option(min=30, help="Series times nights, for each scenario.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the random numbers: the same seed gives the same table.")] = 0,
) -> None:
    """Simulate nights with measured noise: how often a change is reported where there is none, and how soon one is found."""
    from workers import history

    head = (
        "scenario",
        "series-nights",
        "compared",
        "false alarms",
        "undecided",
        "found",
        "in the same night",
        "median",
    )
    lines = [_tally_line(history.simulate(scenario, series_nights, seed)) for scenario in history.SCENARIOS]
    tell("\n".join([f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1), *lines]))


def _tally_line(tally: Tally) -> str:
    planted = tally.scenario.step > 1 and not tally.scenario.new_testbed
    counts = (f"{tally.found} of {tally.series}", f"{tally.at_once}", f"{tally.median_nights} nights")
    cells = (
        tally.scenario.name,
        f"{tally.nights}",
        f"{tally.candidates} ({tally.candidates / tally.nights:.2%})",
        f"{tally.false_alarms} ({tally.false_alarms / tally.nights:.4%})",
        f"{tally.undecided}",
        *(counts if planted else ("", "", "")),
    )
    return f"| {' | '.join(cells)} |"


def _known(repo: Path | None, repository: str | None) -> str:
    """Choose the database, and give the name of the repository, of which it has numbers.

    Raises:
        UserFacingError: it has none, or what is named cannot be used.
    """
    from workers import history

    name = _named(repo, repository)
    if name not in history.repositories():
        there = ", ".join(history.repositories()) or "none"
        message = f"nothing was measured or imported for {name}; this database has: {there}"
        fix = "Measure with `kernelsmith nightly`, or import with `import-history` or `import-jobs`."
        raise UserFacingError(Failure(FailureCode.missing, message, fix))
    return name


def _named(repo: Path | None, repository: str | None) -> str:
    """Choose the database, and give the name that the repository has in it.

    Raises:
        UserFacingError: neither or both are named, or the checkout is none.
    """
    if (repo is None) == (repository is None):
        raise UserFacingError(Failure(FailureCode.problem, "give either --repo CHECKOUT or --repository owner/name"))
    return _opened(repo) or repository or ""


def _opened(repo: Path | None) -> str | None:
    """Choose a checkout's own database and give the checkout's name in it; without a checkout the installation's database.

    Raises:
        UserFacingError: the folder is no checkout, or a setting of the environment cannot be used.
    """
    from service.cli.jobs import open_state
    from service.local.asking import repository_name
    from service.local.checkout import Checkout as LocalCheckout
    from workers import embedded

    if repo is None:
        try:
            embedded.from_environment()
        except embedded.WrongSettingsError as error:
            raise UserFacingError(Failure(FailureCode.environment, str(error), "Correct it, or unset it.")) from error
        return None
    checkout = LocalCheckout(repo.resolve())
    checkout.head()
    open_state(checkout)
    return repository_name(checkout)
