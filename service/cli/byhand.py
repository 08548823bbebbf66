"""One action on this machine, without a job."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpu_runner.contracts import Status, to_json
from service.cli.console import (
    EXIT_ENVIRONMENT,
    EXIT_FAILED,
    EXIT_REFUSED,
    CandidateFile,
    Json,
    Npu,
    ProblemFile,
    app,
    kernel_name,
    output,
    reporting,
    say,
    tell,
    text_of,
    working,
)
from service.commands.grammar import MAX_REPAIRS
from workers.contracts import AuthorName

Budget = Annotated[float, typer.Option("--budget", help="Seconds to spend at most.", min=1)]


@app.command("compile")
def compile_(
    problem: ProblemFile,
    out: Annotated[Path | None, output("Where to write the candidate; standard output by default.")] = None,
    name: Annotated[str | None, typer.Option(help="The kernel's name; by default the problem's file name.")] = None,
    to: Annotated[str, typer.Option(help="The language: `gpu` (Triton), `cutile` or `cutedsl`.")] = "gpu",
) -> None:
    """Compile a problem to a kernel, without a model; if the compiler refuses, exit 2 with one sentence."""
    from workers import byhand

    with reporting(kernels=True):
        with working("compiling"):
            compiled = byhand.compile_problem(text_of(problem), kernel_name(problem, name), target=to)
        if compiled.source is None:
            say(f"The compiler author refuses: {compiled.refusal}")
            raise typer.Exit(EXIT_REFUSED)
        if out is None:
            typer.echo(compiled.source, nl=False)
        else:
            out.write_text(compiled.source, encoding="utf-8")
            say(f"Wrote {out}.")
    if compiled.note is not None:
        say(f"{kernel_name(problem, name)}: {compiled.note}.")


@app.command()
def verify(
    problem: ProblemFile,
    candidate: CandidateFile,
    seed: Annotated[str | None, typer.Option(help="Repeat a verdict: the seed that it shows.")] = None,
    as_json: Json = False,
) -> None:
    """Verify a candidate; exit 0 passed, 1 any other status, 3 a fault of the environment."""
    from service.report.verdicts import verdict_section, verdict_words
    from workers import byhand

    sources = text_of(problem), text_of(candidate)
    with reporting(kernels=True), working("judging the candidate"):
        verdict = byhand.verify(*sources, seed).verdict()
    if as_json:
        typer.echo(json.dumps(to_json(verdict)))
    else:
        tell(f"**{verdict.status.value}**: {verdict_words(verdict)}\n\n{verdict_section(verdict)}")
    raise typer.Exit(0 if verdict.status is Status.passed else EXIT_FAILED)


@app.command()
def bench(
    problem: ProblemFile,
    candidate: CandidateFile,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], typer.Option(help="The dtype to measure in.")
    ] = "bfloat16",
    budget_s: Budget = 60.0,
    compiled: Annotated[bool, typer.Option("--compiled", help="Run the candidate under torch.compile.")] = False,
    as_json: Json = False,
) -> None:
    """Time a candidate against eager mode and torch.compile; without a GPU only predict the floor."""
    from service.report.benchmarks import benchmark_table, memory_table, speed_sentence
    from workers import byhand

    sources = text_of(problem), text_of(candidate)
    with reporting(kernels=True), working("measuring"):
        result = byhand.benchmark(*sources, budget_s, dtype, compiled).benchmark()
    if as_json:
        typer.echo(json.dumps(to_json(result)))
    else:
        parts = (speed_sentence(result), benchmark_table(result), memory_table(result))
        tell("\n\n".join(part for part in parts if part))


@app.command()
def tune(
    problem: ProblemFile,
    candidate: CandidateFile,
    out: Annotated[Path, output("Where to write the candidate with the settings in it.")],
    budget_s: Budget = 60.0,
    as_json: Json = False,
) -> None:
    """Tune a candidate's launch settings on this machine's GPU and write them into it; without a GPU nothing is tuned."""
    from service.report.profiled import tuned_section
    from workers import byhand

    sources = text_of(problem), text_of(candidate)
    with reporting(kernels=True), working("tuning"):
        tuned = byhand.tune(*sources, budget_s)
        out.write_text(tuned.source, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(to_json(tuned.result)))
    else:
        tell(tuned_section(tuned.result))
    say(f"Wrote {out}.")


@app.command()
def profile(
    problem: ProblemFile,
    candidate: CandidateFile,
    gpu: Annotated[str | None, typer.Option(help="The GPU to predict for where none is here, such as H100.")] = None,
    as_json: Json = False,
) -> None:
    """Show what bounds a candidate, by its roofline and, where they can be read, Nsight Compute's counters."""
    from service.report.profiled import profile_section
    from workers import byhand

    sources = text_of(problem), text_of(candidate)
    with reporting(kernels=True), working("profiling"):
        result = byhand.profile(*sources, gpu).profile()
    if as_json:
        typer.echo(json.dumps(to_json(result)))
    else:
        tell(profile_section(result))


@app.command()
def npu_profile(
    folder: Annotated[Path, typer.Argument(help="Where msprof writes, or wrote.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A program to run under msprof first, such as the library's benchmark script."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Profile a program's kernels on an Ascend NPU with msprof: times, units of a core, bandwidth."""
    from service.report.profiled import npu_kernels
    from workers import npu_profile

    with reporting():
        if command:
            folder.mkdir(parents=True, exist_ok=True)
            npu_profile.count(folder, command)
        kernels = npu_profile.counted(folder)
    if as_json:
        typer.echo(json.dumps([asdict(kernel) for kernel in kernels]))
    else:
        tell(npu_kernels(kernels))


@app.command()
def suite(
    folder: Annotated[
        Path, typer.Argument(help="A folder of problem files, such as KernelBench's.", exists=True, file_okay=False)
    ],
    out: Annotated[
        Path, typer.Option(help="Where results and kernels go; what is there already is not done again.")
    ] = Path("suite"),
    jobs: Annotated[int, typer.Option(help="How many problems at a time.", min=1)] = 1,
    limit_s: Annotated[float, typer.Option("--limit", help="The most seconds for one problem.", min=1)] = 300.0,
    as_json: Json = False,
) -> None:
    """Run the compiler on a folder of problems: what compiles, is right, how fast, and why the rest is refused.

    What is refused as a whole is composed from proved parts where possible, with torch between them, and counted apart.
    Without a GPU large problems are proved at small sizes, in Triton's interpreter. An interrupted run resumes where it stopped.
    Exit 1 if a kernel is wrong, 3 if one met a fault of the environment.
    """
    from service.report.console import problem_set_section
    from workers import byhand
    from workers.contracts import problem_set

    with reporting(kernels=True):
        entries = byhand.suite(folder, out, jobs, limit_s, lambda path: kernel_name(path, None), say)
        (out / "report.json").write_text(json.dumps(problem_set.report(entries), indent=1) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(problem_set.report(entries)))
    else:
        tell(problem_set_section(entries))
    outcomes = {entry.outcome for entry in entries}
    if problem_set.ProblemOutcome.wrong in outcomes:
        raise typer.Exit(EXIT_FAILED)
    raise typer.Exit(EXIT_ENVIRONMENT if problem_set.ProblemOutcome.error in outcomes else 0)


@app.command()
def fuse(
    model: ProblemFile,
    out: Annotated[Path, typer.Option(help="The output folder; an interrupted run in it resumes.")] = Path("fuse"),
    jobs: Annotated[int, typer.Option(help="How many parts to prove at a time.", min=1)] = 1,
    extract_author: Annotated[AuthorName, typer.Option(help="Who changes the cut.")] = AuthorName.auto,
    dispatch_author: Annotated[AuthorName, typer.Option(help="Who writes the parts.")] = AuthorName.auto,
    compose_author: Annotated[AuthorName, typer.Option(help="Who puts the parts together.")] = AuthorName.auto,
    rounds: Annotated[
        int, typer.Option(min=0, max=MAX_REPAIRS, help="How often a model may repair a failed answer.")
    ] = 3,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")] = False,
    as_json: Json = False,
) -> None:
    """Cut a model into parts, write and prove a kernel for each, and compose a module of the same parameters. With `auto` a
    configured language model does what the compiler refuses.

    Exit 0 the whole is proved, or there is nothing to gain; 1 it failed, 2 it was refused, 3 a fault of the environment.
    """
    from service.report.fused import fused_section
    from workers import byhand

    source = text_of(model)
    authors = byhand.Authors(extract_author, dispatch_author, compose_author, rounds)
    with reporting(kernels=True):
        result = byhand.fuse(source, out, jobs, say, fresh=fresh, authors=authors)
    if as_json:
        typer.echo(json.dumps(result.summary))
    else:
        tell(fused_section(result.summary))
    raise typer.Exit(0 if result.summary["status"] in ("passed", "nothing to gain") else EXIT_FAILED)


@app.command()
def doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the measurement of the bandwidth.")] = False,
    target: Npu = None,
    as_json: Json = False,
) -> None:
    """Show what this host can do and which isolation holds on it; exit 3 if something is missing."""
    from service.report.console import host_section
    from workers import byhand

    with reporting():
        report = byhand.doctor(quick, npu=target is not None).host()
    if as_json:
        typer.echo(json.dumps(to_json(report)))
    else:
        tell(host_section(report))
    raise typer.Exit(EXIT_ENVIRONMENT if report.problems else 0)


@app.command()
def calibrate(
    problems: Annotated[
        list[Path] | None, typer.Argument(help="Problem files; by default those that are known of libraries.")
    ] = None,
    comparisons: Annotated[int, typer.Option(help="How many comparisons of kernels with themselves.", min=3)] = 200,
    tries: Annotated[int, typer.Option(help="How often to try to detect the planted slowdown.", min=0)] = 40,
    slowdown: Annotated[float, typer.Option(help="The planted slowdown, as a share of the time.", min=0.005)] = 0.03,
    as_json: Json = False,
) -> None:
    """Measure how far this machine's times can be trusted: kernels against themselves, and with a planted slowdown.

    Exit 1 where a kernel was called faster or slower than itself, 3 without a GPU.
    """
    from service.report.console import Trust, calibration_section
    from workers import byhand

    sources = [(kernel_name(path, None), text_of(path)) for path in problems or ()]
    with reporting(kernels=True):
        trust = byhand.calibrate(sources, byhand.Trials(comparisons, tries, slowdown), say)
    facts = {
        name: getattr(trust, name)
        for name in ("words", "planted", "ratios", "slowdowns", "rows", "gpu", "host", "left_out")
    }
    if as_json:
        typer.echo(json.dumps({name: _plain(value) for name, value in facts.items()}))
    else:
        tell(calibration_section(Trust(**facts, slowdown=slowdown)))
    if not trust.words:
        raise typer.Exit(EXIT_ENVIRONMENT)
    raise typer.Exit(EXIT_FAILED if trust.false_words else 0)


def _plain(value: object) -> object:
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value
