"""What a library's own repository gets so that Kernelsmith works for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import EXIT_REFUSED, app, reporting, say

if TYPE_CHECKING:
    from service.local.checkout import Checkout

WORKFLOW = Path(__file__).parents[1] / "local" / "nightly_workflow.yml"
PATH = ".github/workflows/kernelsmith-nightly.yml"
BRANCH = "kernelsmith/nightly-workflow"
MESSAGE = "ci: measure every kernel once a night"
SPARE_MINUTES = 60  # for what a night does beside the kernels that its budget counts
WORD = re.compile(r"[A-Za-z0-9][\w.-]*")


@app.command()
def init(
    nightly: Annotated[bool, typer.Option("--nightly", help="The workflow that measures every kernel once a night.")],
    repo: Annotated[Path, typer.Option(help="A git checkout of the library.", exists=True, file_okay=False)] = Path(),
    runner: Annotated[
        list[str] | None, typer.Option(help="A label of the self-hosted runner; may be repeated.")
    ] = None,
    at: Annotated[str, typer.Option(help="When it starts, UTC.", metavar="HH:MM")] = "02:17",
    budget: Annotated[int, typer.Option(min=1, max=1440, help="Minutes of GPU time to spend at most.")] = 120,
    command: Annotated[str, typer.Option(help="The command on the runner.")] = "/opt/kernelsmith/bin/kernelsmith",
) -> None:
    """Commit a workflow to a branch of its own in a checkout, for you to push as a pull request.

    The same command again changes nothing. Exit 0 done, 2 it was refused.
    """
    from service.local.checkout import Checkout
    from workers.contracts import FileChange

    labels = ["self-hosted", *(runner or ["gpu"])]
    hour, minute = _time(at)
    if not nightly or not all(WORD.fullmatch(label) for label in labels) or not re.fullmatch(r"[\w./~-]+", command):
        say("Give --nightly, labels of letters, digits, `.`, `_` and `-`, and the command as a path without spaces.")
        raise typer.Exit(EXIT_REFUSED)
    text = WORKFLOW.read_text()
    for name, value in {
        "CRON": f"{minute} {hour} * * *",
        "LABELS": f"[{', '.join(labels)}]",
        "TIMEOUT": str(budget + SPARE_MINUTES),
        "BUDGET": str(budget),
        "COMMAND": command,
    }.items():
        text = text.replace(f"@{name}@", value)
    with reporting():
        checkout = Checkout(repo.resolve())
        head = checkout.head()
        done = [at for at in (head, checkout.resolve(f"refs/heads/{BRANCH}")) if at and _text(checkout, at) == text]
        if not done:
            checkout.commit(BRANCH, head, [FileChange(PATH, text)], MESSAGE)
    if done and done[0] == head:
        say(f"{PATH} is there already, as it would be written.")
        return
    say(f"{PATH} is committed on branch {BRANCH}. Open a pull request with it: git push -u origin {BRANCH}")


def _time(text: str) -> tuple[int, int]:
    hour, _, minute = text.partition(":")
    if re.fullmatch(r"\d{1,2}:\d\d", text) and int(hour) < 24 and int(minute) < 60:
        return int(hour), int(minute)
    say(f"{text!r} is no time of a day, such as 02:17.")
    raise typer.Exit(EXIT_REFUSED)


def _text(checkout: Checkout, commit: str) -> str | None:
    from workers.contracts import UserFacingError

    try:
        return checkout.git("show", f"{commit}:{PATH}").decode("utf-8", "replace")
    except UserFacingError:
        return None
