"""The commands on recordings of what models answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpu_runner.contracts import to_json
from service.cli.console import EXIT_FAILED, Json, app, reporting, say, tell
from service.cli.jobs import RECORDING_FIX, Out, Repo, ended, run_job
from workers.contracts import Failure, FailureCode, JobView, RecordingUse, UserFacingError

if TYPE_CHECKING:
    from workers.embedded import RecordedJob


@app.command()
def recording(
    path: Annotated[
        Path,
        typer.Argument(
            help="What `--record` wrote, a question's record from a job's page, or a folder of those.", exists=True
        ),
    ],
    as_json: Json = False,
) -> None:
    """Show what the questions of a recording took: tokens, cached tokens, seconds, and money where there is a price.

    No database is needed, and nothing is asked. Requests without a price are priced by KERNELSMITH_MODEL_PRICES.
    Exit 0 done, 2 not a recording, 3 a setting cannot be used.
    """
    from service.report.console import recording_section

    with reporting():
        use = _use(path)
    if as_json:
        typer.echo(json.dumps(to_json(use)))
    else:
        tell(recording_section(use))


def _use(path: Path) -> RecordingUse:
    from workers import embedded

    try:
        return embedded.recording_use(path)
    except embedded.RecordingError as error:
        fix = "Give the folder or the archive that `--record` wrote, or a record of a question from a job's page."
        raise UserFacingError(Failure(FailureCode.problem, str(error), fix)) from error
    except embedded.WrongSettingsError as error:
        raise UserFacingError(Failure(FailureCode.environment, str(error), "Fix it, or unset it.")) from error


@app.command()
def replay(
    recording: Annotated[Path, typer.Argument(help="What `--record` wrote: a folder or an archive.", exists=True)],
    repo: Repo = Path(),
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Repeat a recorded job on a checkout without a model: questions get the recorded answers, all else is done again.

    What passes is proved anew; what a GPU measured is taken from the recording. Where prompts or code have changed, it says which
    question the recording does not hold.
    Exit 0 done, 1 the job stopped or its commits are other ones, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob
    from service.local.session import Rehearsal

    with reporting():
        job = _read(recording)
        base = _base(repo, job)
    asked = LocalJob(
        job.kernel, "", job.options, fresh=True, verb=job.verb, words=job.words, given=job.problem, base=base
    )
    if job.measured:
        say(
            f"{job.measured} measurements are those of the recording: the figures are of the GPU that it was made with."
        )
    again = run_job(asked, repo, out, as_json=as_json, replay=recording, terminal=Rehearsal(job.decisions))
    ended(again)
    if base is not None and not _same(repo, job, again):
        raise typer.Exit(EXIT_FAILED)


def _read(recording: Path) -> RecordedJob:
    from workers import embedded

    try:
        return embedded.recorded(recording)
    except embedded.RecordingError as error:
        raise UserFacingError(Failure(FailureCode.problem, str(error), RECORDING_FIX)) from error


def _same(repo: Path, job: RecordedJob, again: JobView) -> bool:
    """Tell, aloud, whether a job came to the recorded commits; True where the recording does not say what those were."""
    from service.local.checkout import Checkout
    from service.report.layout import counted

    if job.trees is None:
        return True
    checkout = Checkout(repo.resolve())
    trees = checkout.trees(again.request.base_sha, again.head_sha) if again.head_sha else ()
    if trees == job.trees:
        say(
            f"{counted(len(trees), 'commit')}, with the same files as recorded." if trees else "No commit, as recorded."
        )
        return True
    first = next(
        (at for at, (one, other) in enumerate(zip(trees, job.trees, strict=False), 1) if one != other),
        min(len(trees), len(job.trees)) + 1,
    )
    made, then = counted(len(trees), "commit"), len(job.trees)
    say(f"{made}, {then} as recorded; the first with other files than then is number {first}.")
    return False


def _base(repo: Path, job: RecordedJob) -> str | None:
    from service.local.checkout import Checkout

    checkout = Checkout(repo.resolve())
    checkout.head()
    known = checkout.resolve(job.base_sha)
    if known is None:
        say(f"{repo} does not have {job.base_sha[:12]}, where the recording was made; it is repeated on HEAD.")
    return known
