"""A recorded job again, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import Json, app, reporting, say
from service.cli.jobs import Out, Repo, ended, run_job
from workers.contracts import Failure, FailureCode, UserFacingError

if TYPE_CHECKING:
    from workers.embedded import RecordedJob


@app.command()
def replay(
    recording: Annotated[Path, typer.Argument(help="What `--record` wrote: a folder or an archive.", exists=True)],
    repo: Repo = Path(),
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Repeat a recorded job on a checkout without a model: the same questions get the same answers, and decisions are made again.

    What passes is proved anew. Where prompts or code have changed, it says which question the recording does not hold.
    Exit 0 done, 1 the job stopped, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob
    from service.local.rehearsal import Rehearsal

    with reporting():
        job = _read(recording)
        base = _base(repo, job)
    asked = LocalJob(
        job.kernel, "", job.options, fresh=True, verb=job.verb, words=job.words, given=job.problem, base=base
    )
    ended(run_job(asked, repo, out, as_json=as_json, replay=recording, terminal=Rehearsal(job.decisions)))


def _read(recording: Path) -> RecordedJob:
    from workers import embedded

    try:
        return embedded.recorded(recording)
    except embedded.RecordingError as error:
        cure = "Give the folder or the archive that `--record` wrote."
        raise UserFacingError(Failure(FailureCode.problem, str(error), cure)) from error


def _base(repo: Path, job: RecordedJob) -> str | None:
    from service.local.checkout import Checkout

    checkout = Checkout(repo.resolve())
    checkout.head()
    known = checkout.resolve(job.base_sha)
    if known is None:
        say(f"{repo} does not have {job.base_sha[:12]}, where the recording was made; it is repeated on HEAD.")
    return known
