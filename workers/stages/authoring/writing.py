"""Who writes a kernel, and the kernel that comes of it: proved, or there is none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpu_runner.contracts import Verdict, from_json, to_json
from workers.authors.llm.protocol import Failed, KernelBrief, Reply
from workers.authors.protocol import Feedback, KernelPlan, Refusal
from workers.contracts import (
    AuthorName,
    Failure,
    FailureCode,
    FileChange,
    StyleOutcome,
    UserFacingError,
)
from workers.engine.protocol import StageContext
from workers.engine.questions import NO_MODEL
from workers.layouts.protocol import Design
from workers.stages.authoring.attempts import Book
from workers.stages.authoring.briefs import kernel_brief
from workers.stages.authoring.judging import MODEL
from workers.stages.authoring.planned import plan_of_graph
from workers.stages.authoring.remarks import answered, remarks_of
from workers.stages.authoring.search import Search, Terms
from workers.stages.proving import prove, styled_changes
from workers.stages.workbench import Workbench
from workers.tree import Tree

COMPILER = AuthorName.compiler.value
BOTH_WAYS = (
    "Rewrite the reference without it; or have an operator configure a language model (`docs/models.md`), which "
    "`--author auto` asks where the compiler refuses."
)


@dataclass(frozen=True)
class Written:
    """A kernel that the runner's verdict passed."""

    author: str
    design: Design
    changes: tuple[FileChange, ...]
    style: StyleOutcome
    verdict: Verdict
    answered: tuple[str, ...] = ()
    model: str | None = None  # that wrote it, with its provider


def has_models(context: StageContext) -> bool:
    """Tell whether a model may be asked, the same in every run of the attempt."""
    return bool(context.memo("has-models", lambda: context.has_models))


def reads_words(context: StageContext) -> bool:
    """Tell whether the words of a review can be acted on: a model may be asked, and the command does not rule it out."""
    return context.request.options.author is not AuthorName.compiler and has_models(context)


def foreseen(context: StageContext, bench: Workbench) -> tuple[str, Design]:
    """Give who will write the kernel, and its design as far as it is known before: without a source where a model will.

    Raises:
        UserFacingError: the compiler refuses and no model may be asked, or the model is wanted and there is none.
    """
    compiled = bench.compiled()
    author = _writer(context, compiled if isinstance(compiled, Refusal) else None)
    if isinstance(compiled, Refusal):
        return author, bench.designed(plan_of_graph(bench.problem, bench.graph), None)
    return author, bench.designed(compiled.plan, compiled.source)


def write(
    context: StageContext, bench: Workbench, book: Book, points: tuple[Feedback, ...], earlier: dict[str, Any] | None,
    standing: Tree,
) -> Written:  # fmt: skip
    """Give a proved kernel: the compiler's, or a model's, which also acts on the points of a review.

    ``earlier`` is what this stage left before, ``standing`` the branch as it is.

    Raises:
        UserFacingError: there is none.
    """
    compiled = bench.compiled()
    author = _writer(context, compiled if isinstance(compiled, Refusal) else None)
    if earlier is not None and (points or earlier.get("author") == MODEL) and reads_words(context):
        author = MODEL  # words are for who can read them, and what a model has written it writes again
    if author == MODEL:
        remarks = remarks_of(points, standing)
        before = str(earlier["source"]) if remarks and earlier is not None and earlier.get("source") else None
        return searched(context, bench, book, kernel_brief(bench, remarks, before), terms_of(context))
    assert not isinstance(compiled, Refusal), "a refusal leaves no compiler to write"
    design = bench.designed(compiled.plan, compiled.source)
    context.note("writing the kernel")
    changes, style = styled_changes(context, bench, design, "style")
    verdict = prove(context, bench, design, changes, "verify", COMPILER)
    return Written(COMPILER, design, changes, style, verdict)


def terms_of(context: StageContext) -> Terms:
    """Give how far the command lets a search go."""
    options = context.request.options
    return Terms(options.candidates, options.repairs, options.choose)


def searched(context: StageContext, bench: Workbench, book: Book, brief: KernelBrief, terms: Terms) -> Written:
    """Give the kernel that a search for a brief finds.

    Raises:
        UserFacingError: it finds none.
    """
    found = Search(context, bench, brief, terms, book).run()
    judged = found.judged
    if not judged.proved or judged.style is None or judged.verdict is None:
        raise RuntimeError("a search gave a kernel that is not proved")
    replies: tuple[Reply, ...] = found.replies
    told = answered(brief.remarks, replies)
    return Written(MODEL, judged.design, judged.changes, judged.style, judged.verdict, told, found.model)


def mended(
    context: StageContext, bench: Workbench, book: Book, standing: Design, failed: Failed, prefix: str
) -> Written:
    """Give a model's kernel again after something that the verdict did not see failed on it, such as the library's tests.

    Raises:
        UserFacingError: it gives none that is proved.
    """
    brief = replace(kernel_brief(bench, before=standing.source), failed=failed)
    return searched(context, bench, book, brief, Terms(1, context.request.options.repairs, prefix=prefix))


def stored(written: Written) -> dict[str, Any]:
    """Give what later stages need to know of a kernel without asking for it again."""
    return {
        "author": written.author,
        "source": written.design.source,
        "plan": to_json(written.design.plan),
        "verdict": to_json(written.verdict),
        "model": written.model,
    }


def restored(bench: Workbench, output: dict[str, Any]) -> Design:
    """Give the design of a kernel out of a stage's output."""
    if "plan" not in output:  # of a job from before plans were kept, which only the compiler wrote
        compiled = bench.compiled()
        if isinstance(compiled, Refusal):
            raise UserFacingError(refusal(compiled, models=False))
        return bench.designed(compiled.plan, str(output["source"]))
    return bench.designed(from_json(KernelPlan, output["plan"]), str(output["source"]))


def refusal(refused: Refusal, *, models: bool) -> Failure:
    """Give the compiler's refusal; ``models``: a model would be asked if there were one."""
    message = f"the {COMPILER} author cannot write this kernel: {refused.sentence}"
    return Failure(FailureCode.refused, message, BOTH_WAYS if models else "Rewrite the reference without it.")


def _writer(context: StageContext, refused: Refusal | None) -> str:
    wanted = context.request.options.author
    if wanted is AuthorName.llm:
        if not has_models(context):
            raise UserFacingError(NO_MODEL)
        return MODEL
    if refused is None:
        return COMPILER
    if wanted is AuthorName.compiler or not has_models(context):
        raise UserFacingError(refusal(refused, models=wanted is AuthorName.auto))
    return MODEL
