"""Keeping an installation small."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import Json, app
from service.cli.processes import starting
from service.report.layout import counted

if TYPE_CHECKING:
    from workers.embedded import Collected

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove artifacts past retention, and folders that killed processes left in the temporary directory of this machine.

    An installation does this itself at its start and every day. Kept is what a job needs that has not ended, or has a pull request
    that is open, or ended less than KERNELSMITH_KEEP_ARTIFACTS_DAYS ago, and every record of a question to a language model.
    Exit 0 done, 2 a setting cannot be used, 3 the database or the artifacts cannot be reached.
    """
    from workers import embedded

    with starting():
        embedded.from_environment()
        made = embedded.collect(dry_run=dry_run)
    typer.echo(json.dumps(asdict(made), default=str) if as_json else _told(made, dry_run=dry_run))


def _told(made: Collected, *, dry_run: bool) -> str:
    would = "Would remove" if dry_run else "Removed"
    jobs = f", {counted(len(made.jobs), 'job')} past retention: {', '.join(made.jobs)}" if made.jobs else ""
    return (
        f"{would} {counted(made.artifacts, 'artifact')} ({size(made.artifact_bytes)}{jobs}) and "
        f"{counted(len(made.folders), 'leftover folder')} ({size(made.folder_bytes)}). Kept: {size(made.kept_bytes)}."
    )


def size(count: float) -> str:
    """Give a number of bytes as people read it."""
    for unit in UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == UNITS[0] else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {UNITS[-1]}"
