"""What a recording holds, from its own records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gpu_runner.contracts import to_json
from service.cli.console import Json, app, reporting, tell
from workers.contracts import Failure, FailureCode, RecordingUse, UserFacingError


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
    """Say what the questions of a recording took: tokens, what a cache gave of them, seconds, and money where there is a price.

    No database is needed, and nothing is asked. Requests without a price are priced by KERNELSMITH_MODEL_PRICES.
    Exit 0 told, 2 it is no recording, 3 a setting cannot be used.
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
        cure = "Give the folder or the archive that `--record` wrote, or a record of a question from a job's page."
        raise UserFacingError(Failure(FailureCode.problem, str(error), cure)) from error
    except embedded.WrongSettingsError as error:
        raise UserFacingError(Failure(FailureCode.environment, str(error), "Mend it, or unset it.")) from error
