"""Whole jobs on a local checkout: commits on a new branch, no push; run again, they go on from where they were."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpu_runner.contracts import Status, to_json
from service.cli.console import (
    EXIT_FAILED,
    Json,
    ProblemFile,
    app,
    exit_code,
    in_a_folder,
    kernel_name,
    reporting,
    say,
    tell,
    text_of,
)
from service.commands.grammar import MAX_CANDIDATES, MAX_REPAIRS
from workers.contracts import (
    DEFAULT_OPERATORS,
    AuthorName,
    BisectSummary,
    Choose,
    Failure,
    FailureCode,
    Goal,
    JobOptions,
    JobState,
    JobView,
    MeasuredKernel,
    ProblemKind,
    ProblemText,
    Regime,
    Scope,
    UserFacingError,
    Verb,
    parse_scope,
    parse_target,
)

if TYPE_CHECKING:
    from service.local.asking import LocalJob
    from service.local.checkout import Checkout
    from service.local.terminal import Terminal

Repo = Annotated[Path, typer.Option(help="A git checkout of the library.", exists=True, file_okay=False)]
Auto = Annotated[bool, typer.Option("--auto", help="Skip the checkpoints.")]
Profiled = Annotated[bool, typer.Option("--profile", help="Profile the kernel once it is proved.")]
Layout = Annotated[str | None, typer.Option(help="liger, plain, versioned or fla; detected by default.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the report; by default .git/kernelsmith/NAME.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over instead of resuming.")]
Author = Annotated[AuthorName, typer.Option(help="Who writes the kernel.")]
Recorded = Annotated[
    Path | None,
    typer.Option(
        "--record",
        help="Keep what models were asked and answered: a folder, or a .tar or .tar.gz.",
        callback=in_a_folder,
    ),
]
Repairs = Annotated[int, typer.Option(min=1, max=MAX_REPAIRS, help="How often a model may repair a failed answer.")]
Known = Annotated[
    Path | None, typer.Option(help="The problem with its CALL, where it is not known.", exists=True, dir_okay=False)
]
WORDS = (".md", ".txt")
RECORDING_FIX = "Give the folder or the archive that `--record` wrote."


@app.command()
def create(
    problem: ProblemFile,
    repo: Repo = Path(),
    name: Annotated[str | None, typer.Option(help="The kernel's name; by default the problem's file name.")] = None,
    auto: Auto = False,
    layout: Layout = None,
    author: Author = AuthorName.auto,
    candidates: Annotated[
        int, typer.Option(min=1, max=MAX_CANDIDATES, help="How many kernels to ask a model for at once.")
    ] = 3,
    repairs: Repairs = 3,
    choose: Annotated[Choose, typer.Option(help="Which of a model's proved kernels to take.")] = Choose.first,
    to: Annotated[
        str | None, typer.Option(help="The target: ascend, cutile, cutedsl or rocm; by default a GPU, in Triton.")
    ] = None,
    profile: Profiled = False,
    record: Recorded = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Write, prove and measure a new kernel in a checkout; a problem file in words (.md, .txt) needs a language model.

    Exit 0 done, 1 the job stopped, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob

    options = JobOptions(
        author=author,
        layout=layout,
        auto=auto,
        candidates=candidates,
        repairs=repairs,
        choose=choose,
        profile=profile,
        to=to,
    )
    text = text_of(problem)
    words = ProblemText(ProblemKind.words, text.strip()) if problem.suffix.lower() in WORDS else None
    asked = LocalJob(kernel_name(problem, name), "" if words else text, options, fresh, given=words)
    ended(run_job(asked, repo, out, as_json=as_json, record=record))


@app.command()
def optimize(
    name: Annotated[str, typer.Argument(help="The kernel's name, as its file has it.")],
    repo: Repo = Path(),
    goal: Annotated[Goal, typer.Option(help="What to improve.")] = Goal.balanced,
    scope: Annotated[
        str,
        typer.Option(help="What to improve: a pass, small or large sizes, or sizes, such as 'backward, H=4096'."),
    ] = "general",
    variants: Annotated[int, typer.Option(min=1, max=32, help="How many variants to try at most.")] = 8,
    target: Annotated[str | None, typer.Option(help="When to stop, such as 'forward < 0.3 ms @ H=4096'.")] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Tune the implementation in this language, ported first if there is none: cutile or cutedsl."
        ),
    ] = None,
    auto: Auto = False,
    problem: Known = None,
    layout: Layout = None,
    author: Author = AuthorName.auto,
    record: Recorded = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Make a kernel of a checkout faster or smaller, verified and measured.

    Exit 0 done (also if nothing beats the existing kernel), 1 the job stopped, 2 refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob

    timed_pass, regime = _scope(scope)
    options = JobOptions(
        author=author,
        layout=layout,
        auto=auto,
        goal=goal,
        scope=timed_pass,
        regime=regime,
        variants=variants,
        target=_target(target),
        to=to,
        tuned=to is not None,
    )
    asked = LocalJob(
        name, text_of(problem) if problem else "", options, fresh, Verb.optimize if to is None else Verb.port
    )
    ended(run_job(asked, repo, out, as_json=as_json, record=record))


@app.command()
def modify(
    name: Annotated[str, typer.Argument(help="The kernel's name, as its file has it.")],
    repo: Repo = Path(),
    words: Annotated[str | None, typer.Option(help="What to change.")] = None,
    request: Annotated[
        Path | None, typer.Option(help="A file that says what to change.", exists=True, dir_okay=False)
    ] = None,
    auto: Auto = False,
    author: Annotated[Literal["llm", "auto"], typer.Option(help="Who makes the change; both mean a model.")] = "llm",
    problem: Annotated[
        Path | None,
        typer.Option(
            help="A problem with its CALL: what the kernel computes after the change, or today if that is unknown.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    candidates: Annotated[
        int, typer.Option(min=1, max=MAX_CANDIDATES, help="How many changes to ask a model for at once.")
    ] = 3,
    repairs: Repairs = 3,
    profile: Profiled = False,
    layout: Layout = None,
    record: Recorded = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Change a kernel of a checkout in your words, by a language model; verified, tested and measured.

    Exit 0 done, 1 the job stopped, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob

    if (words is None) == (request is None):
        raise typer.BadParameter("say what to change, with either --words or --request")
    told = words if words is not None else text_of(request) if request is not None else ""
    options = JobOptions(
        author=AuthorName(author), layout=layout, auto=auto, candidates=candidates, repairs=repairs, profile=profile
    )
    asked = LocalJob(name, text_of(problem) if problem else "", options, fresh, Verb.modify, words=told)
    ended(run_job(asked, repo, out, as_json=as_json, record=record))


@app.command()
def port(
    name: Annotated[str, typer.Argument(help="The kernel's name, as its file has it.")],
    to: Annotated[str, typer.Option(help="The target: ascend, cutile, cutedsl, rocm or xpu.")] = "ascend",
    ported_from: Annotated[
        str,
        typer.Option(
            "--from", help="The implementation whose API is kept: default, ascend, cutile, cutedsl, rocm or xpu."
        ),
    ] = DEFAULT_OPERATORS,
    repo: Repo = Path(),
    auto: Auto = False,
    problem: Known = None,
    layout: Layout = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Port an operator of a checkout to another device or language with the same API; values and gradients are verified.

    Exit 0 done, 1 the job stopped, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob

    options = JobOptions(layout=layout, auto=auto, to=to, ported_from=ported_from)
    asked = LocalJob(name, text_of(problem) if problem else "", options, fresh, Verb.port)
    ended(run_job(asked, repo, out, as_json=as_json))


@app.command()
def compare(
    names: Annotated[
        list[str] | None, typer.Argument(help="The kernels; by default those that the change touches.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="A branch, tag or commit; what HEAD has in common with it is the base.")
    ] = "main",
    repo: Repo = Path(),
    dirty: Annotated[bool, typer.Option("--dirty", help="The working tree as it is, not HEAD.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Prove the kernels instead of timing them.")] = False,
    layout: Layout = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare HEAD's kernels with those of its merge base with a branch, tag or commit.

    Exit 0 nothing is worse, 1 something is slower, larger or wrong, 2 it was refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob
    from service.local.session import worse

    verb = Verb.verify if verify else Verb.bench
    asked = LocalJob(
        "compare",
        "",
        JobOptions(layout=layout, against=against, auto=True),
        fresh=True,
        verb=verb,
        kernels=tuple(names or ()),
        dirty=dirty,
    )
    job = run_job(asked, repo, out, as_json=as_json)
    ended(job)
    if worse(job):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def nightly(
    names: Annotated[
        list[str] | None, typer.Argument(help="The kernels; by default all whose problem is known.")
    ] = None,
    repo: Repo = Path(),
    budget: Annotated[int, typer.Option(min=1, max=1440, help="Minutes of GPU time to spend at most.")] = 120,
    layout: Layout = None,
    out: Out = None,
    fresh: Fresh = False,
    as_json: Json = False,
) -> None:
    """Measure every kernel of HEAD, store the numbers in the checkout, and compare changes with the last good commit.

    Exit 0 nothing became worse, 1 something became slower, larger or wrong, 2 refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob
    from service.local.session import regressed

    options = JobOptions(layout=layout, auto=True, budget_minutes=budget)
    asked = LocalJob("nightly", "", options, fresh, Verb.nightly, kernels=tuple(names or ()))
    job = run_job(asked, repo, out, as_json=as_json)
    ended(job)
    if regressed(job):
        raise typer.Exit(EXIT_FAILED)


@app.command("bisect")
def bisect_(
    name: Annotated[str, typer.Argument(help="The kernel's name, as its file has it.")],
    commits: Annotated[str, typer.Argument(metavar="GOOD..BAD", help="A commit that is fast, and one that is not.")],
    repo: Repo = Path(),
    layout: Layout = None,
) -> None:
    """Find the commits that made a kernel wrong, slower or larger.

    Finished steps are kept: the same command goes on where it was interrupted. Exit 0 a commit or a range was found, 1 BAD is not
    worse than GOOD or that is undecided, 2 refused, 3 the environment is at fault.
    """
    from service.local.asking import LocalJob
    from service.local.bisecting import RangeSearch, Sizes
    from service.local.checkout import Checkout
    from service.local.session import compared, was_predicted
    from service.local.terminal import Quiet
    from service.report.nightly import bisected_report

    good, separator, bad = commits.partition("..")
    if not separator or not good or bad.startswith("."):
        raise typer.BadParameter("name two commits as GOOD..BAD")

    begun = datetime.now(UTC)

    def compare(old: str, new: str, sizes: Sizes) -> MeasuredKernel:
        say(f"comparing {new[:12]} with {old[:12]}")
        options = JobOptions(layout=layout, against=old, auto=True, timed_sizes=sizes)
        asked = LocalJob("bisect", "", options, verb=Verb.bench, kernels=(name,), head=new)
        job = run_job(asked, repo, None, as_json=False, terminal=Quiet())
        if was_predicted(job) and datetime.fromisoformat(job.created_at) < begun:
            # It was kept where no GPU was; here there may be one.
            job = run_job(replace(asked, fresh=True), repo, None, as_json=False, terminal=Quiet())
        return compared(job, name)

    def prove(old: str, commit: str) -> Status | None:
        say(f"proving {commit[:12]}")
        options = JobOptions(layout=layout, against=old, auto=True)
        asked = LocalJob("bisect", "", options, verb=Verb.verify, kernels=(name,), head=commit)
        verdict = compared(run_job(asked, repo, None, as_json=False, terminal=Quiet()), name).verdict
        return None if verdict is None else verdict.status

    with reporting():
        checkout = Checkout(repo.resolve())
        first, last = (checkout.commit_of(word or "HEAD") for word in (good, bad))
        search = RangeSearch(checkout, compare, prove)
        whole, suspects = search.run(first, last)
        titles = {sha: checkout.text("log", "-1", "--format=%s", sha) for one in suspects for sha in one.commits}
    summary = BisectSummary(
        name,
        whole.value,
        suspects,
        search.steps,
        first,
        last,
        search.gpu,
        titles=tuple(titles.items()),
        by_values=search.wrong is not None,
    )
    tell(bisected_report(summary))
    raise typer.Exit(0 if suspects else EXIT_FAILED)


def run_job(
    asked: LocalJob,
    repo: Path,
    out: Path | None,
    *,
    as_json: bool,
    record: Path | None = None,
    replay: Path | None = None,
    terminal: Terminal | None = None,
) -> JobView:
    """Carry a job out on a checkout, tell how it went and give it as it ended.

    With ``replay``, a recording, no model is asked; with ``record`` one is written.

    Raises:
        typer.Exit: it cannot be carried out; why was told.
    """
    from service.local.checkout import Checkout
    from service.local.session import LocalSession
    from service.local.terminal import Terminal
    from workers import embedded

    with reporting(kernels=True):
        checkout = Checkout(repo.resolve())
        checkout.head()
        state = open_state(checkout, replay)
        folder = (out or state / asked.name).resolve()
        job = LocalSession(checkout, folder, terminal or Terminal()).run(asked)
        patch = checkout.patch(job.request.base_sha, job.head_sha) if job.head_sha else None
        trees = checkout.trees(job.request.base_sha, job.head_sha) if job.head_sha else ()
        if patch is not None:
            (folder / f"{asked.name}.patch").write_text(patch, encoding="utf-8", errors="surrogateescape", newline="")
    if as_json:
        typer.echo(json.dumps(to_json(job)))
    where = f"Branch {job.branch}; report, plots and patch in {folder}" if patch is not None else f"Report in {folder}"
    say(f"Job {job.job_id}: {job.state.value}. {where}")
    if record is not None:
        with reporting():
            _tell_recorded(embedded.record(job.job_id, record, trees), record)
    return job


def _tell_recorded(count: int, record: Path) -> None:
    if not count:
        say(f"{record} has the job and no questions: no model was asked.")
        return
    are = "question is" if count == 1 else "questions are"
    say(f"{count} {are} recorded in {record}; `kernelsmith replay {record}` repeats the job without a model.")
    say(f"`kernelsmith recording {record}` shows what they took.")


def open_state(checkout: Checkout, replay: Path | None = None) -> Path:
    """Have this process work in a checkout's own folder, by its environment, and answer from a recording where there is one.

    Raises:
        UserFacingError: a setting of the environment, or the recording, cannot be used.
    """
    from workers import embedded

    state = Path(checkout.text("rev-parse", "--absolute-git-dir")) / "kernelsmith"
    try:
        embedded.configure(state)
        if replay is not None:
            embedded.answer_from(replay)
    except embedded.WrongSettingsError as error:
        raise UserFacingError(Failure(FailureCode.environment, str(error), "Fix it, or unset it.")) from error
    except embedded.RecordingError as error:
        raise UserFacingError(Failure(FailureCode.problem, str(error), RECORDING_FIX)) from error
    return state


def ended(job: JobView) -> None:
    """End the command with the job's exit code."""
    if job.state is JobState.failed:
        raise typer.Exit(exit_code(job.failure))


def _scope(text: str) -> tuple[Scope, Regime]:
    with reporting():
        try:
            return parse_scope(text)
        except ValueError as error:
            raise UserFacingError(Failure(FailureCode.problem, f"{text!r} is not a scope", str(error))) from error


def _target(text: str | None) -> str | None:
    with reporting():
        try:
            return text if text is None or parse_target(text) else None
        except ValueError as error:
            raise UserFacingError(Failure(FailureCode.problem, f"{text!r} is not a target", str(error))) from error
