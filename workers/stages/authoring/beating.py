"""Has a model try to beat the compiler's kernel where that is far from its floor; whatever comes of it, a proved kernel stays."""

from __future__ import annotations

from dataclasses import replace

from gpu_runner.contracts import Action, BenchmarkRequest, BenchmarkResult, CandidateSource, from_json
from workers.contracts import AuthorName, FailureCode, UserFacingError
from workers.engine.protocol import StageContext
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.beside import Weighed, weighed
from workers.stages.authoring.briefs import kernel_brief
from workers.stages.authoring.writing import COMPILER, Written, has_models, searched, terms_of
from workers.stages.headroom import room
from workers.stages.workbench import SNAPSHOT_FILE, Workbench, answer_of

PREFIX = "better-"
START_S, SECONDS_A_WORKLOAD, SECONDS_A_PAIR = 25.0, 9.0, 4.0
ORIGINAL_ALONE = ("original",)
# A search may come to no kernel in these ways. A host that failed ends the stage, and a retry has all that was answered before.
GIVES_WAY = (FailureCode.model, FailureCode.budget, FailureCode.verdict)


def beaten(context: StageContext, bench: Workbench, book: Book, standing: Written) -> tuple[Written, tuple[str, ...]]:
    """Give a model's kernel that is proved and faster than the compiler's, else the compiler's; and a sentence if one was asked.

    A model is asked with ``auto`` alone, where the compiler's kernel was timed and is far from its floor. A replay gets what was
    measured then, so that it comes to the same.

    Raises:
        UserFacingError: the GPU host failed.
    """
    asks = standing.author == COMPILER and context.request.options.author is AuthorName.auto
    if not asks or not has_models(context):
        return standing, ()
    context.note("measuring how far the compiler's kernel is from its floor")
    measured = _alone(context, bench, standing)
    factor = room(measured)
    if factor is None:
        return standing, ()
    asked = f"The compiler's kernel takes {factor:.2f} times what can be reached, so that a model was asked for a faster one"
    found = _found(context, bench, book, measured)
    if isinstance(found, str):
        return standing, (f"{asked}; the compiler's stays, since {found}.",)
    context.note("measuring a model's kernel beside the compiler's")
    compared = weighed(_beside(context, bench, standing, found))
    _written_down(book, compared)
    if compared.taken:
        return found, (f"{asked}; its kernel is taken, by a run of both: {compared.told}.",)
    return standing, (f"{asked}; its kernel is proved and not taken, by a run of both: {compared.told}.",)


def _found(context: StageContext, bench: Workbench, book: Book, measured: BenchmarkResult) -> Written | str:
    """Give a proved kernel of a model, or why there is none."""
    brief = kernel_brief(bench, measured=measured)
    try:
        return searched(context, bench, book, brief, replace(terms_of(context), prefix=PREFIX))
    except UserFacingError as error:
        if error.failure.code not in GIVES_WAY:
            raise
        return error.failure.message.rstrip(".")


def _written_down(book: Book, compared: Weighed) -> None:
    number = next(attempt.number for attempt in book.attempts if attempt.chosen)
    if compared.median_us is not None:
        book.measured(number, compared.median_us)
    if compared.taken:
        book.keep()
    else:
        book.left(number, compared.told)


def _alone(context: StageContext, bench: Workbench, standing: Written) -> BenchmarkResult:
    request = BenchmarkRequest(
        bench.problem.source, _form(bench, standing), budget_s=_budget_s(bench, SECONDS_A_WORKLOAD)
    )
    return _measured(context, f"{PREFIX}alone", request)


def _beside(context: StageContext, bench: Workbench, standing: Written, found: Written) -> BenchmarkResult:
    request = BenchmarkRequest(
        bench.problem.source,
        _form(bench, found),
        budget_s=_budget_s(bench, SECONDS_A_PAIR),
        original=_form(bench, standing),
        contenders=ORIGINAL_ALONE,
    )
    return _measured(context, f"{PREFIX}beside", request)


def _form(bench: Workbench, kernel: Written) -> CandidateSource:
    return bench.layout.candidate(kernel.design, kernel.changes, SNAPSHOT_FILE)


def _budget_s(bench: Workbench, seconds: float) -> float:
    return START_S + seconds * max(1, len(bench.problem.workloads))


def _measured(context: StageContext, key: str, request: BenchmarkRequest) -> BenchmarkResult:
    beside = {SNAPSHOT_FILE: context.request.snapshot}
    return from_json(BenchmarkResult, answer_of(context.gpu(key, request, Action.benchmark, beside, lasting=True)))
