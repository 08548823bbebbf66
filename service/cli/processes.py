"""The commands that run and keep an installation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.console import EXIT_ENVIRONMENT, EXIT_REFUSED, Json, Npu, app, reporting, say

if TYPE_CHECKING:
    from service.settings import ServiceSettings
import re

if TYPE_CHECKING:
    from service.local.checkout import Checkout
    from service.local.opening import PullRequestContent
    from workers.contracts import FileChange
import json
from dataclasses import asdict

from service.report.layout import counted

if TYPE_CHECKING:
    from workers.embedded import Collected


@app.command()
def demo(
    name: Annotated[str, typer.Argument(help="What to play: create, optimize or nightly.")] = "create",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the servers running.")] = False,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("build/demo"),
    source: Annotated[
        Path | None,
        typer.Option(help="The library's archive; by default pip fetches it.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """Play a whole job, or a month of nights, on the source of a real library, with no account, key or GPU."""
    from deploy.demo.table import DEMOS

    if name not in DEMOS:
        say(f"{name!r} is no demo: there are {', '.join(DEMOS)}")
        raise typer.Exit(EXIT_REFUSED)
    with reporting(kernels=name != "nightly"):
        code = DEMOS[name](out, keep, source)
    raise typer.Exit(code)


@app.command()
def serve() -> None:
    """Run the whole installation: the service, and workers with an embedded Redis where none is configured."""
    from service import server
    from workers import embedded

    settings = listening()
    end_on_signals()
    with starting(), embedded.serve_workers(embedded.from_environment()) as supervisor:
        server.serve(settings, supervisor.check)


@app.command()
def web() -> None:
    """Run the service alone: webhooks, publishing and pages; workers run elsewhere."""
    from service import server
    from workers import embedded

    settings = listening()
    end_on_signals()
    with starting():
        embedded.from_environment()
    server.serve(settings)


@app.command()
def work(
    only: Annotated[
        Literal["stages", "gpu"] | None, typer.Option(help="One part on this host, the other elsewhere.")
    ] = None,
    target: Npu = None,
) -> None:
    """Run workers alone, for stages and for this host's GPU."""
    import threading

    from workers import embedded

    if target is not None:
        _check_npu()
    with starting():
        settings = embedded.from_environment()
    if only is not None and settings.redis_url is None:
        say("--only needs a database and a Redis that all hosts share: set DATABASE_URL and REDIS_URL")
        raise typer.Exit(EXIT_REFUSED)
    end_on_signals()
    with starting(), embedded.serve_workers(settings, only=embedded.HostPart(only) if only else None):
        threading.Event().wait()


def _check_npu() -> None:
    """End the command where this host lacks what kernels for an NPU need, with what brings it."""
    from workers import byhand

    lacks = byhand.doctor(quick=True, npu=True).host().npu_lacks
    if lacks:
        say("\n".join(["this host cannot run kernels for Ascend NPUs:", *(f"- {sentence}" for sentence in lacks)]))
        raise typer.Exit(EXIT_ENVIRONMENT)


def end_on_signals() -> None:
    """Have SIGTERM, systemd's, SIGINT and SIGHUP end this process with exit code 0, after what it started.

    While the server runs it takes the first two itself, and hands them on here once it has stopped.
    """
    import os
    import signal
    import sys

    both = (signal.SIGINT, signal.SIGTERM)

    def end(_number: int, _frame: object) -> None:
        # A second one would cut the stop short: workers would be killed with what they hold.
        for number in both:
            signal.signal(number, signal.SIG_IGN)
        sys.exit(0)

    # Handlers and not a blocked mask: the workers that are started here would inherit the mask, and never hear a signal.
    for number in both:
        signal.signal(number, end)
    # A terminal that closes; `nohup` has it ignored.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


@contextmanager
def starting() -> Iterator[None]:
    """Say why the workers cannot run, and leave."""
    from workers import embedded

    try:
        yield
    except embedded.WrongSettingsError as error:
        say(str(error))
        raise typer.Exit(EXIT_REFUSED) from error
    except embedded.WorkersError as error:
        say(str(error))
        raise typer.Exit(EXIT_ENVIRONMENT) from error


def listening() -> ServiceSettings:
    """The service's settings, once its address is known to be free; the command ends with the fix where it is not."""
    from service.server import AddressError, check_address

    settings = configured()
    try:
        check_address(settings.host, settings.port)
    except AddressError as error:
        say(str(error))
        raise typer.Exit(EXIT_ENVIRONMENT) from error
    return settings


def configured() -> ServiceSettings:
    """The service's settings; the command ends with the list of what is missing."""
    from service.settings import ConfigurationError, load_settings

    try:
        return load_settings()
    except ConfigurationError as error:
        say(str(error))
        raise typer.Exit(EXIT_REFUSED) from error


WORKFLOW = Path(__file__).parents[1] / "local" / "nightly_workflow.yml"
PATH = ".github/workflows/kernelsmith-nightly.yml"
BRANCH = "kernelsmith/nightly-workflow"
MESSAGE = "ci: measure every kernel once a night"
TITLE = "Measure every kernel once a night"
BODY = f"""\
Adds `{PATH}`: a self-hosted runner with a GPU proves and times every kernel of this repository once a night. The run fails where
one became slower, larger or wrong, shows its report in the summary, and keeps pages of every kernel's history as an artifact.

It may read the repository and nothing else; its actions are pinned by commit. The runner needs Kernelsmith at the path that the
workflow names, and a folder that it keeps: the numbers stay in its checkout.
"""
LAYOUT_BRANCH = "kernelsmith/versioned-layout"
LAYOUT_MESSAGE = "feat: add the runtime of versioned kernels"
PAGES_BRANCH = "kernelsmith/knowledge"
PAGES_MESSAGE = "docs: add what jobs measured to the pages of strategies"
PAGES_TITLE = "What jobs measured of strategies"
PAGES_BODY = """\
Lines of jobs in the pages of strategies, by what this installation measured. Numbers are of the newest trials, at most five of a
kernel; a line speaks against a strategy where it gained less than 1% or more than half of its variants were unusable.

{}
"""
NOTHING_LEARNED = (
    "No page changes: a line needs {} trials of a strategy on {} kernels of one architecture, and what is known stands."
)
ProposedTo = Annotated[
    str | None,
    typer.Option(help="Where the pull request is opened, by default the checkout's `origin`.", metavar="owner/name"),
]
OnABranch = Annotated[
    bool, typer.Option("--local", help="Commit it to a branch of the checkout instead, for you to push.")
]
SPARE_MINUTES = 60  # for what a night does beside the kernels that its budget counts
WORD = re.compile(r"[A-Za-z0-9][\w.-]*")


@app.command()
def init(
    nightly: Annotated[
        bool, typer.Option("--nightly", help="The workflow that measures every kernel once a night.")
    ] = False,
    layout: Annotated[
        str | None, typer.Option(help="`versioned`: the runtime of kernels that are plans, kept in versions.")
    ] = None,
    package: Annotated[str | None, typer.Option(help="Of the layout: the package below src/.")] = None,
    repo: Annotated[Path, typer.Option(help="A git checkout of the library.", exists=True, file_okay=False)] = Path(),
    runner: Annotated[
        list[str] | None, typer.Option(help="A label of the self-hosted runner; may be repeated.")
    ] = None,
    at: Annotated[str, typer.Option(help="When it starts, UTC.", metavar="HH:MM")] = "02:17",
    budget: Annotated[int, typer.Option(min=1, max=1440, help="Minutes of GPU time to spend at most.")] = 120,
    command: Annotated[str, typer.Option(help="The command on the runner.")] = "/opt/kernelsmith/bin/kernelsmith",
    repository: ProposedTo = None,
    local: OnABranch = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the file and do nothing.")] = False,
) -> None:
    """Open a pull request with a nightly workflow, or commit what a layout needs to a branch of a checkout.

    The pull request is opened with the credentials of the environment (KERNELSMITH_TOKEN, or those of a GitHub App). The same
    command again changes nothing, another one updates the pull request. Exit 0 done, 2 it was refused, 3 GitHub did not answer.
    """
    from service.github.credentials import CredentialPurpose
    from service.local.checkout import Checkout
    from service.local.opening import PullRequestContent
    from workers.byhand import starting_changes

    if nightly == (layout is not None) or layout not in (None, "versioned"):
        say("Give --nightly or --layout versioned.")
        raise typer.Exit(EXIT_REFUSED)
    checkout = Checkout(repo.resolve())
    if layout is not None:
        with reporting():
            changes = starting_changes(checkout.snapshot(checkout.head()), package)
            _commit(checkout, LAYOUT_BRANCH, changes, LAYOUT_MESSAGE, "The runtime of versioned kernels")
        return
    change = _workflow(["self-hosted", *(runner or ["gpu"])], at, budget, command)
    if dry_run:
        typer.echo(change.text)
        return
    with reporting():
        if local:
            _commit(checkout, BRANCH, (change,), MESSAGE, PATH)
        else:
            content = PullRequestContent(BRANCH, (change,), MESSAGE, TITLE, BODY, CredentialPurpose.workflow)
            _propose(checkout, repository, content, PATH)


@app.command()
def knowledge(
    repo: Annotated[
        Path,
        typer.Option(
            help="A checkout of Kernelsmith, whose pages are brought up to date.", exists=True, file_okay=False
        ),
    ] = Path(),
    repository: ProposedTo = None,
    local: OnABranch = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the lines and do nothing.")] = False,
) -> None:
    """Open a pull request with what this installation's jobs measured of strategies, as lines of their pages.

    It reads the installation's database, with its settings; no kernel and no repository is named. The same command again changes
    nothing, and updates the pull request where there is more. Exit 0 done, 2 refused, 3 GitHub or the database did not answer.
    """
    from service.local.checkout import Checkout
    from service.local.opening import PullRequestContent
    from workers import embedded
    from workers import knowledge as measured
    from workers.contracts import Failure, FailureCode, FileChange, UserFacingError

    with starting():
        embedded.from_environment()
    with reporting():
        checkout = Checkout(repo.resolve())
        texts = {path: _text(checkout, "HEAD", path) for path in measured.PAGES}
        pages = {path: text for path, text in texts.items() if text is not None}
        if not pages:
            message = f"{repo} has no docs/knowledge/optimizations"
            raise UserFacingError(Failure(FailureCode.problem, message, "Give a checkout of Kernelsmith with --repo."))
        proposed = measured.proposed(pages)
        lines = "\n".join(f"- `{page.path}`\n" + "\n".join(f"  {line}" for line in page.lines) for page in proposed)
        if not proposed or dry_run:
            say(lines or NOTHING_LEARNED.format(measured.LEAST_TRIALS, measured.LEAST_KERNELS))
            return
        changes = tuple(FileChange(page.path, page.text) for page in proposed)
        if local:
            _commit(checkout, PAGES_BRANCH, changes, PAGES_MESSAGE, "What jobs measured")
        else:
            body = PAGES_BODY.format(lines)
            content = PullRequestContent(PAGES_BRANCH, changes, PAGES_MESSAGE, PAGES_TITLE, body)
            _propose(checkout, repository, content, "What jobs measured")


def _workflow(labels: Sequence[str], at: str, budget: int, command: str) -> FileChange:
    from workers.contracts import FileChange

    hour, minute = _time(at)
    if not all(WORD.fullmatch(label) for label in labels) or not re.fullmatch(r"[\w./~-]+", command):
        say("Give labels of letters, digits, `.`, `_` and `-`, and the command as a path without spaces.")
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
    return FileChange(PATH, text)


def _propose(checkout: Checkout, repository: str | None, content: PullRequestContent, what: str) -> None:
    from service.local.opening import propose, repository_at
    from service.settings import ConfigurationError, load_credentials

    try:
        settings = load_credentials()
    except ConfigurationError as error:
        say(f"{error}\nOr commit it to a branch of a checkout with --local, and push that.")
        raise typer.Exit(EXIT_REFUSED) from error
    name = repository or repository_at(checkout.origin(), settings.html_url)
    if name is None or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        say(f"`origin` names no repository at {settings.html_url}. Give --repository owner/name, or --local.")
        raise typer.Exit(EXIT_REFUSED)
    made = propose(settings, name, content)
    if made.pull is None:
        say(f"{what} already exists with the same content.")
    else:
        say(f"The pull request is {made.done}: {made.pull.html_url}")


def _commit(checkout: Checkout, branch: str, changes: Sequence[FileChange], message: str, what: str) -> None:
    head = checkout.head()
    there = [at for at in (head, checkout.resolve(f"refs/heads/{branch}")) if at and _holds(checkout, at, changes)]
    if there and there[0] == head:
        say(f"{what} already exists with the same content.")
        return
    if not there:
        checkout.commit(branch, head, changes, message)
    say(f"{what} is committed on branch {branch}. Open a pull request with it: git push -u origin {branch}")


def _holds(checkout: Checkout, commit: str, changes: Sequence[FileChange]) -> bool:
    return all(_text(checkout, commit, change.path) == change.text for change in changes)


def _time(text: str) -> tuple[int, int]:
    hour, _, minute = text.partition(":")
    if re.fullmatch(r"\d{1,2}:\d\d", text) and int(hour) < 24 and int(minute) < 60:
        return int(hour), int(minute)
    say(f"{text!r} is no time of a day, such as 02:17.")
    raise typer.Exit(EXIT_REFUSED)


def _text(checkout: Checkout, commit: str, path: str) -> str | None:
    from workers.contracts import UserFacingError

    try:
        return checkout.git("show", f"{commit}:{path}").decode("utf-8", "replace")
    except UserFacingError:
        return None


UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@app.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed.")] = False,
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
    """A number of bytes as people read it."""
    for unit in UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == UNITS[0] else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {UNITS[-1]}"
