"""The demo, and the processes of an installation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.console import EXIT_ENVIRONMENT, EXIT_REFUSED, app, say

if TYPE_CHECKING:
    from service.settings import Settings
    from workers.embedded import Part


@app.command()
def demo(
    name: Annotated[str, typer.Argument(help="create or optimize: which job is played.")] = "create",
    keep: Annotated[bool, typer.Option("--keep", help="Stay up with the pages open.")] = False,
    out: Annotated[Path, typer.Option(help="Where to leave what came of it.")] = Path("build/demo"),
    source: Annotated[Path | None, typer.Option(help="The library's archive; by default pip fetches it.")] = None,
) -> None:
    """Play a whole job on the source of a real library, with no account, key or GPU."""
    from service.demo.play import play
    from service.demo.scripts import SCRIPTS

    if name not in SCRIPTS:
        say(f"{name!r} is no demo: there are {', '.join(SCRIPTS)}")
        raise typer.Exit(EXIT_REFUSED)
    raise typer.Exit(play(out, keep=keep, archive=source, script=SCRIPTS[name]))


@app.command()
def serve() -> None:
    """Run the whole installation: the service, and workers with an embedded Redis where none is configured."""
    from service import server
    from workers import embedded

    settings = configured()
    end_on_sigterm()
    with starting(), embedded.serve_workers(embedded.from_environment()):
        server.serve(settings)


@app.command()
def web() -> None:
    """Run the service alone: webhooks, publishing and pages; workers run elsewhere."""
    from service import server
    from workers import embedded

    settings = configured()
    with starting():
        embedded.from_environment()
    server.serve(settings)


@app.command()
def work(
    only: Annotated[
        str | None, typer.Option(help="stages, or gpu: one part on this host, the other elsewhere.")
    ] = None,
) -> None:
    """Run workers alone, for stages and for this host's GPU."""
    import signal
    import threading

    from workers import embedded

    part = part_named(only)
    with starting():
        settings = embedded.from_environment()
    if part is not None and settings.redis_url is None:
        say("--only is for several hosts, which meet at one database and one Redis: set DATABASE_URL and REDIS_URL")
        raise typer.Exit(EXIT_REFUSED)
    told = threading.Event()

    def end(number: int, _frame: object) -> None:
        told.set()
        # From here on it stops, however often it is told to, also while the interpreter ends.
        signal.signal(number, signal.SIG_IGN)

    # Handlers and not a blocked mask: the workers that are started here would inherit the mask, and never hear a signal.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, end)
    with starting(), embedded.serve_workers(settings, only=part):
        told.wait()


def end_on_sigterm() -> None:
    """Have SIGTERM, systemd's, end this process as SIGINT does: what it started is stopped first.

    While the server runs it takes the signal itself, and hands it on here once it has stopped.
    """
    import signal
    import sys

    def end(number: int, _frame: object) -> None:
        # A second one would cut the stop short: workers would be killed with what they hold.
        signal.signal(number, signal.SIG_IGN)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)


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


def part_named(only: str | None) -> Part | None:
    """Give a part of the workers by name, or say which there are and leave."""
    from workers.embedded import Part

    if only is None or only in set(Part):
        return None if only is None else Part(only)
    say(f"--only is one of {', '.join(Part)}")
    raise typer.Exit(EXIT_REFUSED)


def configured() -> Settings:
    """Give the service's settings, or say what is missing and leave."""
    from service.settings import ConfigurationError, load_settings

    try:
        return load_settings()
    except ConfigurationError as error:
        say(str(error))
        raise typer.Exit(EXIT_REFUSED) from error
