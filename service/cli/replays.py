"""A recorded job again, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import EXIT_FAILED, Json, app, reporting, say
from service.cli.jobs import RECORDING_CURE, Out, Repo, ended, run_job
from workers.contracts import Failure, FailureCode, JobView, UserFacingError

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

    What passes is proved anew; what a GPU measured is taken from the recording. Where prompts or code have changed, it says which
    question the recording does not hold.
    Exit 0 done, 1 the job stopped or its commits are other ones, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob
    from service.local.rehearsal import Rehearsal

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
        raise UserFacingError(Failure(FailureCode.problem, str(error), RECORDING_CURE)) from error


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
