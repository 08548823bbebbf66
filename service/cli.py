"""The console command: by-hand actions, local jobs, the demo, and the processes of an installation."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpu_runner.contracts import Status, to_json
from workers.contracts import AuthorName, Failure, FailureCode, JobOptions, JobState, UserFacingError

if TYPE_CHECKING:
    from service.settings import Settings
    from workers.embedded import Part

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_ENVIRONMENT = 3

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
ProblemFile = Annotated[Path, typer.Argument(help="The problem file.", exists=True, dir_okay=False, readable=True)]
CandidateFile = Annotated[Path, typer.Argument(help="The candidate file.", exists=True, dir_okay=False, readable=True)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def say(text: str) -> None:
    """Print one line on standard error."""
    typer.echo(text, err=True)


def tell(markdown: str) -> None:
    """Print markdown on standard output: laid out on a terminal, as it is where it is piped on."""
    if not sys.stdout.isatty():
        typer.echo(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))


def told(failure: Failure) -> str:
    """Give a failure for a terminal."""
    where = f" (line {failure.line})" if failure.line else ""
    return "\n".join(part for part in (failure.message + where, failure.cure, failure.log) if part)


@contextmanager
def reporting() -> Iterator[None]:
    """Turn an error for people into words and an exit code."""
    try:
        yield
    except UserFacingError as error:
        say(told(error.failure))
        code = EXIT_ENVIRONMENT if error.failure.code is FailureCode.environment else EXIT_REFUSED
        raise typer.Exit(code) from error


def exit_code(failure: Failure | None) -> int:
    """Give the exit code of a failure: refused, the environment's, or of something that was tried."""
    from service.local.words import REFUSALS

    if failure is None:
        return EXIT_FAILED
    if failure.code is FailureCode.environment:
        return EXIT_ENVIRONMENT
    return EXIT_REFUSED if failure.code in REFUSALS else EXIT_FAILED


def kernel_name(problem: Path, name: str | None) -> str:
    """Give the kernel's name: as asked for, or from the problem's file name."""
    return name or re.sub(r"\W+", "_", problem.stem).strip("_").lower()


@app.command("compile")
def compile_(
    problem: ProblemFile,
    out: Annotated[Path | None, typer.Option(help="Where to write the candidate; standard output by default.")] = None,
    name: Annotated[str | None, typer.Option(help="The kernel's name; by default the problem's file name.")] = None,
) -> None:
    """Have the compiler author write a kernel; exit 2 and one sentence where it must refuse."""
    from workers import byhand

    with reporting():
        compiled = byhand.compile_problem(problem.read_text(encoding="utf-8"), kernel_name(problem, name))
    if compiled.source is None:
        say(f"The compiler author refuses: {compiled.refusal}")
        raise typer.Exit(EXIT_REFUSED)
    if out is None:
        typer.echo(compiled.source, nl=False)
    else:
        out.write_text(compiled.source, encoding="utf-8")
        say(f"Wrote {out}.")


@app.command()
def verify(problem: ProblemFile, candidate: CandidateFile, as_json: Json = False) -> None:
    """Judge a candidate; exit 0 passed, 1 a failing status, 3 the environment is at fault."""
    from service.conversation.verdicts import verdict_section, verdict_words
    from workers import byhand

    with reporting():
        verdict = byhand.verify(problem.read_text(encoding="utf-8"), candidate.read_text(encoding="utf-8")).verdict()
    if as_json:
        typer.echo(json.dumps(to_json(verdict)))
    else:
        tell(f"**{verdict.status.value}**: {verdict_words(verdict)}\n\n{verdict_section(verdict)}")
    raise typer.Exit(0 if verdict.status is Status.passed else EXIT_FAILED)


@app.command()
def bench(
    problem: ProblemFile,
    candidate: CandidateFile,
    dtype: Annotated[str, typer.Option(help="The dtype to measure in.")] = "bfloat16",
    budget_s: Annotated[float, typer.Option("--budget", help="Seconds to spend at most.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Measure a candidate beside eager and torch.compile, with the floor; without a GPU only the floor is predicted."""
    from service.conversation.benchmark_table import benchmark_table, memory_table, speed_sentence
    from workers import byhand

    sources = problem.read_text(encoding="utf-8"), candidate.read_text(encoding="utf-8")
    with reporting():
        result = byhand.benchmark(*sources, budget_s, dtype).benchmark()
    if as_json:
        typer.echo(json.dumps(to_json(result)))
    else:
        parts = (speed_sentence(result), benchmark_table(result), memory_table(result))
        tell("\n\n".join(part for part in parts if part))


@app.command()
def create(
    problem: ProblemFile,
    repo: Annotated[Path, typer.Option(help="A git checkout of the library.", exists=True, file_okay=False)] = Path(),
    name: Annotated[str | None, typer.Option(help="The kernel's name; by default the problem's file name.")] = None,
    auto: Annotated[bool, typer.Option("--auto", help="Skip the checkpoints.")] = False,
    layout: Annotated[str | None, typer.Option(help="liger or plain; by default found by looking.")] = None,
    author: Annotated[AuthorName, typer.Option(help="Who writes the kernel.")] = AuthorName.auto,
    out: Annotated[Path | None, typer.Option(help="Folder for the report; by default .git/kernelsmith/NAME.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over, not on from where it was.")] = False,
    as_json: Json = False,
) -> None:
    """Run the whole pipeline on a local checkout: commits on a new branch, no push; run again, it goes on.

    Exit 0 done, 1 the job stopped, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.checkout import Checkout
    from service.local.session import LocalJob, LocalSession
    from service.local.terminal import Terminal
    from service.logging_setup import configure_logging
    from workers import embedded

    # The terminal tells how far it is; what the engine logs beside that is for an operator.
    configure_logging("WARNING")
    kernel = kernel_name(problem, name)
    with reporting():
        checkout = Checkout(repo.resolve())
        checkout.head()
        state = Path(checkout.text("rev-parse", "--absolute-git-dir")) / "kernelsmith"
        folder = (out or state / kernel).resolve()
        embedded.configure(state)
        options = JobOptions(author=author, layout=layout, auto=auto)
        session = LocalSession(checkout, folder, Terminal())
        job = session.run(LocalJob(kernel, problem.read_text(encoding="utf-8"), options, fresh))
        patch = checkout.patch(job.request.base_sha, job.head_sha) if job.head_sha else None
    if patch is not None:
        (folder / f"{kernel}.patch").write_text(patch, encoding="utf-8", errors="surrogateescape", newline="")
    if as_json:
        typer.echo(json.dumps(to_json(job)))
    where = f"Branch {job.branch}; report, plots and patch in {folder}" if patch is not None else f"Report in {folder}"
    say(f"Job {job.job_id}: {job.state.value}. {where}")
    if job.state is JobState.failed:
        raise typer.Exit(exit_code(job.failure))


@app.command()
def doctor(quick: bool = False, as_json: Json = False) -> None:
    """Say what this host can do, and prove which isolation holds on it; exit 3 where something is missing."""
    from service.conversation.host import host_section
    from workers import byhand

    with reporting():
        report = byhand.doctor(quick).host()
    if as_json:
        typer.echo(json.dumps(to_json(report)))
    else:
        tell(host_section(report))
    raise typer.Exit(EXIT_ENVIRONMENT if report.problems else 0)


@app.command()
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Stay up with the pages open.")] = False,
    out: Annotated[Path, typer.Option(help="Where to leave what came of it.")] = Path("build/demo"),
    source: Annotated[Path | None, typer.Option(help="The library's archive; by default pip fetches it.")] = None,
) -> None:
    """Play the main job on the source of a real library, with no account, key or GPU."""
    from service.demo.play import play

    raise typer.Exit(play(out, keep=keep, archive=source))


@app.command()
def serve() -> None:
    """Run the whole installation: the service, and workers with an embedded Redis where none is configured."""
    from service import server
    from workers import embedded

    settings = configured()
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
    # Handlers and not a blocked mask: the workers that are started here would inherit the mask, and never hear a signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    with starting(), embedded.serve_workers(settings, only=part):
        told.wait()


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


def main() -> None:
    """Run the console command."""
    app()


if __name__ == "__main__":
    main()
